#!/usr/bin/env python3
"""Records the token ids of the test strings, without BOS.

usage: record_tokens.py HFDIR OUT.json    HFDIR: output of gguf_to_hf.py

OUT.json: [{"text", "ids", "special"}]; special: whether special tokens in the text are parsed.
"""
import json
import pathlib
import sys

from tokenizers import Tokenizer

from strings import test_strings

ARCHITECTURES = {"llama": "llama", "gemma3_text": "gemma3"}


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    lines = []
    for text, special in test_strings(ARCHITECTURES[config["model_type"]]):
        tokenizer.encode_special_tokens = not special
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        lines.append(json.dumps({"text": text, "ids": ids, "special": special}))
    pathlib.Path(sys.argv[2]).write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")
    print(f"{sys.argv[2]}: {len(lines)} strings")


if __name__ == "__main__":
    main()
