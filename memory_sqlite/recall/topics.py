"""A small map from what a question is about to what preferences of that kind are about: "drink" to tea, "听" to jazz.

Without a model it is the only way from "what do I like to drink?" to "I love tea". It widens nothing but preference
facts asked for by a question about the asker's own taste (``intents``), so that a gap in the table costs one such
recall and a word too many injects at most one fact. Invented for this project; a topic is added where a table in
``tests/unit/recall`` shows the need.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Final

from memory_sqlite.search.folding import fold
from memory_sqlite.values import dataclass

_WORD: Final = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_NOT_LATIN: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]")


@dataclass(frozen=True)
class Topic:
    """One topic: ``asked`` are words of a question that name it, ``members`` words of a fact that belong to it.

    Words in unspaced scripts are found as substrings, others as whole words in singular or plural.
    """

    name: str
    asked: str
    members: str

    @cached_property
    def _asked(self) -> tuple[frozenset[str], tuple[str, ...]]:
        return _parts(self.asked)

    @cached_property
    def _told(self) -> tuple[frozenset[str], tuple[str, ...]]:
        return _parts(f"{self.asked} {self.members}")

    def is_asked_in(self, text: str) -> bool:
        """Whether a folded question names this topic."""
        return _found(text, self._asked)

    def is_told_in(self, text: str) -> bool:
        """Whether a fact is about this topic."""
        return _found(fold(text), self._told)


def _parts(words: str) -> tuple[frozenset[str], tuple[str, ...]]:
    folded = fold(words).casefold().split()
    return (
        frozenset(word for word in folded if not _NOT_LATIN.search(word)),
        tuple(word for word in folded if _NOT_LATIN.search(word)),
    )


def _found(text: str, parts: tuple[frozenset[str], tuple[str, ...]]) -> bool:
    words, pieces = parts
    lowered = text.casefold()
    for word in _WORD.findall(lowered):
        if word in words or (word.endswith("s") and (word[:-1] in words or word[:-2] in words)):
            return True
    return any(piece in lowered for piece in pieces)


TOPICS: Final = (
    Topic(
        "drink",
        """
        drink drinking beverage thirsty pub bar cafe 喝 饮料 飲料 飲み物 飲む 飲み 飲ん 마시
        """,
        """
        tea coffee espresso latte cappuccino matcha oolong water juice lemonade soda cola coke beer ale lager wine
        whisky whiskey rum gin vodka cocktail milk cocoa chocolate smoothie kombucha cider sake champagne 茶 咖啡
        果汁 牛奶 豆浆 啤酒 白酒 红酒 可乐 汽水 酒 コーヒー 紅茶 ジュース 牛乳 ビール ワイン 水 커피 차 맥주
        """,
    ),
    Topic(
        "food",
        """
        eat eating food meal dish snack breakfast brunch lunch dinner supper cook cooking cuisine restaurant
        dessert hungry recipe 吃 食物 菜 早餐 午餐 晚餐 早饭 午饭 晚饭 饭店 餐厅 点心 零食 食べ 料理 ご飯 朝食
        昼食 夕食 昼ご飯 晩ご飯 おやつ 먹 음식
        """,
        """
        pizza pasta noodle ramen sushi rice bread cheese meat beef pork chicken lamb fish seafood shrimp tofu
        vegetable mushroom cilantro coriander garlic onion tomato potato salad soup curry burger sandwich taco
        burrito dumpling hotpot bbq egg fruit apple banana mango strawberry orange avocado nut peanut chocolate
        cake cookie ice-cream pie spicy sweet salty sour vegan vegetarian olive chili pepper 辣 甜 面 米饭 饺子
        火锅 牛肉 猪肉 鸡肉 羊肉 鱼 虾 海鲜 豆腐 蔬菜 香菜 大蒜 洋葱 蘑菇 水果 苹果 香蕉 芒果 草莓 蛋糕 巧克力
        川菜 粤菜 寿司 ラーメン うどん そば カレー 肉 魚 野菜 果物 りんご いちご ケーキ チョコ パン 辛い 甘い 김치
        """,
    ),
    Topic(
        "music",
        """
        music song listen listening band concert playlist album 音乐 歌 听 音楽 曲 聴く 聴き 聞き
        """,
        """
        jazz rock pop classical opera hip-hop rap blues folk metal punk techno house piano guitar violin bach
        mozart beethoven chopin 爵士 摇滚 古典 民谣 说唱 钢琴 吉他 ジャズ ロック クラシック ピアノ
        """,
    ),
    Topic(
        "sport",
        """
        sport exercise workout fitness training hobby 运动 锻炼 健身 爱好 スポーツ 運動 趣味
        """,
        """
        football soccer basketball baseball tennis badminton volleyball golf hockey rugby cricket swim swimming
        run running jogging cycling hiking climbing skiing snowboarding surfing yoga pilates boxing chess 足球
        篮球 网球 羽毛球 乒乓球 跑步 游泳 骑车 徒步 爬山 滑雪 瑜伽 サッカー 野球 テニス 水泳 ランニング 登山
        スキー
        """,
    ),
    Topic(
        "film",
        """
        film movie cinema series show watch watching tv netflix 电影 电视剧 剧 看 映画 ドラマ 見る
        """,
        """
        comedy thriller horror drama documentary anime western sci-fi noir romance cartoon musical 科幻 喜剧
        恐怖片 悬疑 纪录片 动漫 动画 アニメ ホラー コメディ
        """,
    ),
    Topic(
        "book",
        """
        book read reading novel author literature 书 读 小说 阅读 作家 本 読む 読み 小説
        """,
        """
        poetry poem fiction nonfiction biography memoir fantasy mystery detective manga comic history philosophy
        诗 科幻 传记 历史 哲学 漫画 推理
        """,
    ),
    Topic(
        "colour",
        """
        colour color shade 颜色 顔色 色
        """,
        """
        red blue green yellow orange purple violet pink black white grey gray brown teal turquoise beige gold
        silver 红 蓝 绿 黄 紫 粉 黑 白 灰 赤 青 緑 黄色 黒
        """,
    ),
    Topic(
        "animal",
        """
        animal pet 动物 宠物 動物 ペット
        """,
        """
        cat dog kitten puppy horse bird parrot rabbit hamster fish turtle snake owl fox 猫 狗 马 鸟 兔 仓鼠 犬 鳥
        うさぎ
        """,
    ),
    Topic(
        "travel",
        """
        travel trip holiday vacation destination visit 旅行 旅游 度假 旅行先
        """,
        """
        beach mountain sea city countryside island museum camping train hotel hostel window aisle seat 海边 海 山
        城市 乡村 岛 博物馆 火车 温泉 ビーチ 島
        """,
    ),
    Topic(
        "software",
        """
        editor ide tool software app framework library stack terminal shell browser theme 编辑器 工具 软件 框架
        エディタ ツール
        """,
        """
        vim neovim emacs vscode pycharm intellij git tmux zsh bash fish firefox chrome safari docker linux macos
        windows dark light tabs spaces pytest react vue django flask postgres sqlite 深色 浅色 ダーク
        """,
    ),
    Topic(
        "programming",
        """
        programming language code coding 编程 语言 代码 プログラミング 言語
        """,
        """
        python rust go golang java javascript typescript kotlin swift ruby haskell c c++ php scala elixir lua perl
        julia zig
        """,
    ),
)
"""Each topic's question words, then what belongs to it, in English, Chinese, Japanese and a little Korean."""


def topics_of(text: str) -> tuple[Topic, ...]:
    """The topics that a folded question names."""
    return tuple(topic for topic in TOPICS if topic.is_asked_in(text))
