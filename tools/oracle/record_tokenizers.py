#!/usr/bin/env python3
"""Records encodings of published tokenizers for the texts of nasty_strings.py, as hashes.

usage: record_tokenizers.py STRINGS.json OUT.txt NAME=tokenizer.json...

For each tokenizer: a line "= NAME tokens", then a line per text with two 32-bit hashes in
hexadecimal digits:
  1. the ids with special tokens, 0xFFFFFFFF, and the ids without them (special tokens in the text
     read as plain text), each as four bytes, little-endian;
  2. the first ids decoded without special tokens, a zero byte, and decoded with them.
The hash is 64-bit FNV-1a over the bytes, with its halves combined by xor.
"""
import json
import pathlib
import struct
import sys

from tokenizers import Tokenizer


def digest(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value >> 32 ^ value & 0xFFFFFFFF:08x}"


def main():
    if len(sys.argv) < 4:
        raise SystemExit(__doc__)
    texts = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    lines = []
    for argument in sys.argv[3:]:
        name, path = argument.split("=", 1)
        tokenizer = Tokenizer.from_file(path)
        lines.append(f"= {name} {tokenizer.get_vocab_size()}")
        for text in texts:
            tokenizer.encode_special_tokens = False
            ids = tokenizer.encode(text).ids
            tokenizer.encode_special_tokens = True
            plain = tokenizer.encode(text, add_special_tokens=False).ids
            numbers = [*ids, 0xFFFFFFFF, *plain]
            decoded = [tokenizer.decode(ids, skip_special_tokens=skip) for skip in (True, False)]
            lines.append(digest(struct.pack(f"<{len(numbers)}I", *numbers)) +
                         digest("\0".join(decoded).encode()))
    pathlib.Path(sys.argv[2]).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
