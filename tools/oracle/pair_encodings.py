#!/usr/bin/env python3
"""Records how small tokenizers encode single texts and pairs: ids, segments and truncation.

usage: pair_encodings.py OUT.json [NAME=tokenizer.json...]

OUT.json: {"texts", "pair", "published", "tokenizers": [{"name", "tokenizer", "cases": [[first,
second, special, max_length, strategy, ids, types]]}]}
  first, second   indices into `texts`; second null: a single text
  special         whether special tokens are added
  max_length      0: no limit
  strategy        the truncation strategy, named as in transformers
  ids, types      null: the library refuses
"published": {NAME: [ids, types]}, PAIR without truncation. Needs tokenizers.
"""
import json
import pathlib
import sys

from component_tokenizers import added, bpe, tokenizer, vocab
from tokenizers import Tokenizer

TEXTS = ["", "low", "lower newest hugs", "how low can the lowest newest hug go, world", "a [SEP] b </s> c",
         "hello world " * 4]
PAIRS = [(1, 2), (2, 1), (0, 3), (3, 0), (3, 3), (5, 3), (4, 2), (0, 0)]
PAIR = ("How many people live in Berlin?", "Berlin has 3,520,031 inhabitants.")
MAX_LENGTHS = (0, 3, 5, 8, 13)
LETTERS = "abcdefghijklmnopqrstuvwxyz"
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *LETTERS, *("##" + c for c in LETTERS), "low", "##er", "##est", "hello",
          "world", ",", "new"]
SCORES = [["<s>", 0], ["<pad>", 0], ["</s>", 0], ["<unk>", 0], ["▁", -2.0], *([c, -3.0] for c in LETTERS),
          ["▁low", -4.0], ["est", -4.5], ["er", -4.0], ["▁hello", -6.0], ["▁world", -6.0], [",", -3.0]]


def special(name, number):
    return {"id": name, "ids": [number], "tokens": [name]}


def template(single, pair, *tokens):
    """Returns a TemplateProcessing from the notation of the library: "[CLS]:0 $A:0 [SEP]:0"."""
    def parts(text):
        for part in text.split():
            name, kind = part.rsplit(":", 1)
            key = "Sequence" if name in ("$A", "$B") else "SpecialToken"
            yield {key: {"id": name.lstrip("$"), "type_id": int(kind)}}

    return {"type": "TemplateProcessing", "single": list(parts(single)), "pair": list(parts(pair)),
            "special_tokens": {name: special(name, number) for name, number in tokens}}


def found():
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    meta = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    words = {"model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                       "max_input_chars_per_word": 100, "vocab": vocab(*PIECES)},
             "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                            "strip_accents": None, "lowercase": True},
             "pre_tokenizer": {"type": "BertPreTokenizer"},
             "added_tokens": added(*((i, PIECES[i], "s") for i in range(4)))}
    bert = template("[CLS]:0 $A:0 [SEP]:0", "[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1", ("[CLS]", 2), ("[SEP]", 3))
    yield "BERT template", tokenizer(post_processor=bert, **words)
    yield "BERT", tokenizer(
        post_processor={"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}, **words)
    for direction in ("Left", "Right"):
        yield f"BERT cut {direction}", tokenizer(
            post_processor=bert, truncation={"direction": direction, "max_length": 9, "strategy": "LongestFirst",
                                             "stride": 0}, **words)
    yield "no post-processor", tokenizer(**words)
    pieces = {"model": {"type": "Unigram", "unk_id": 3, "vocab": SCORES}, "pre_tokenizer": meta,
              "added_tokens": added((0, "<s>", "s"), (1, "<pad>", "s"), (2, "</s>", "s"), (3, "<unk>", "s"))}
    ends = (("<s>", 0), ("</s>", 2))
    yield "XLM-R", tokenizer(
        post_processor=template("<s>:0 $A:0 </s>:0", "<s>:0 $A:0 </s>:0 </s>:0 $B:0 </s>:0", *ends), **pieces)
    yield "T5", tokenizer(post_processor=template("$A:0 </s>:0", "$A:0 </s>:0 $B:0 </s>:0", *ends), **pieces)
    yield "XLNet", tokenizer(
        post_processor=template("$A:0 </s>:0 <s>:2", "$A:0 </s>:0 $B:1 </s>:1 <s>:2", *ends), **pieces)
    yield "second first", tokenizer(
        post_processor=template("<s>:3 $A:1", "$B:4 <s>:3 $A:1", *ends), **pieces)
    merges = [("Ġ", "l"), ("l", "o"), ("lo", "w"), ("e", "r"), ("e", "s"), ("es", "t")]
    bytes_ = {"model": bpe(["Ġ", "Ġl", ",", "<s>", "</s>"], merges),
              "pre_tokenizer": level}
    names = bytes_["model"]["vocab"]
    bytes_["added_tokens"] = added((names["<s>"], "<s>", "s"), (names["</s>"], "</s>", "s"))
    roberta = {"type": "RobertaProcessing", "sep": ["</s>", names["</s>"]], "cls": ["<s>", names["<s>"]],
               "trim_offsets": True, "add_prefix_space": False}
    yield "RoBERTa", tokenizer(post_processor=roberta, **bytes_)
    yield "byte level", tokenizer(post_processor=level, **bytes_)
    llama = template("<s>:0 $A:0", "<s>:0 $A:0 <s>:1 $B:1", ("<s>", names["<s>"]))
    yield "sequence", tokenizer(post_processor={"type": "Sequence", "processors": [level, llama]}, **bytes_)


def cases(whole):
    oracle = Tokenizer.from_str(json.dumps(whole))
    own = whole["truncation"]
    inputs = [(i, None) for i in range(len(TEXTS))] + PAIRS
    for first, second in inputs:
        for with_special in (True, False):
            for strategy in ("longest_first", "only_first", "only_second"):
                for max_length in MAX_LENGTHS:
                    if (max_length == 0 or second is None) and strategy != "longest_first":
                        continue
                    added_tokens = oracle.num_special_tokens_to_add(second is not None)
                    if with_special and 0 < max_length < added_tokens:
                        continue
                    if max_length:
                        oracle.enable_truncation(max_length, strategy=strategy,
                                                 direction=own["direction"].lower() if own else "right")
                    elif own:
                        oracle.enable_truncation(own["max_length"], direction=own["direction"].lower())
                    else:
                        oracle.no_truncation()
                    texts = [TEXTS[first]] + ([] if second is None else [TEXTS[second]])
                    try:
                        made = oracle.encode(*texts, add_special_tokens=with_special)
                        yield [first, second, with_special, max_length, strategy, made.ids,
                               made.type_ids]
                    except Exception:  # the library raises plain Exception
                        yield [first, second, with_special, max_length, strategy, None, None]


def main():
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    published = {}
    for argument in sys.argv[2:]:
        name, path = argument.split("=", 1)
        made = Tokenizer.from_file(path).encode(*PAIR)
        published[name] = [made.ids, made.type_ids]
    lines = []
    for name, whole in found():
        item = {"name": name, "tokenizer": {key: part for key, part in whole.items() if part},
                "cases": list(cases(whole))}
        lines.append(json.dumps(item, separators=(",", ":")))
    head = (f'{{"texts":{json.dumps(TEXTS)},\n"pair":{json.dumps(PAIR)},\n'
            f'"published":{json.dumps(published)},\n"tokenizers":[\n')
    pathlib.Path(sys.argv[1]).write_text(head + ",\n".join(lines) + "\n]}\n", encoding="utf-8")
    print(f"{sys.argv[1]}: {len(lines)} tokenizers")


if __name__ == "__main__":
    main()
