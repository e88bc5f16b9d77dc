#!/usr/bin/env python3
"""Trains small SentencePiece models and records their encodings of texts.

usage: sentencepiece_models.py OUT.json

OUT.json: {"texts", "models": [{"name", "model" (base64), "ids", "decoded"}]}.
"""
import base64
import json
import pathlib
import sys
import tempfile

import sentencepiece

TEXTS = [
    "", " ", "a", "Hello world", "  two  spaces ", "the quick brown fox", "The QUICK brown-fox?!",
    "naïve façade", "ﬁne ①② ½", "你好世界", "日本語 テキスト", "emoji 😀 here", "tab\tnew\nline",
    "aaaaaaaaaa", "un<sep>known<sep>", "<s> </s> <unk>", "lower lowest newer newest", "12345 67",
    "▁mark ▁▁marks", "e\u0301tude \u00a0nbsp", "x" * 60, "the the the the", "don't stop", "ß ſ İ",
]

LINES = """the quick brown fox jumps over the lazy dog
lower lowest newer newest wider widest
hello world this is a small text for training
she sells sea shells by the sea shore
how much wood would a woodchuck chuck if a woodchuck could chuck wood
you do not stop the world from being what it is
naïve façade étude
""".splitlines()

KINDS = {
    "unigram": {"model_type": "unigram", "vocab_size": 120},
    "unigram bytes": {"model_type": "unigram", "vocab_size": 360, "byte_fallback": True},
    "unigram raw": {"model_type": "unigram", "vocab_size": 120, "add_dummy_prefix": False,
                    "normalization_rule_name": "identity", "remove_extra_whitespaces": False},
    "unigram user": {"model_type": "unigram", "vocab_size": 120, "user_defined_symbols": "<sep>"},
    "bpe": {"model_type": "bpe", "vocab_size": 120},
    "bpe bytes": {"model_type": "bpe", "vocab_size": 400, "byte_fallback": True,
                  "normalization_rule_name": "identity", "remove_extra_whitespaces": False},
}


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    models = []
    with tempfile.TemporaryDirectory() as folder:
        base = pathlib.Path(folder)
        (base / "text.txt").write_text("\n".join(LINES * 30) + "\n", encoding="utf-8")
        rules = [("ﬁ", "fi"), ("①", "1"), ("½", "1/2"), ("\u00a0", " "), ("\t", " "), ("\n", " ")]
        lines = [" ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b)
                 for a, b in rules]
        (base / "rules.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        for name, options in KINDS.items():
            if "normalization_rule_name" not in options:
                options = {**options, "normalization_rule_tsv": str(base / "rules.tsv")}
            sentencepiece.SentencePieceTrainer.train(
                input=str(base / "text.txt"), model_prefix=str(base / "m"), minloglevel=2,
                hard_vocab_limit=False, num_threads=1, **options)
            model = (base / "m.model").read_bytes()
            processor = sentencepiece.SentencePieceProcessor(model_proto=model)
            ids = [processor.encode(text) for text in TEXTS]
            models.append({"name": name, "model": base64.b64encode(model).decode(), "ids": ids,
                           "decoded": [processor.decode(line) for line in ids]})
    lines = ",\n".join(json.dumps(model, separators=(",", ":")) for model in models)
    pathlib.Path(sys.argv[1]).write_text(
        f'{{"texts":{json.dumps(TEXTS)},\n"models":[\n{lines}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
