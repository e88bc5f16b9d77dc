#!/usr/bin/env python3
"""Writes 2,400 texts that are difficult to tokenise: the texts of strings.py and seeded mixtures.

usage: nasty_strings.py OUT.json

The output is the same on every machine: the only source of randomness is random.Random.
"""
import json
import pathlib
import random
import sys

from strings import test_strings

COUNT = 2400

SPECIAL = """<s> </s> <unk> <pad> <bos> <eos> <mask> <|endoftext|> <|im_start|> <|im_end|> <|eot_id|>
<|begin_of_text|> <|end_of_text|> <|start_header_id|> <|python_tag|> <start_of_turn> <end_of_turn>
[INST] [/INST] [TOOL_CALLS] <tool_call> </tool_call> <think> </think> <｜User｜> <｜Assistant｜>
<｜begin▁of▁sentence｜> <｜end▁of▁sentence｜> <｜fim▁hole｜> <|fim_prefix|> <|repo_name|> <unused7>
<start_of_image> <h1> </h2> <table> <0x0A> <|reserved_special_token_5|> <SPECIAL_42>
<tool_response> [multimodal]""".split()

POOLS = [
    "abcdefghijklmnopqrstuvwxyz",
    "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "0123456789",
    "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~",
    " " * 6 + "\n\n\t\r",
    "\u00a0\u2000\u2003\u2009\u200b\u2028\u2029\u202f\u205f\u3000\u1680\u180e\ufeff\x85\x0b\x0c",
    "éèêëàâäîïôöùûüçñßøåæœÉÀÜÇÑ",
    "ẞıİſKÅǅǆŉΐﬁﬀﬆ",
    "\u0301\u0308\u0327\u0338\u20dd\u0345\u1ab0\u0e31\u093c\u3099",
    "абвгдежзийклмнопрстуфхцчшщъыьэюяЁЇЄҐ",
    "αβγδεζηθικλμνξοπρστυφχψωΆΈΏΫ",
    "אבגדהוזחטשלםמןת\u05b8\u05bc",
    "ابتثجحخدذرزسشصضطظعغفقكلمنهوي\u064b\u0651",
    "अआइईउकखगघचछजटडणतदनपबमयरलवसह\u093e\u093f\u094d\u0902",
    "กขคงจชซญฐณดตถทธนบปผพ\u0e31\u0e34\u0e48ำ",
    "的一是不了人我在有他这中大来上国个到说们为子和你地出道也时年得就那要下以生会自着去之过家学对可她里后小么",
    "あいうえおかきくけこさしすせそアイウエオカキクケコー、。「」",
    "가나다라마바사아자차카타파하\u1100\u1161\u11a8ㄱㄴ",
    "𝐀𝒜𝔄𝕬𠮷𠀀𓀀𒀀𐌰🄋\U0001f1eb\U0001f1f7",
    "😀😂🥰👍🏽👩\u200d👧🏳️\u200d🌈❤️1️⃣☺",
    "½¼²³①Ⅷ٣४๓㊿〇",
    "\x00\x01\x02\x07\x08\x1b\x1f\x7f\x80\x9f\u00ad\u200c\u200d\u200e\u202e\u2060\ufff9\ufffd",
    "\u0378\u1c89\ua7cb\U000e0001\U000f0000\U0010ffff\ufdd0\uffff\ue000",
    "▁▁▁ĠĊĉ",
    "“”‘’«»—–…•·†€£¥°±×÷→∑∞",
]

WORDS = """the of and to in is was for that with hello world Hello WORLD don't I'm you're WE'LL it's
they'd she's O'Brien 'tis 'LL 'S int main() return std::vector<int> foo_bar camelCase HTTPServer
def __init__(self): x+=1 a->b; //comment #include 3.14159 1,000,000 2024-01-01 0xDEADBEEF 50%
user@example.com https://www.example.org/path?q=1&r=2 C:\\Users \\n \\t naïve façade Straße
über Zürich 北京 東京 서울 Москва Αθήνα ירושלים القاهرة दिल्ली กรุงเทพ""".split()

SEPARATORS = ["", " ", " ", " ", "  ", "\n", "\n\n", "\t", " \n", "\r\n", "   ", "\u00a0", "_", "-"]


def mixture(rng):
    kind = rng.randrange(6)
    out = []
    if kind == 0:  # words
        for _ in range(rng.randrange(1, 14)):
            out += [rng.choice(WORDS), rng.choice(SEPARATORS)]
    elif kind == 1:  # characters of one alphabet, and spaces
        pool = rng.choice(POOLS)
        out = [rng.choice(pool) if rng.random() < 0.85 else " " for _ in range(rng.randrange(1, 60))]
    elif kind == 2:  # characters of all alphabets
        out = [rng.choice(rng.choice(POOLS)) for _ in range(rng.randrange(1, 50))]
    elif kind == 3:  # runs of one character
        for _ in range(rng.randrange(1, 6)):
            out.append(rng.choice(rng.choice(POOLS)) * rng.choice([1, 2, 3, 4, 7, 8, 15, 16, 17, 33]))
    elif kind == 4:  # special tokens, whole and truncated
        for _ in range(rng.randrange(1, 6)):
            token = rng.choice(SPECIAL)
            if rng.random() < 0.2:
                token = token[: rng.randrange(1, len(token))]
            if rng.random() < 0.1:
                token = token.upper()
            out += [rng.choice(SEPARATORS), token, rng.choice(SEPARATORS), rng.choice(WORDS)]
    else:  # any code points
        for _ in range(rng.randrange(1, 24)):
            code = rng.choice([rng.randrange(0x80), rng.randrange(0x800), rng.randrange(0x3100),
                               rng.randrange(0x10000), rng.randrange(0x110000)])
            out.append(chr(code) if not 0xD800 <= code < 0xE000 else " ")
    return "".join(out)


def nasty_strings():
    texts = []
    for family in ("llama", "gemma3"):
        texts += [text for text, _ in test_strings(family)]
    rng = random.Random(20240731)
    texts = list(dict.fromkeys(texts))
    seen = set(texts)
    while len(texts) < COUNT:
        text = mixture(rng)
        if text not in seen:
            seen.add(text)
            texts.append(text)
    return texts[:COUNT]


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    lines = ",\n".join(json.dumps(text) for text in nasty_strings())
    pathlib.Path(sys.argv[1]).write_text("[\n" + lines + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
