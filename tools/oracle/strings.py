"""Texts for recorded token ids: difficult cases for tokenizers, and typical user input."""
import random
import unicodedata

WORDS = """\
Hello|hello world|Hello, world!| leading space|trailing space |two  spaces|three   spaces
The quick brown fox jumps over the lazy dog.|ALL CAPS SHOUTING|camelCaseIdentifier|snake_case_name
kebab-case-name|SCREAMING_SNAKE|MixedCASEWord|antidisestablishmentarianism|a|Z| a|I|.|!|?| .|,,,
...|....|!!!!!!!!|?!?!|-- ---|***bold*** _it_|"quoted" 'single'|(paren) [brack] {brace}|<angle>
a/b\\c|#tag|@user|user@example.org|https://example.org/a/b?c=d&e=%20f#g|C:\\Dir\\file.txt
/usr/lib/x86_64|~/.config|50% off|$9.99|€20,50|£5|¥1000|a+b=c|x**2|x != y|a <= b >= c|i++ --j|&&
0x1F|1e-9|#include <x>|\\n\\t|^_^"""

CONTRACTIONS = """\
I'm|you're|he's|we've|they'll|I'd|don't|can't|IT'S|DON'T|WE'LL|y'all|o'clock|'tis|rock'n'roll|'sup
'S'|''s|it’s|don’t|l'été|'re 've 'll| 's|she'd've|'mm|'Re"""

DIGITS = """\
0|1|12|123|1234|12345|123456|1234567890|3.14159|1,000,000|-42|+1 (555) 010-0199
2031-11-17T06:00:00Z|v1.2.3|1st 2nd 3rd|abc123def456|a1b2c3| 1| 12| 123|  1|   12|1 2 3|1  2  3
10^6|½ cup|x²+y³|①②③|Ⅷ|٣٤٥|१२३|１２３|🄋|50%|1/2|00:00|007|1_000|0b1010|9999999999999999999999
a 1 b  2 c   3|٪٣|¼½¾|10₂"""

LANGUAGES = """\
Grüße aus Köln|Straße|naïve café|piñata|Ångström|Łódź|Çok güzel|Đặng Văn|Tiếng Việt rất hay
Příliš žluťoučký kůň|Ĉiu ĵaŭdo|Íslenska þýðing ð|Gaeilge ḃ|Привет, мир!|Съешь ещё этих булок
Київ їжак|Ελληνικά κείμενα|Ἀρχή|Հայերեն|ქართული ენა|שלום עולם|שָׁלוֹם|مرحبا بالعالم|العَرَبِيَّة
فارسی‌زبان|اردو زبان|नमस्ते दुनिया|क्षत्रिय|বাংলা ভাষা|ਪੰਜਾਬੀ|ગુજરાતી|தமிழ் மொழி|తెలుగు|ಕನ್ನಡ
മലയാളം|සිංහල|ภาษาไทย|สวัสดีครับ ผม|ລາວ|မြန်မာစာ|ភាសាខ្មែរ|བོད་ཡིག|አማርኛ|ᏣᎳᎩ|ᐃᓄᒃᑎᑐᑦ|ᚠᚢᚦᚨᚱᚲ
Монгол хэл|ᠮᠣᠩᠭᠣᠯ|𐌲𐌿𐍄𐌹𐍃𐌺|𓀀𓂀|𒀀𒁀|你好，世界！|漢字と仮名|東京タワー３３３m|カタカナ|ｶﾀｶﾅ|ひらがな|한국어 문장입니다.|ㄱㄴㄷ|각|繁體中文|粵語嘅|𠮷野家
㍿㌔|今天是2031年11月17日，星期一。|これはtestです。|AI는 뭐예요?|中文English混排123"""

MARKS = """\
é|é|n̂|ö̲|Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢L̠ͨͧͩ͘G̴̻͈͍͔̹̑͗̎̅͛́Ǫ̵̹̻̝̳͂̌̌͘!|ﬁ ﬂ ﬀ|ſ ß ẞ|İ ı|Ǆ ǅ|ℌ 𝔥 𝐛𝐨𝐥𝐝
Ａｂｃ|™®©|№ ℃|♥♦♣|→ ⇒ ↔|∀x∈ℝ: x²≥0|∑∫√∞≠≈|“smart” ‘quotes’|« guillemets »|en–dash em—dash|ellipsis…
bullet • point|‽|§ ¶ †|░▒▓█|┌─┐|⠓⠑⠇⠇⠕"""

EMOJI = """\
😀|😀😀|🙂 text 🙃|👍🏽|👩‍👩‍👧‍👦|🏳️‍🌈|🇫🇷🇯🇵|❤️|❤|☺|☺️|1️⃣|#️⃣|🧑🏿‍🚀|🏴󠁧󠁢󠁳󠁣󠁴󠁿|🦙.cpp|🚀🚀🚀🚀|🫠|🤷‍♀️|a😀b|©️|🕵🏻‍♂️"""

CONTROLS = [
    "e\u0301", "\u00e9", "\u0301", " \u0301", "a\u0301\u0327b", "", " ", "  ", "   ", "\n",
    "\n\n", "\n\n\n", "\t", "\t\t", "\t\t\t", " \n", "\n ", " \t ", "\t \t", "\r\n", "\r",
    "\r\n\r\n", "a\nb", "a\n\nb", "a \nb", "a\n b", "a  \n  b", "a\tb", "a\t\tb", "a \t b",
    "line one\r\nline two\r\n", "x\n", "x \n", "x  ", "x\t", "\x00", "a\x00b", "\x01\x02\x03",
    "\x07bell", "\x08", "\x0b", "\x0c", "\x1b[31mred\x1b[0m", "\x7f", "\x80\x9f", "\x85",
    "a\x85b", "\u00a0", "a\u00a0b", "\u00a0\u00a0", "\u2003em", "a\u2009b", "\u3000",
    "全角\u3000空格", "\u200b", "a\u200bb", "\u200d", "\u200e\u200f", "\u2028", "\u2029", "a\u2028b",
    "\ufeff", "\ufeffbom", "\ufffd", "a\ufffdb", "\ufffd\ufffd", "\uffff", "\ufdd0", "\ue000",
    "\U0010ffff", "a\x04b", "!\x04!", "\x13\x14", "\U00040000", "\U000e0001", "soft\u00adhyphen",
    "\u202eabc\u202c", "\u2581", "\u2581\u2581", "a\u2581b", "\u2581a", "\u2581\u2581 a",
    "  \u2581\u2581b", "\u0120", "\u010a", "\u0120a", "<0x0A>", "<0x41>",
]  # fmt: skip

CODE = [
    "def f(x):\n    return x + 1\n",
    "for (int i = 0; i < n; ++i) {\n\tsum += a[i];\n}\n",
    "if (a && !b || c) { return; }",
    "SELECT * FROM t WHERE a = 'b' AND c IS NOT NULL;",
    "<div class=\"row\"><p>Hi &amp; bye</p></div>",
    "<h1>Title</h1>\n<table><tr><td>1</td></tr></table>",
    "{\"a\": [1, 2.5, null, true], \"b\": {\"c\": \"\\u00e9\"}}",
    "fn main() {\n    println!(\"{:?}\", vec![1, 2, 3]);\n}",
    "std::vector<std::pair<int, float>> v;",
    "#!/bin/sh\nset -e\ncd \"$(dirname \"$0\")\" && ls -la | grep -v '^d'\n",
    "x = lambda *a, **k: (a, k)  # comment",
    "class A(B):\n\tdef __init__(self):\n\t\tsuper().__init__()\n",
    "\\begin{equation} E = mc^2 \\end{equation}",
    "$\\frac{a}{b}$ and $$\\sum_{i=0}^{n} i$$",
    "key: value\nlist:\n  - a\n  - b: c\n",
    "+++ b/file.c\n@@ -1,3 +1,4 @@\n-old\n+new\n",
    "| a | b |\n|---|---|\n| 1 | 2 |\n",
    "```cpp\nint main() { return 0; }\n```",
    "0xDEADBEEF 0o755 1'000'000 1e+10f",
    "===== ----- ##### _____ ~~~~~",
    "aGVsbG8gd29ybGQhIHRoaXMgaXMgYmFzZTY0",
    "550e8400-e29b-41d4-a716-446655440000",
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    "xkcdqzjvbwpfmghklrt",
    "                indented by sixteen",
    "a = 1\n\n\n\nb = 2\n\n\n\n\nc = 3\n",
]

RUN_LENGTHS = (4, 5, 7, 8, 15, 16, 17, 30, 31, 32, 33, 40, 62, 63, 64, 65, 100)

SPECIAL = {
    "llama": [
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
        "<|endoftext|>",
        "a<|endoftext|>b",
        " <|im_end|> ",
        "<|im_start|><|im_start|>",
        "<|im_start|>system\n\n<|im_end|>",
        "<|im_start",
        "<|im_end|",
        "<repo_name>x<file_sep>y.py\nprint(1)",
        "<|im_end|>\n\n",
        "1<|im_end|>2",
        "😀<|im_end|>😀",
        "<|IM_END|>",
    ],
    "gemma3": [
        "<start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\n",
        "<eos>",
        "a<eos>b",
        " <end_of_turn> ",
        "<bos><bos>",
        "<bos>text",
        "<start_of_turn",
        "<end_of_turn",
        "<pad>x<unk>y",
        "<end_of_turn>\n\n",
        "1<end_of_turn>2",
        "😀<end_of_turn>😀",
        "<START_OF_TURN>",
    ],
}


def old_characters():
    """Returns the characters assigned in Unicode 3.2; for newer ones, libraries with tables of
    different Unicode versions disagree."""
    points = (*range(0xD800), *range(0xE000, 0x30000))
    return [chr(p) for p in points if unicodedata.ucd_3_2_0.category(chr(p)) != "Cn"]


def long_texts(rng):
    letters = "etaoinshrdlucmfwypvbgkjqxz" + "ETAOIN" + "0123456789" + "      \n.,;"
    yield "".join(rng.choice(letters) for _ in range(400))
    words = ("".join(rng.choices(letters[:26], k=rng.randint(1, 12))) for _ in range(80))
    yield " ".join(words)
    yield "".join(map(chr, rng.choices((*range(0x20, 0x7F), *range(0xA0, 0x221)), k=200)))
    yield "".join(chr(rng.randint(0x4E00, 0x9FFF)) for _ in range(120))
    yield "".join(chr(rng.randint(0x1F300, 0x1FAFF)) for _ in range(60))
    yield "".join(rng.choices(old_characters(), k=150))
    yield "".join(rng.choice(" \n\t\r\u00a0a") for _ in range(200))
    yield "".join(rng.choice(["'", "s", "t", " ", "re", "1", "é", "."]) for _ in range(200))


def test_strings(architecture):
    """Returns pairs (text, special); special: whether special tokens in the text are parsed."""
    texts = []
    for block in (WORDS, CONTRACTIONS, DIGITS, LANGUAGES, MARKS, EMOJI):
        texts += [text for line in block.split("\n") for text in line.split("|") if text]
    texts += CONTROLS + CODE
    for n in RUN_LENGTHS:
        texts += [f"a{' ' * n}b", "\n" * n + "x"]
    for n in (31, 32, 70):
        texts += ["\t" * n, "a" * n, "=" * n, "\n " * n, " " * n]
    texts += long_texts(random.Random(20311117))
    plain = [(text, False) for text in dict.fromkeys(texts)]
    return plain + [(text, special) for text in SPECIAL[architecture] for special in (True, False)]
