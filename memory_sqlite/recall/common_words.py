"""Words that two unrelated texts share all the time: one of them is no reason to recall anything.

``EMPTY`` are words of talk and time that say nothing about a matter; ``COMMON`` are everyday words that say a little.
Needed beside the index's own counts, because in a young memory of ten notes every word is rare. Written by hand for
this project, in English, Chinese, Japanese and Korean; judged by the table in ``tests/unit/recall``. Only
``terms`` reads it. Latin words are compared by stem; Han characters stand in their search form (今周 for 今週).
"""

from __future__ import annotations

from typing import Final

EMPTY: Final = frozenset(
    """
    hi hello hey bye goodbye thanks thank thx please sorry ok okay yes yeah yep nope sure right well oh ah hmm lol
    great nice cool good fine bad better best really very quite just also too again still already maybe perhaps
    actually basically today tomorrow yesterday tonight morning afternoon evening night day days week weeks
    weekend month months year years hour hours minute minutes second seconds time times moment now later soon
    early late ago next last first before after monday tuesday wednesday thursday friday saturday sunday always
    never often sometimes usually ever once thing things stuff something anything everything nothing someone
    anyone everyone somebody anybody nobody one ones lot lots bit kind sort way ways much many more most less
    least few little some any all each every other another same different own such can could may might will would
    shall should must do does did done get gets got getting go goes going went gone come comes coming came make
    makes made making take takes took taking give gives gave given put puts let lets say says said tell told know
    knows knew known think thinks thought mean means meant see sees saw seen look looks looking looked want wants
    wanted need needs needed like likes liked try tries tried trying use uses used using keep keeps kept seem
    seems feel feels felt guess suppose wonder hope help helps helped ask asks asked answer question questions new
    old big small long short able remember remind reminder recall forget forgot forgotten memory memories a b c d
    e f g h i j k l m n o p q r s t u v w x y z
    今天 明天 昨天 前天 后天 今晚 早上 上午 中午 下午 晚上 现在 刚才 刚刚 以后 以前 之后 之前 最近 时候 时间 小时
    分钟 星期 这周 下周 上周 本周 周末 这个 那个 哪个 一个 一些 一下 一点 有点 什么 怎么 怎样 为什 为何 多少 哪里
    哪儿 哪些 这里 那里 这样 那样 可以 能不 不能 不会 不是 没有 有没 是不 是否 还是 还有 就是 但是 因为 所以 如果
    然后 已经 应该 可能 需要 想要 觉得 知道 告诉 帮我 请问 请你 麻烦 谢谢 你好 您好 再见 好的 我们 你们 他们 她们
    自己 大家 东西 事情 问题 记得 记住 记忆 忘了 忘记 我想 我要 我的 你的 他的 她的 的人 一次 一样 非常 比较 真的
    其实 或者 以及 关于 对于 喜欢 帮忙 看看 说说 我在 我是 我有 我叫 我会 我也 我很 我家 你是 你有 你能 你会 了一
    个人 么样 样的 么办 我喜 我爱 今日 明日 昨日 今朝 今夜 今周 来周 先周 今月 来月 先月 今年 来年 去年 时々
    毎日 本当 大丈 丈夫 自分 何时 何か 니다 습니 합니 입니 해요 하는 하고 그리 그런 이런 저는 나는 오늘 내일 어제
    지금 어떻 무엇
    """.split()  # noqa: SIM905 - read as words, not as a list
)

COMMON: Final = frozenset(
    """
    work works working worked job run runs running start starts started stop stops stopped begin end ends ended
    open opens close closed call calls called name names named show shows showed write writes wrote written read
    reads send sends sent find finds found change changes changed move moves moved turn turns turned play plays
    played talk talks talked speak meet meets met meeting meetings set sets setup add adds added remove removed
    check checks checked fix fixes fixed build builds built create creates created buy buys bought pay pays paid
    bring brings brought leave leaves left live lives lived stay stays stayed wait waits plan plans planned learn
    learns learned love loves loved hate hates hated prefer prefers enjoy enjoys favourite favorite happen happens
    happened eat eats drink drinks sleep walk drive cook book order list lists note notes home house room place
    places city country world street people person man woman men women friend friends family child children kid
    kids life money number numbers part parts point points case cases example examples idea ideas fact facts
    reason problem problems issue issues result results story line lines page pages word words text message
    messages email emails phone file files folder document documents data code program app application system
    systems user users computer machine server service project projects team teams company task tasks todo step
    steps version update updates updated test tests tested error errors state status info information report
    reports review schedule date dates deadline release event events group groups side head hand water food car
    school high low large great important main real true false full empty free busy ready hard easy simple quick
    quickly fast slow white black red blue green sure able whole half top bottom back front inside outside near
    far two three four five six seven eight nine ten hundred thousand million zero continue continues continued
    understand understands understood explain explains explained summary summaries summarize summarise translate
    translated article articles paragraph sentence draft describe compare rewrite improve suggest suggestion
    recommend function class method script bug feature difference details items item total price cost include
    topic subject title section format believe care matter matters agree sound sounds exactly probably especially
    finally instead together soon interesting funny sad happy type types typed sign signs signed travel travels
    travelled visit visits visited letter letters store stores shop shops door doors win wins won lose loses lost
    loss game games area areas level levels field fields symbol symbols position positions role roles general
    common special single various possible available likely certain clear current recent recently final major
    minor basic normal usual regular complete completed finish finished follow follows followed includes including
    involve involved allow allows allowed cause caused develop developed decide decided decision decisions choose
    chose chosen choice pick picked offer offered provide provided support supports supported join joined receive
    received return returned grow grows grew growing reach reached spend spent cut hit drop dropped fall fell rise
    hold holds held stand sit carry carried break broke broken throw catch push pull watch watches watched listen
    hear heard speaks spoke become became early express described impress affect impact inspire inspired goal
    goals dream dreams career activity activities experience experiences hobby hobbies interested interest
    interests related relationship passion popular successful success challenge challenges skill skills advice
    opinion purpose value values history future past beginning ending original modern young local public private
    personal professional social national international community member members customer client owner boy girl
    lady trip trips tour stuff picture pictures photo photos video videos image images language languages key keys
    codes size sizes color colors colour colours shape weight height length amount average minute several couple
    pair both either neither enough less least another rest else ago during until since against between among
    within without across along around behind above below under upon toward towards despite though although while
    whereas unless whether however therefore thus otherwise anyway somehow somewhere anywhere everywhere nowhere
    beyond
    工作 公司 项目 学习 学校 朋友 家人 孩子 电话 手机 电脑 文件 文档 代码 程序 系统 数据 用户 服务 消息 邮件 会议
    开会 计画 任务 更新 版本 测试 错误 名字 地方 城市 国家 世界 生活 方法 办法 情况 内容 信息 结果 原因 例子 开始
    结束 使用 完成 检查 修改 添加 删除 打开 关闭 发送 写一 写个 做一 一份 一篇 重要 主要 简单 容易 新的 旧的 不同
    相同 中文 英文 天气 吃饭 睡觉 回家 出去 过来 准备 安排 提醒 设置 推荐 建议 仕事 会社 友达 家族 名前 场所
    情报 理由 予定 确认 变更 质问 回答 终了 好き 회사 사람 문제 시간 사용 확인
    """.split()  # noqa: SIM905 - read as words, not as a list
)
