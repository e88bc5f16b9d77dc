#!/usr/bin/env python3
"""Records what published tokenizers make of the texts of nasty_strings.py, as hashes.

usage: record_tokenizers.py STRINGS.json OUT.txt NAME=tokenizer.json...

Each tokenizer has a line "= NAME tokens", then one line for each text: two hashes of 32 bits in
hexadecimal digits. The first is of the ids with special tokens, 0xFFFFFFFF, and the ids without
(and with special tokens in the text taken as text), each as four bytes, little-endian; the second
of the text that the first ids are decoded to without special tokens, a zero byte, and that with
them. A hash is FNV-1a over the bytes, its halves joined by xor.
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
