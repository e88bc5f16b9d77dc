#!/usr/bin/env python3
"""Records encodings of small tokenizers, one for each component of tokenizer.json.

usage: component_tokenizers.py OUT.json

OUT.json: {"texts", "probe": a model, "tokenizers": [{"name", "tokenizer", "ids", "plain",
"decodes": [[ids, text, all]]}]}
  ids     for each text: ids with special tokens
  plain   for each text: ids without special tokens, where special tokens in the text are read as
          plain text; null: as `ids`
  all     decoded with special tokens
The model "probe" is byte-level: ids of its tokenizers are written as the text of these bytes.
Needs tokenizers and sentencepiece.
"""
import base64
import json
import pathlib
import random
import sys
import tempfile

from tokenizers import Tokenizer

TEXTS = [
    "", " ", "a", "Hello world", "  two  spaces ", "Hello, World! How's it (going)?", "don't 'LL",
    "Ünïcödé Straße ÉÀ", "e\u0301a\u0308 \u00e9", "ﬁ ① Å ℌ ½", "İstanbul DŽ ǅ", "你好world世界 abc",
    "ひらがな カタカナー 漢字", "Привет, мир!", "a1b22c333 ４٣", "tab\tnew\nline\r\nend\u2028x",
    "\u00a0nbsp\u3000wide\u200bzero", "\x00ctrl\x07\x1b\x7f\ufffd\ufeff", "😀👍🏽 👩\u200d👧", "x-y_z.w/v",
    "aaa bbb  ccc   ddd", "   ", "\n\n", "a|b||c|", "--a--b-- -", "▁a▁▁b", "hello<s>hello </s> x",
    "[CLS] low lower  [SEP]lowest", "xMASKx MASK  MASKx mask", "lower LOWER lowest newest",
    "ab\u093c\u0e31c \u0903", "<0x41>", "ααβ γ·δ", "  a  <mask>  b  <mask>c", "unrelated ØÞ ĳ",
    "do not we 've it 's n't . , ?", "hug hugs bug pun", "abcdefghijklmnopqrstuvwxyz",
]  # fmt: skip

BYTES = {f"<0x{byte:02X}>": byte for byte in range(256)}
# A model that turns every character into its bytes and ends every word with 0x7C, so that the ids
# show the result of all steps before the model.
PROBE = {"type": "BPE", "byte_fallback": True, "end_of_word_suffix": "|", "vocab": BYTES,
         "merges": []}


def tokenizer(model=None, **parts):
    whole = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
             "normalizer": None, "pre_tokenizer": None, "post_processor": None, "decoder": None}
    whole.update(parts)
    whole["model"] = model or PROBE
    return whole


def added(*tokens):
    keys = ("content", "lstrip", "rstrip", "single_word", "normalized", "special")
    out = []
    for identity, content, flags in tokens:
        values = (content, *(letter in flags for letter in "lrwns"))
        out.append({"id": identity, **dict(zip(keys, values))})
    return out


def vocab(*tokens):
    return {token: number for number, token in enumerate(tokens)}


def field(message, wanted):
    """Returns the bytes of the last field with number `wanted` in a protobuf message."""
    at, found = 0, b""

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = varint()
        if key & 7 == 0:
            varint()
        else:
            size = {1: 8, 2: 0, 5: 4}[key & 7] or varint()
            if key >> 3 == wanted:
                found = message[at : at + size]
            at += size
    return found


def charsmap():
    """Returns a character map with a few rules of the kinds that occur in published models."""
    import sentencepiece  # a local import: scripts that import this file do not need it

    rules = [("ﬁ", "fi"), ("①", "1"), ("\u00a0", " "), ("\u3000", " "), ("½", "1/2"), ("ℌ", "H"),
             ("e\u0301", "\u00e9"), ("\u200b", ""), ("\u212b", "\u00c5"), ("\t", " "), ("\n", " "), ("４", "4")]
    with tempfile.TemporaryDirectory() as folder:
        base = pathlib.Path(folder)
        lines = [" ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b)
                 for a, b in rules]
        (base / "rules.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        (base / "text.txt").write_text("hello world abc\n" * 20, encoding="utf-8")
        sentencepiece.SentencePieceTrainer.train(
            input=str(base / "text.txt"), model_prefix=str(base / "m"), vocab_size=16,
            normalization_rule_tsv=str(base / "rules.tsv"), hard_vocab_limit=False,
            minloglevel=2)
        spec = field(field((base / "m.model").read_bytes(), 3), 2)
    return base64.b64encode(spec).decode()


def normalizers():
    yield from ((kind, {"type": kind}) for kind in
                ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt", "ByteLevel"))
    for left in (False, True):
        for right in (False, True):
            yield f"Strip {left} {right}", {"type": "Strip", "strip_left": left, "strip_right": right}
    yield "Replace string", {"type": "Replace", "pattern": {"String": "a"}, "content": "[a]"}
    yield "Replace regex", {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "_"}
    yield "Replace empty", {"type": "Replace", "pattern": {"Regex": "b*"}, "content": "."}
    yield "Prepend", {"type": "Prepend", "prepend": "▁"}
    for flags in range(16):
        yield f"Bert {flags}", {
            "type": "BertNormalizer", "clean_text": bool(flags & 1),
            "handle_chinese_chars": bool(flags & 2), "lowercase": bool(flags & 4),
            "strip_accents": bool(flags & 8)}
    yield "Bert default", {"type": "BertNormalizer", "clean_text": True,
                           "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}
    yield "Precompiled", {"type": "Precompiled", "precompiled_charsmap": charsmap()}
    yield "Sequence", {"type": "Sequence", "normalizers": [
        {"type": "NFD"}, {"type": "StripAccents"}, {"type": "Lowercase"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]}


BEHAVIORS = ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous")


def pre_tokenizers():
    for prefix in (False, True):
        for regex in (False, True):
            yield f"ByteLevel {prefix} {regex}", {
                "type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True,
                "use_regex": regex}
    for behavior in BEHAVIORS:
        yield f"Punctuation {behavior}", {"type": "Punctuation", "behavior": behavior}
        for invert in (False, True):
            for name, pattern in (("string", {"String": " "}), ("regex", {"Regex": "\\w+|\\d"}),
                                  ("dashes", {"Regex": "-|[ab]+"}), ("lines", {"Regex": "^.|$"})):
                yield f"Split {name} {behavior} {invert}", {
                    "type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}
    classes = "[a-z&&[^aeiou]]+|[\\p{L}&&[^\\p{Han}]&&[^a-z]]+|\\h+|\\s+(?!\\S)"
    yield "Split classes", {"type": "Split", "pattern": {"Regex": classes}, "behavior": "Isolated",
                            "invert": False}
    for scheme in ("first", "never", "always"):
        for split in (False, True):
            yield f"Metaspace {scheme} {split}", {
                "type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split}
    yield "Metaspace old", {"type": "Metaspace", "replacement": "_", "add_prefix_space": True}
    for kind in ("Whitespace", "WhitespaceSplit", "BertPreTokenizer", "UnicodeScripts"):
        yield kind, {"type": kind}
    for alone in (False, True):
        yield f"Digits {alone}", {"type": "Digits", "individual_digits": alone}
    yield "CharDelimiterSplit", {"type": "CharDelimiterSplit", "delimiter": "|"}
    yield "FixedLength", {"type": "FixedLength", "length": 3}
    yield "Sequence", {"type": "Sequence", "pretokenizers": [
        {"type": "WhitespaceSplit"},
        {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True},
        {"type": "Punctuation", "behavior": "Contiguous"}]}
    yield "ByteLevel inside", {"type": "Sequence", "pretokenizers": [
        {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        {"type": "Digits", "individual_digits": True}]}


LETTERS = list("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
MERGES = [("l", "o"), ("lo", "w"), ("e", "r"), ("e", "s"), ("es", "t"), ("low", "er"), ("h", "u"),
          ("hu", "g"), ("a", "a"), ("aa", "a"), ("n", "e"), ("ne", "w"), ("l", "l"), ("o", "w")]


def bpe(tokens=(), merges=MERGES, pairs=False, **options):
    words = ["<unk>", *LETTERS, " ", "▁"] + [a + b for a, b in MERGES] + list(tokens)
    listed = [list(m) for m in merges] if pairs else [" ".join(m) for m in merges]
    model = {"type": "BPE", "vocab": vocab(*dict.fromkeys(words)), "merges": listed}
    model.update(options)
    return model


def models():
    space = {"type": "WhitespaceSplit"}
    for pairs in (False, True):
        yield f"BPE pairs={pairs}", tokenizer(bpe(pairs=pairs))
    for fuse in (False, True):
        yield f"BPE unk fuse={fuse}", tokenizer(bpe(unk_token="<unk>", fuse_unk=fuse))
        yield f"BPE partial bytes fuse={fuse}", tokenizer(
            bpe(["<0xC3>", "<0xA9>", "<0x0A>", "<0xF0>"], unk_token="<unk>", fuse_unk=fuse,
                byte_fallback=True))
    yield "BPE bytes", tokenizer(bpe(BYTES, byte_fallback=True))
    yield "BPE ignore_merges", tokenizer(bpe(["newest", "hugs"], ignore_merges=True),
                                         pre_tokenizer=space)
    yield "BPE equal merges", tokenizer(bpe(merges=[*MERGES, ("l", "o"), ("e", "r")]))
    yield "BPE marks", tokenizer(
        bpe(["▁▁", "a▁", "▁l", "▁low"], [("▁", "▁"), ("a", "▁"), ("▁", "l"), ("▁", "low"), *MERGES],
            unk_token="<unk>"),
        normalizer={"type": "Replace", "pattern": {"String": " "}, "content": "▁"})
    inner = [*LETTERS, "<unk>", *("##" + c for c in LETTERS), "##er", "lo", "low", "lower", "##es",
             "##est"]
    inner_merges = ["l ##o", "lo ##w", "##e ##r", "low ##er", "##e ##s", "##es ##t"]
    yield "BPE prefix", tokenizer(
        {"type": "BPE", "vocab": vocab(*inner), "merges": inner_merges, "unk_token": "<unk>",
         "continuing_subword_prefix": "##"}, pre_tokenizer=space)
    ending = [*LETTERS, "<unk>", *(c + "</w>" for c in LETTERS), "er</w>", "lo", "low", "lower</w>",
              "est</w>", "es"]
    ending_merges = ["e r</w>", "l o", "lo w", "low er</w>", "e s", "es t</w>"]
    for level in (space, {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True,
                          "trim_offsets": True}):
        yield f"BPE suffix {level['type']}", tokenizer(
            {"type": "BPE", "vocab": vocab(*ending), "merges": ending_merges, "unk_token": "<unk>",
             "end_of_word_suffix": "</w>"}, pre_tokenizer=level,
            decoder={"type": "BPEDecoder", "suffix": "</w>"})
    scores = [["<unk>", 0], ["a", -2.0], ["b", -2.5], ["l", -3.0], ["o", -3.25], ["w", -3.5],
              ["e", -2.25], ["r", -3.0], ["s", -3.0], ["t", -3.0], ["lo", -4.0], ["low", -4.5],
              ["er", -4.0], ["lower", -7.0], ["est", -5.0], ["▁", -2.0], ["▁low", -6.0],
              ["hello", -6.5], ["▁h", -4.0], ["aa", -3.75], ["aaa", -5.5], ["你", -8.0], ["n't", -5]]
    meta = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    yield "Unigram", tokenizer({"type": "Unigram", "unk_id": 0, "vocab": scores},
                               pre_tokenizer=meta, decoder=meta)
    yield "Unigram bytes", tokenizer(
        {"type": "Unigram", "unk_id": 0, "vocab": scores + [[b, -9.0] for b in BYTES],
         "byte_fallback": True}, pre_tokenizer=meta,
        decoder={"type": "Sequence", "decoders": [{"type": "ByteFallback"}, meta]})
    pieces = ["[UNK]", *LETTERS, *("##" + c for c in LETTERS), "low", "##er", "##est", "hello", ",",
              "world", "new", "'", "!", "你"]
    for longest in (100, 6):
        yield f"WordPiece {longest}", tokenizer(
            {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
             "max_input_chars_per_word": longest, "vocab": vocab(*pieces)},
            normalizer={"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                        "strip_accents": None, "lowercase": True},
            pre_tokenizer={"type": "BertPreTokenizer"},
            decoder={"type": "WordPiece", "prefix": "##", "cleanup": longest == 6})
    yield "WordLevel", tokenizer(
        {"type": "WordLevel", "unk_token": "?", "vocab": vocab("?", "Hello", "world", "a", "low")},
        pre_tokenizer={"type": "Whitespace"})


ADDED = [(0, "<s>", "s"), (1, "</s>", "sl"), (300, "MASK", "w"), (301, "<mask>", "lrs"), (302, "lower", "n"),
         (303, "low", "nw"), (304, "[CLS]", "s"), (305, "[SEP]", "rs"), (306, "HELLO", "n"), (307, "ll", ""),
         (308, "Über", "ns"), (309, "  ", "")]


def added_tokens():
    named = added(*ADDED)
    lower = {"type": "Lowercase"}
    yield "plain", tokenizer(added_tokens=named)
    yield "lowercase", tokenizer(added_tokens=named, normalizer=lower)
    yield "prepend", tokenizer(added_tokens=named, normalizer={"type": "Prepend", "prepend": "▁"})
    yield "metaspace", tokenizer(added_tokens=named, pre_tokenizer={
        "type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True})
    yield "in the vocabulary", tokenizer(
        bpe(["<mask>", "HELLO"], unk_token="<unk>"),
        added_tokens=added((9, "<mask>", "lrs"), (4, "<unk>", "s"), (999, "</s>", "s"),
                           (1000, "<s>", "s"), (77, "</s>", "n")))
    yield "byte level", tokenizer(
        bpe(["Ġ", "Ġl"], [("Ġ", "l"), *MERGES]),
        added_tokens=added((70, "<s>", "s"), (71, "é", "n"), (72, "世界", "")),
        pre_tokenizer={"type": "ByteLevel", "add_prefix_space": False, "use_regex": True,
                       "trim_offsets": True},
        decoder={"type": "ByteLevel", "add_prefix_space": True, "use_regex": True,
                 "trim_offsets": True})


def post_processors():
    names = {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]},
             "</s>": {"id": "</s>", "ids": [1, 2], "tokens": ["</s>", "x"]}}
    first, text, last = ({"SpecialToken": {"id": "<s>", "type_id": 0}},
                         {"Sequence": {"id": "A", "type_id": 0}},
                         {"SpecialToken": {"id": "</s>", "type_id": 0}})
    template = {"type": "TemplateProcessing", "single": [first, text, last],
                "pair": [first, text, last], "special_tokens": names}
    level = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    bert = {"type": "BertProcessing", "sep": ["[SEP]", 5], "cls": ["[CLS]", 4]}
    found = [template, bert, level,
             {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0],
              "trim_offsets": True, "add_prefix_space": True},
             {"type": "Sequence", "processors": [level, template, level]}]
    for processor in found:
        yield processor["type"], tokenizer(bpe(), post_processor=processor)
    for direction in ("Left", "Right"):
        for longest in (4, 7, 9):
            yield f"truncation {direction} {longest}", tokenizer(
                bpe(), post_processor=template,
                truncation={"direction": direction, "max_length": longest,
                            "strategy": "LongestFirst", "stride": 0})


def decoders():
    words = ["<s>", "Hello", "▁world", "##ing", "low</w>", "est</w>", "<0xE4>", "<0xBD>", "<0xA0>",
             "<0xFF>", ".", "'s", "▁", "▁▁a", "|", "<pad>", "Ġthe", "Ã©", " 've", "do", "not", "\n",
             "▁not", "##", "h", "e", "ĠĊ", " a", " n't"]
    replace = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
    regex = {"type": "Replace", "pattern": {"Regex": "[a-e]"}, "content": "<>"}
    fallback, fuse = {"type": "ByteFallback"}, {"type": "Fuse"}
    strip = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    meta = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    found = [None, {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True,
                    "use_regex": True}, meta, {**meta, "prepend_scheme": "never"},
             {"type": "WordPiece", "prefix": "##", "cleanup": True},
             {"type": "WordPiece", "prefix": "##", "cleanup": False},
             {"type": "BPEDecoder", "suffix": "</w>"}, fallback, fuse, strip, replace, regex,
             {"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": True},
             {"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": False},
             {"type": "Sequence", "decoders": [replace, fallback, fuse, strip]},
             {"type": "Sequence", "decoders": [replace, fallback, strip, fuse]},
             {"type": "Sequence", "decoders": [replace, fallback]}]
    for number, decoder in enumerate(found):
        kind = decoder["type"] if decoder else "none"
        yield f"{number} {kind}", tokenizer(
            {"type": "WordLevel", "unk_token": "<s>", "vocab": vocab(*words)},
            added_tokens=added((0, "<s>", "s"), (15, "<pad>", "s"), (29, "▁new", "")),
            pre_tokenizer={"type": "WhitespaceSplit"}, decoder=decoder)


def record(name, whole):
    oracle = Tokenizer.from_str(json.dumps(whole))
    probe = whole["model"] is PROBE
    special, plain = [], []
    for text in TEXTS:
        oracle.encode_special_tokens = False
        special.append(oracle.encode(text).ids)
        oracle.encode_special_tokens = True
        plain.append(oracle.encode(text, add_special_tokens=False).ids)
    lists = special[:4]
    if whole["decoder"]:
        rng = random.Random(5)
        size = oracle.get_vocab_size()
        lists = [ids for ids in special if ids]
        lists += [[rng.randrange(size) for _ in range(rng.randrange(1, 12))] for _ in range(40)]
    decodes = [[ids, oracle.decode(ids), oracle.decode(ids, skip_special_tokens=False)]
               for ids in lists if ids and not probe]
    if probe:
        whole = {**whole, "model": "probe"}

    def written(ids):
        return bytes(ids).decode() if probe and all(i < 256 for i in ids) else ids

    return {"name": name, "tokenizer": {key: part for key, part in whole.items() if part},
            "ids": [written(ids) for ids in special],
            "plain": None if plain == special else [written(ids) for ids in plain],
            "decodes": decodes}


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    groups = [
        ("normalizer", ((name, tokenizer(normalizer=part)) for name, part in normalizers())),
        ("pre_tokenizer", ((name, tokenizer(pre_tokenizer=part)) for name, part in pre_tokenizers())),
        ("model", models()), ("added", added_tokens()), ("post_processor", post_processors()),
        ("decoder", decoders())]
    lines = []
    for group, found in groups:
        for name, whole in found:
            lines.append(json.dumps(record(f"{group}: {name}", whole), separators=(",", ":")))
    head = f'{{"texts":{json.dumps(TEXTS)},\n"probe":{json.dumps(PROBE)},\n"tokenizers":[\n'
    pathlib.Path(sys.argv[1]).write_text(head + ",\n".join(lines) + "\n]}\n", encoding="utf-8")
    print(f"{sys.argv[1]}: {len(lines)} tokenizers")


if __name__ == "__main__":
    main()
