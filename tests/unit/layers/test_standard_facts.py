"""A labelled table of what people say: which sentences are facts about them, in normal form, and which are not.

English, Chinese and Japanese, all invented. Whether a row is a fact was decided when it was written down; the normal
forms are the rules' own, read through row by row. A row that fails shows a rule that changed.
"""

from __future__ import annotations

import pytest

from memory_sqlite.layers.standard import facts

POSITIVE: list[tuple[str, list[tuple[str, str, str, int]]]] = [
    ("I love tea", [("I love tea", "preference:tea", "tea", 1)]),
    (
        "I like tea and coffee. My name is Ada. Never call me before 9!",
        [
            ("I like tea and coffee", "preference:tea and coffee", "tea and coffee", 1),
            ("My name is Ada", "identity:name", "ada", 1),
            ("Never call me before 9", "instruction:call me before 9", "call me before 9", -1),
        ],
    ),
    (
        "I really like dark mode, but I hate light mode.",
        [
            ("I really like dark mode", "preference:dark mode", "dark mode", 1),
            ("I hate light mode", "preference:light mode", "light mode", -1),
        ],
    ),
    ("I don't like coffee any more", [("I don't like coffee any more", "preference:coffee", "coffee", -1)]),
    ("I like v1.2 of the api", [("I like v1.2 of the api", "preference:v1.2 of the api", "v1.2 of the api", 1)]),
    (
        "My name is Ada and I live in Oslo.",
        [("My name is Ada", "identity:name", "ada", 1), ("I live in Oslo", "identity:home", "oslo", 1)],
    ),
    ("my name is bea", [("my name is bea", "identity:name", "bea", 1)]),
    (
        "I'm allergic to peanuts, so what can I eat?",
        [("I'm allergic to peanuts", "identity:allergy:peanut", "peanut", 1)],
    ),
    ("call me Ada", [("call me Ada", "identity:called", "ada", 1)]),
    ("Please call me Ada from now on.", [("Please call me Ada", "identity:called", "ada", 1)]),
    ("I am a nurse.", [("I am a nurse", "identity:job", "nurse", 1)]),
    (
        "I'm a senior software engineer at Equinor and I love cats.",
        [
            ("I'm a senior software engineer at Equinor", "identity:job", "senior software engineer", 1),
            ("I love cats", "preference:cat", "cat", 1),
        ],
    ),
    ("I work at Equinor", [("I work at Equinor", "identity:employer", "equinor", 1)]),
    ("I work as a nurse in Bergen", [("I work as a nurse in Bergen", "identity:job", "nurse", 1)]),
    ("I live in Oslo now", [("I live in Oslo now", "identity:home", "oslo", 1)]),
    ("Always use tabs.", [("Always use tabs", "instruction:use tab", "use tab", 1)]),
    ("Please don't use emojis.", [("Please don't use emojis", "instruction:use emojis", "use emojis", -1)]),
    ("From now on, answer in German.", [("From now on, answer in German", "instruction:language", "german", 1)]),
    ("From now on call me Bob", [("From now on call me Bob", "identity:called", "bob", 1)]),
    ("Answer in Chinese from now on", [("Answer in Chinese from now on", "instruction:language", "chinese", 1)]),
    ("Hi, I'm Ada.", [("I'm Ada", "identity:name", "ada", 1)]),
    ("Remember that I'm allergic to nuts.", [("I'm allergic to nuts", "identity:allergy:nut", "nut", 1)]),
    ("My favourite colour is green", [("My favourite colour is green", "preference:favourite:colour", "green", 1)]),
    ("my wife is called Eva", [("my wife is called Eva", "identity:wife", "eva", 1)]),
    ("I'm vegan", [("I'm vegan", "identity:is:vegan", "vegan", 1)]),
    (
        "We prefer PostgreSQL over MySQL",
        [("We prefer PostgreSQL over MySQL", "preference:postgresql", "postgresql", 1)],
    ),
    ("I use Vim", [("I use Vim", "preference:use:vim", "vim", 1)]),
    ("I don't use Vim any more", [("I don't use Vim any more", "preference:use:vim", "vim", -1)]),
    ("I moved to Bergen", [("I moved to Bergen", "identity:home", "bergen", 1)]),
    ("I'm 34 years old", [("I'm 34 years old", "identity:age", "34", 1)]),
    ("I prefer tea to coffee", [("I prefer tea to coffee", "preference:tea", "tea", 1)]),
    ("I can't eat gluten", [("I can't eat gluten", "preference:gluten", "gluten", -1)]),
    ("My time zone is Europe/Oslo", [("My time zone is Europe/Oslo", "identity:time zone", "europe/oslo", 1)]),
    ("I have two cats", [("I have two cats", "identity:has:cat", "two cat", 1)]),
    (
        "You should always ask before deleting files.",
        [
            (
                "You should always ask before deleting files",
                "instruction:ask before deleting file",
                "ask before deleting file",
                1,
            )
        ],
    ),
    ('I like "Dune" a lot', [('I like "Dune" a lot', "preference:dune", "dune", 1)]),
    ("- I love hiking", [("I love hiking", "preference:hiking", "hiking", 1)]),
    ("**I prefer dark mode**", [("I prefer dark mode", "preference:dark mode", "dark mode", 1)]),
    ("I no longer work at Equinor", [("I no longer work at Equinor", "identity:employer", "equinor", -1)]),
    (
        "我喜欢简洁的中文回答。明天天气如何？",
        [("我喜欢简洁的中文回答", "preference:简洁的中文回答", "简洁的中文回答", 1)],
    ),
    (
        "我喜欢 TypeScript 严格模式",
        [("我喜欢 TypeScript 严格模式", "preference:typescript 严格模式", "typescript 严格模式", 1)],
    ),
    ("我喜欢茶", [("我喜欢茶", "preference:茶", "茶", 1)]),
    ("我叫小明，我喜欢咖啡", [("我叫小明", "identity:name", "小明", 1), ("我喜欢咖啡", "preference:咖啡", "咖啡", 1)]),
    ("我不喜欢香菜", [("我不喜欢香菜", "preference:香菜", "香菜", -1)]),
    ("我不太喜欢香菜", [("我不太喜欢香菜", "preference:香菜", "香菜", -1)]),
    ("我不喜欢咖啡了", [("我不喜欢咖啡了", "preference:咖啡", "咖啡", -1)]),
    ("我是护士", [("我是护士", "identity:job", "护士", 1)]),
    ("我是一名软件工程师", [("我是一名软件工程师", "identity:job", "软件工程师", 1)]),
    ("我是北京人", [("我是北京人", "identity:origin", "北京", 1)]),
    ("我是素食主义者", [("我是素食主义者", "identity:is:素食主义者", "素食主义者", 1)]),
    ("我住在上海", [("我住在上海", "identity:home", "上海", 1)]),
    ("我现在住在杭州", [("我现在住在杭州", "identity:home", "杭州", 1)]),
    ("我对花生过敏", [("我对花生过敏", "identity:allergy:花生", "花生", 1)]),
    ("我对花生不过敏了", [("我对花生不过敏了", "identity:allergy:花生", "花生", -1)]),
    ("我对海鲜过敏，你推荐什么菜？", [("我对海鲜过敏", "identity:allergy:海鲜", "海鲜", 1)]),
    ("我们喜欢徒步", [("我们喜欢徒步", "preference:徒步", "徒步", 1)]),
    ("我们团队一直用PostgreSQL", [("我们团队一直用PostgreSQL", "preference:use:postgresql", "postgresql", 1)]),
    (
        "以后请用中文回答；请始终给出来源",
        [
            ("以后请用中文回答", "instruction:language", "chinese", 1),
            ("请始终给出来源", "instruction:给出来源", "给出来源", 1),
        ],
    ),
    ("请始终给出来源，谢谢", [("请始终给出来源", "instruction:给出来源", "给出来源", 1)]),
    ("请不要使用表情符号", [("请不要使用表情符号", "instruction:表情符号", "表情符号", -1)]),
    ("以后不要再用英文回复", [("以后不要再用英文回复", "instruction:英文回复", "英文回复", -1)]),
    ("从现在起，请叫我老王", [("请叫我老王", "identity:called", "老王", 1)]),
    ("我的时区是东八区", [("我的时区是东八区", "identity:time zone", "东八区", 1)]),
    ("我最喜欢的颜色是蓝色", [("我最喜欢的颜色是蓝色", "preference:favourite:颜色", "蓝色", 1)]),
    ("我的名字是李雷", [("我的名字是李雷", "identity:name", "李雷", 1)]),
    ("请记住：我对青霉素过敏", [("我对青霉素过敏", "identity:allergy:青霉素", "青霉素", 1)]),
    ("其实我讨厌下雨天", [("我讨厌下雨天", "preference:下雨天", "下雨天", -1)]),
    ("我不吃猪肉", [("我不吃猪肉", "preference:猪肉", "猪肉", -1)]),
    ("我在腾讯工作", [("我在腾讯工作", "identity:employer", "腾讯", 1)]),
    ("我来自成都", [("我来自成都", "identity:origin", "成都", 1)]),
    ("我今年30岁", [("我今年30岁", "identity:age", "30", 1)]),
    ("我老婆叫小红", [("我老婆叫小红", "identity:wife", "小红", 1)]),
    ("我爱喝咖啡", [("我爱喝咖啡", "preference:咖啡", "咖啡", 1)]),
    ("我有两只猫", [("我有两只猫", "identity:has:cat", "两只猫", 1)]),
    ("叫我小王就好", [("叫我小王就好", "identity:called", "小王", 1)]),
    ("说实话，我喜欢安静", [("我喜欢安静", "preference:安静", "安静", 1)]),
    ("我喜欢咖啡，你呢？", [("我喜欢咖啡", "preference:咖啡", "咖啡", 1)]),
    ("始终使用简体中文", [("始终使用简体中文", "instruction:简体中文", "简体中文", 1)]),
    ("我喜歡喝茶", [("我喜歡喝茶", "preference:茶", "茶", 1)]),
    ("我喜欢《三体》", [("我喜欢《三体》", "preference:《三体》", "《三体》", 1)]),
    ("私はコーヒーが好きです", [("私はコーヒーが好きです", "preference:コーヒー", "コーヒー", 1)]),
    ("私はコーヒーが大好きです。", [("私はコーヒーが大好きです", "preference:コーヒー", "コーヒー", 1)]),
    ("私は納豆が嫌いです", [("私は納豆が嫌いです", "preference:納豆", "納豆", -1)]),
    ("私はコーヒーが好きではありません", [("私はコーヒーが好きではありません", "preference:コーヒー", "コーヒー", -1)]),
    ("私の名前は田中です", [("私の名前は田中です", "identity:name", "田中", 1)]),
    ("僕は東京に住んでいます", [("僕は東京に住んでいます", "identity:home", "東京", 1)]),
    ("私は看護師です", [("私は看護師です", "identity:job", "看護師", 1)]),
    ("私は日本人です", [("私は日本人です", "identity:is:日本人", "日本人", 1)]),
    ("私は卵アレルギーです", [("私は卵アレルギーです", "identity:allergy:卵", "卵", 1)]),
    ("今後は日本語で答えてください", [("今後は日本語で答えてください", "instruction:language", "japanese", 1)]),
    ("絵文字を使わないでください", [("絵文字を使わないでください", "instruction:絵文字", "絵文字", -1)]),
    ("私の誕生日は5月3日です", [("私の誕生日は5月3日です", "identity:birthday", "5月3日", 1)]),
    ("私はお茶が好きですが、おすすめはありますか？", [("私はお茶が好きですが", "preference:お茶", "お茶", 1)]),
    ("私はVimを使っています", [("私はVimを使っています", "preference:use:vim", "vim", 1)]),
    ("田中と呼んでください", [("田中と呼んでください", "identity:called", "田中", 1)]),
    ("I have a peanut allergy.", [("I have a peanut allergy", "identity:allergy:peanut", "peanut", 1)]),
    ("I’m allergic to cats", [("I’m allergic to cats", "identity:allergy:cat", "cat", 1)]),
    (
        "Hey! My name's Bea and I'm a nurse.",
        [("My name's Bea", "identity:name", "bea", 1), ("I'm a nurse", "identity:job", "nurse", 1)],
    ),
    ("I'm Ada Lovelace, nice to meet you", [("I'm Ada Lovelace", "identity:name", "ada lovelace", 1)]),
    (
        "I speak Norwegian and English",
        [("I speak Norwegian and English", "identity:language:norwegian and english", "norwegian and english", 1)],
    ),
    ("I hate cilantro!", [("I hate cilantro", "preference:cilantro", "cilantro", -1)]),
    ("I can't stand loud music", [("I can't stand loud music", "preference:loud music", "loud music", -1)]),
    ("By the way, I prefer metric units.", [("I prefer metric units", "preference:metric unit", "metric unit", 1)]),
    (
        "please always cite your sources",
        [("please always cite your sources", "instruction:cite your source", "cite your source", 1)],
    ),
    (
        "Never use semicolons in my JavaScript, please.",
        [
            (
                "Never use semicolons in my JavaScript",
                "instruction:use semicolons in my javascript",
                "use semicolons in my javascript",
                -1,
            )
        ],
    ),
    (
        "I want you to always answer in French",
        [("I want you to always answer in French", "instruction:language", "french", 1)],
    ),
    (
        "Going forward, keep answers under 100 words.",
        [
            (
                "Going forward, keep answers under 100 words",
                "instruction:keep answers under 100 word",
                "keep answers under 100 word",
                1,
            )
        ],
    ),
    ("Reply in German from now on.", [("Reply in German from now on", "instruction:language", "german", 1)]),
    ("I was born in 1990", [("I was born in 1990", "identity:birth", "1990", 1)]),
    ("my email is ada@example.org", [("my email is ada@example.org", "identity:email", "ada@example.org", 1)]),
    ("My pronouns are they/them", [("My pronouns are they/them", "identity:pronoun", "they/them", 1)]),
    ("I'm not a vegetarian any more", [("I'm not a vegetarian any more", "identity:is:vegetarian", "vegetarian", -1)]),
    ("I am no longer allergic to nuts", [("I am no longer allergic to nuts", "identity:allergy:nut", "nut", -1)]),
    (
        "About me:\n- I love tea\n- I live in Oslo",
        [("I love tea", "preference:tea", "tea", 1), ("I live in Oslo", "identity:home", "oslo", 1)],
    ),
    ("I'm left-handed", [("I'm left-handed", "identity:is:left-handed", "left-handed", 1)]),
    (
        "I really don't like mushrooms, so no mushrooms please",
        [("I really don't like mushrooms", "preference:mushroom", "mushroom", -1)],
    ),
    (
        "I love it when answers are short",
        [("I love it when answers are short", "preference:it when answers are short", "it when answers are short", 1)],
    ),
    ("I've never liked olives", [("I've never liked olives", "preference:olive", "olive", -1)]),
    (
        "I enjoy long walks; I dislike crowds.",
        [
            ("I enjoy long walks", "preference:long walk", "long walk", 1),
            ("I dislike crowds", "preference:crowd", "crowd", -1),
        ],
    ),
    ("Remember: I work at Equinor.", [("I work at Equinor", "identity:employer", "equinor", 1)]),
    ("I'm based in Berlin", [("I'm based in Berlin", "identity:home", "berlin", 1)]),
    ("I come from Peru", [("I come from Peru", "identity:origin", "peru", 1)]),
    ("I'm a big fan of jazz", [("I'm a big fan of jazz", "preference:jazz", "jazz", 1)]),
    ("I'm not a fan of jazz", [("I'm not a fan of jazz", "preference:jazz", "jazz", -1)]),
    ("Our team is great. We always use tabs", [("We always use tabs", "preference:use:tab", "tab", 1)]),
    (
        "I'm lactose intolerant, what cheese can I eat?",
        [("I'm lactose intolerant", "identity:is:lactose intolerant", "lactose intolerant", 1)],
    ),
    ("I have type 2 diabetes", [("I have type 2 diabetes", "identity:has:type 2 diabetes", "type 2 diabetes", 1)]),
    ("My dog's name is Rex", [("My dog's name is Rex", "identity:dog", "rex", 1)]),
    ("I no longer like tea", [("I no longer like tea", "preference:tea", "tea", -1)]),
    ("I'm from Bergen originally", [("I'm from Bergen originally", "identity:origin", "bergen", 1)]),
    (
        "I like tea, coffee and cake.",
        [("I like tea, coffee and cake", "preference:tea, coffee and cake", "tea, coffee and cake", 1)],
    ),
    (
        "I love cooking and I hate cleaning.",
        [
            ("I love cooking", "preference:cooking", "cooking", 1),
            ("I hate cleaning", "preference:cleaning", "cleaning", -1),
        ],
    ),
    (
        "Don't ever delete my files without asking",
        [
            (
                "Don't ever delete my files without asking",
                "instruction:delete my files without asking",
                "delete my files without asking",
                -1,
            )
        ],
    ),
    ("You must never push to main", [("You must never push to main", "instruction:push to main", "push to main", -1)]),
    (
        "I prefer short answers (I'm a busy nurse)",
        [
            ("I prefer short answers", "preference:short answer", "short answer", 1),
            ("I'm a busy nurse", "identity:job", "busy nurse", 1),
        ],
    ),
    ("I do not drink alcohol", [("I do not drink alcohol", "preference:alcohol", "alcohol", -1)]),
    ("I live in Bergen now, not Oslo.", [("I live in Bergen now", "identity:home", "bergen", 1)]),
    ("i love tea", [("i love tea", "preference:tea", "tea", 1)]),
    ("我是做后端开发的", [("我是做后端开发的", "identity:job", "后端开发", 1)]),
    ("我爱吃辣", [("我爱吃辣", "preference:辣", "辣", 1)]),
    ("我们都用飞书", [("我们都用飞书", "preference:use:飞书", "飞书", 1)]),
    ("我从来不喝酒", [("我从来不喝酒", "preference:酒", "酒", -1)]),
    ("请别用英文", [("请别用英文", "instruction:英文", "英文", -1)]),
    ("今后请用英文回复我", [("今后请用英文回复我", "instruction:language", "english", 1)]),
    ("我搬到深圳了", [("我搬到深圳了", "identity:home", "深圳", 1)]),
    ("我不是学生了", [("我不是学生了", "identity:job", "学生", -1)]),
    ("我讨厌加班！", [("我讨厌加班", "preference:加班", "加班", -1)]),
    ("大家都叫我阿强", [("大家都叫我阿强", "identity:called", "阿强", 1)]),
    ("我的猫叫咪咪", [("我的猫叫咪咪", "identity:cat", "咪咪", 1)]),
    ("因为我对牛奶过敏，所以不喝拿铁", [("我对牛奶过敏", "identity:allergy:牛奶", "牛奶", 1)]),
    ("我习惯早起", [("我习惯早起", "preference:早起", "早起", 1)]),
    ("僕はラーメンが大好き！", [("僕はラーメンが大好き", "preference:ラーメン", "ラーメン", 1)]),
    ("私はベジタリアンです", [("私はベジタリアンです", "identity:is:ベジタリアン", "ベジタリアン", 1)]),
    ("私は牛乳アレルギーがあります", [("私は牛乳アレルギーがあります", "identity:allergy:牛乳", "牛乳", 1)]),
    ("私はグーグルで働いています", [("私はグーグルで働いています", "identity:employer", "グーグル", 1)]),
    ("いつも敬語で話してください", [("いつも敬語で話してください", "instruction:敬語で話し", "敬語で話し", 1)]),
    ("ちなみに、私は猫が好きです。", [("私は猫が好きです", "preference:猫", "猫", 1)]),
    ("私はもう京都に住んでいません", [("私はもう京都に住んでいません", "identity:home", "京都", -1)]),
    (
        "我最喜欢的电影是《霸王别姬》",
        [("我最喜欢的电影是《霸王别姬》", "preference:favourite:电影", "《霸王别姬》", 1)],
    ),
    ("I'm no longer a nurse", [("I'm no longer a nurse", "identity:job", "nurse", -1)]),
    ("I am not a teacher any more", [("I am not a teacher any more", "identity:job", "teacher", -1)]),
    ("I live in Oslo now.", [("I live in Oslo now", "identity:home", "oslo", 1)]),
    # written before the rules had seen them
    (
        "I adore black coffee in the morning",
        [
            (
                "I adore black coffee in the morning",
                "preference:black coffee in the morning",
                "black coffee in the morning",
                1,
            )
        ],
    ),
    ("I can't eat shellfish", [("I can't eat shellfish", "preference:shellfish", "shellfish", -1)]),
    (
        "Hello, my name is Priya Nair and I work for Statoil",
        [
            ("my name is Priya Nair", "identity:name", "priya nair", 1),
            ("I work for Statoil", "identity:employer", "statoil", 1),
        ],
    ),
    ("I'm a freelance photographer", [("I'm a freelance photographer", "identity:job", "freelance photographer", 1)]),
    ("we prefer squash merges", [("we prefer squash merges", "preference:squash merge", "squash merge", 1)]),
    (
        "Please never send emails without asking me",
        [
            (
                "Please never send emails without asking me",
                "instruction:send emails without asking me",
                "send emails without asking me",
                -1,
            )
        ],
    ),
    (
        "Always write tests first",
        [("Always write tests first", "instruction:write tests first", "write tests first", 1)],
    ),
    ("I dislike long meetings", [("I dislike long meetings", "preference:long meeting", "long meeting", -1)]),
    (
        "I don't really enjoy horror films",
        [("I don't really enjoy horror films", "preference:horror film", "horror film", -1)],
    ),
    ("my girlfriend's name is Lena", [("my girlfriend's name is Lena", "identity:girlfriend", "lena", 1)]),
    ("I'm pregnant, which cheese is safe?", [("I'm pregnant", "identity:is:pregnant", "pregnant", 1)]),
    ("You can call me Max", [("You can call me Max", "identity:called", "max", 1)]),
    ("I have three kids", [("I have three kids", "identity:has:kid", "three kid", 1)]),
    (
        "Please do not use the word synergy",
        [("Please do not use the word synergy", "instruction:use the word synergy", "use the word synergy", -1)],
    ),
    ("my timezone is CET", [("my timezone is CET", "identity:time zone", "cet", 1)]),
    (
        "I'm a vegetarian and I love spicy food",
        [
            ("I'm a vegetarian", "identity:is:vegetarian", "vegetarian", 1),
            ("I love spicy food", "preference:spicy food", "spicy food", 1),
        ],
    ),
    ("我特别喜欢爬山", [("我特别喜欢爬山", "preference:爬山", "爬山", 1)]),
    ("我叫王芳，我住在南京", [("我叫王芳", "identity:name", "王芳", 1), ("我住在南京", "identity:home", "南京", 1)]),
    ("我是一名小学老师", [("我是一名小学老师", "identity:job", "小学老师", 1)]),
    ("我不吃辣", [("我不吃辣", "preference:辣", "辣", -1)]),
    ("请不要用表格", [("请不要用表格", "instruction:表格", "表格", -1)]),
    ("以后都用公制单位", [("以后都用公制单位", "instruction:公制单位", "公制单位", 1)]),
    ("我在一家银行上班", [("我在一家银行上班", "identity:employer", "一家银行", 1)]),
    ("我家有一只狗", [("我家有一只狗", "identity:has:dog", "一只狗", 1)]),
    ("我对猫毛过敏，能养什么宠物？", [("我对猫毛过敏", "identity:allergy:猫毛", "猫毛", 1)]),
    ("我的生日是3月5日", [("我的生日是3月5日", "identity:birthday", "3月5日", 1)]),
    ("我讨厌长篇大论的回答", [("我讨厌长篇大论的回答", "preference:长篇大论的回答", "长篇大论的回答", -1)]),
    ("私はピーマンが苦手です", [("私はピーマンが苦手です", "preference:ピーマン", "ピーマン", -1)]),
    ("私の趣味は登山です", [("私の趣味は登山です", "identity:hobby", "登山", 1)]),
    ("これからは短く答えてください", [("これからは短く答えてください", "instruction:短く答え", "短く答え", 1)]),
    (
        "僕は大阪に住んでいるエンジニアです",
        [("僕は大阪に住んでいるエンジニアです", "identity:job", "大阪に住んでいるエンジニア", 1)],
    ),
    ("私は左利きです", [("私は左利きです", "identity:is:左利き", "左利き", 1)]),
]

NEGATIVE: list[str] = [
    "Can you explain why I like sweets?",
    "She told me she loves tea",
    "If I lived in Rome I would love it",
    "The manual says: never open the case",
    "Have I ever said I like tea?",
    "Someone like me",
    "I am on my way",
    "I am here",
    "I'm working on a report",
    "I need help with my name field",
    "You always do that",
    "People who live in Oslo",
    "The test always fails on CI",
    "I love how fast this is",
    "I like where this is going",
    "I am trying to install it",
    "Never mind, I found it",
    "Please don't close this issue",
    'How do I say "my name is Ada" in French?',
    "I was wondering if I like it",
    "I'm being sarcastic",
    "我不知道",
    "我觉得不错",
    "我的代码报错了",
    "我要怎么安装",
    "他叫小李，他喜欢足球",
    "请不要删掉上面那段",
    "我喜欢你的回答",
    "这是我喜欢的歌吗",
    "我是想问一下",
    "私はどうすればいいですか",
    "彼女は東京に住んでいます",
    "猫が好きな人は？",
    "いつもありがとうございます",
    "Do I like spicy food?",
    "It always rains in Seattle.",
    "hi like this",
    "I liked the film",
    "If I like tea, what then?",
    "She said I like tea",
    '"I love tea" is what she said',
    "> I love tea",
    "Alice: I love tea",
    "I love tea, she said.",
    "I am sure",
    "I am going",
    "I'm not sure",
    "I'm a bit tired",
    "I like it",
    "I love you",
    "I'd like tea",
    "I like what you did",
    "I like tea, right?",
    "Never mind",
    "Always happy to help",
    "Never heard of it",
    "Please don't worry",
    "Call me later",
    "Suppose my name is Bob. I live in Oslo.",
    "I used to like coffee",
    "I wish I lived in Oslo",
    "My name is hard to spell",
    "I work from home",
    "I think I like tea",
    "Maybe I like tea",
    "What if I live in Oslo?",
    "Imagine I am a nurse",
    "I hate to say this",
    "I like the second option",
    "When I'm tired, I like tea",
    "I love tea if it is cold",
    "```\nI love tea\n```",
    "Translate this:\nI love tea",
    "He told me that\nI love tea",
    "你知道我的名字吗？",
    "我喜欢什么？",
    "我喜欢什么",
    "如果我喜欢爬山，你会推荐哪里？",
    "请不要透露我的密码 hunter2",
    "他说我喜欢他",
    "他说，我喜欢他",
    "我喜欢你",
    "我喜欢这个方案",
    "我喜欢绿茶，对吧？",
    "我是说你可以走了",
    "我是不是该睡了？",
    "我叫了外卖",
    "我叫他过来",
    "我在努力工作",
    "我是在北京出生的吗？",
    "“我喜欢茶”是一句话",
    "假设我住在上海，房租多少？",
    "请不要担心",
    "我爱人是医生",
    "翻译：我喜欢茶",
    "我想喝茶",
    "我喜欢过她",
    "以后我会努力",
    "妈妈说我喜欢甜食",
    "我喜欢的话就买",
    "请不要现在删除",
    "彼は私はお茶が好きだと言った",
    "私はコーヒーが好きですか？",
    "「私はお茶が好き」と彼は言った",
    "もし私がお茶が好きなら",
    "私はコーヒーが好きでした",
    "心配しないでください",
    "今日は雨です",
    "コーヒーが好きな人は多い",
    "我住院了",
    "当我喜欢一个人的时候，我会害羞",
    "我要用中文写信",
    "What do I like?",
    "Would I like Oslo?",
    "I like what?",
    "Always look on the bright side?",
    "I like that idea.",
    "I'm good",
    "I'm Sorry",
    "I'm Back",
    "My name is on the list",
    "I live in hope",
    "I work hard",
    "I work on weekends",
    "I use the function below",
    "You like tea",
    "He always says never again",
    "They never call me",
    "The code never returns",
    "It never works",
    "Always been like that",
    "My wife says I like tea too much",
    "User: I love tea",
    "The lyrics go: I love you",
    "'I love tea,' she said",
    "“I live in Oslo” is a sentence",
    "If my name is Ada, then what?",
    "Let's say I live in Paris. I work at Google.",
    "I should always brush my teeth",
    "I will never do that again",
    "Is it true that I live in Oslo?",
    "I'd love a coffee",
    "I would like tea",
    "I am not sure I like tea",
    "I'm reading about nurses",
    "Write a story: I am a nurse",
    "Call me when you're done",
    "call me tomorrow",
    "Please don't do that",
    "Please don't use it yet",
    "my password is hunter2 and I live in Oslo",
    "I am a bit of a nurse?",
    "I like the way you write",
    "I live in a world of pain",
    "As a nurse, she said, I love people",
    "Translate the following:\n我喜欢茶",
    "Fix the grammar:\nI likes tea",
    "from now on I will run",
    "I might love tea",
    "我觉得我喜欢茶",
    "我不知道我喜欢什么",
    "你喜欢茶吗",
    "小明：我喜欢咖啡",
    "我的手机坏了",
    "我是来问路的",
    "我是不会去的",
    "我在想问题",
    "我叫不动他",
    "请不要这样",
    "他问：我是医生吗",
    "我喜欢听你说话",
    "例如，我喜欢茶",
    "“请始终用中文”是什么意思？",
    "我爱你",
    "我们是朋友",
    "我是你的老师吗",
    "> 我喜欢茶",
    "私は何が好きですか？",
    "彼は私が好きです",
    "私は好きなことをします",
    "「私は医者です」と彼女は言った",
    "お茶が好きですか？",
    "これを使わないでください",
    "私はコーヒーが好きかもしれない",
    "例えば、私は猫が好きです",
    "私は昨日東京に行きました",
    "`I love tea`",
    "```py\n# I love tea\n```",
    "请用英文回答",
]


@pytest.mark.parametrize(("text", "expected"), POSITIVE, ids=[text[:40] for text, _ in POSITIVE])
def test_a_statement_about_oneself_is_a_fact(text: str, expected: list[tuple[str, str, str, int]]) -> None:
    assert [(fact.content, fact.slot, fact.value, fact.polarity) for fact in facts(text)] == expected


@pytest.mark.parametrize("text", NEGATIVE, ids=[text[:40] for text in NEGATIVE])
def test_questions_conditions_quotations_and_others_words_are_no_facts(text: str) -> None:
    assert facts(text) == []


@pytest.mark.parametrize(
    ("earlier", "later", "same_value", "same_polarity"),
    [
        ("I love coffee", "I don't like coffee any more", True, False),
        ("I love coffee", "I really like drinking coffee!", True, True),
        ("我喜欢香菜", "我不喜欢香菜", True, False),
        ("我喜欢喝咖啡", "我爱咖啡", True, True),
        ("my name is Ada", "my name is Bea", False, True),
        ("I live in Bergen", "I live in Oslo now", False, True),
        ("我住在上海", "我搬到深圳了", False, True),
        ("I'm allergic to nuts", "I'm no longer allergic to nuts", True, False),
        ("Always use tabs", "Never use tabs", True, False),
        ("From now on, answer in German", "以后请用中文回答", False, True),
        ("请始终用英文回答", "今後は英語で答えてください", True, True),
        ("my name is Ada", "我叫小明", False, True),
        ("I live in Oslo", "僕は東京に住んでいます", False, True),
        ("絵文字を使わないでください", "いつも絵文字を使ってください", True, False),
        ("I work as a nurse", "I'm a teacher", False, True),
        ("I use Vim", "I don't use Vim any more", True, False),
        ("my timezone is CET", "我的时区是东八区", False, True),
        ("I'm a nurse", "I'm no longer a nurse", True, False),
        ("我是护士", "我不是护士了", True, False),
        ("My favourite colour is green", "my favorite colour is blue", False, True),
    ],
)
def test_a_later_statement_speaks_to_the_earlier_one(
    earlier: str, later: str, same_value: bool, same_polarity: bool
) -> None:
    (first,), (second,) = facts(earlier), facts(later)
    assert first.slot == second.slot
    assert (first.value == second.value) is same_value
    assert (first.polarity == second.polarity) is same_polarity


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("I love tea", "I love coffee"),
        ("I'm vegan", "I'm left-handed"),
        ("我喜欢茶", "我喜欢咖啡"),
        ("my name is Ada", "call me Ada"),
    ],
)
def test_statements_about_different_matters_leave_each_other_alone(one: str, other: str) -> None:
    assert facts(one)[0].slot != facts(other)[0].slot


def test_of_two_contradicting_statements_in_one_message_the_later_stays() -> None:
    assert [(fact.value, fact.polarity) for fact in facts("I like tea. No wait, I don't like tea.")] == [("tea", -1)]


def test_kinds() -> None:
    found = facts("I love tea. My name is Ada. Always use tabs.")
    assert [fact.kind for fact in found] == ["preference", "identity", "instruction"]


def test_at_most_eight_facts_a_message() -> None:
    found = facts(" ".join(f"I like thing{number}x." for number in range(20)))
    assert [fact.value for fact in found] == [f"thing{number}x" for number in range(8)]
    seven = " ".join(f"I like thing{number}x." for number in range(7))
    assert len(facts(f"{seven} I love tea and I hate coffee and my name is Ada.")) == 8


def test_a_hard_wrapped_sentence_is_one_sentence() -> None:
    text = "The doctor who examined me last week at the hospital told everybody else\nI love tea and I am a nurse."
    assert facts(text) == []


def test_pasted_material_of_one_endless_sentence_holds_no_facts() -> None:
    assert facts("I like " + "word " * 200) == []
