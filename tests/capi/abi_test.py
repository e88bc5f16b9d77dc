#!/usr/bin/env python3
"""Compares the binary interface of include/veery/veery.h, with the headers that it includes, with the recorded one,
tests/capi/abi.txt.

The record holds the values of enumerations, the sizes, offsets and types of structures, and the declarations of calls,
for 64-bit platforms. If a shared library is given and built, it must export these calls and no other symbol.

usage: abi_test.py COMPILER [LIBRARY]     status 77 if the platform is not a 64-bit one
       abi_test.py COMPILER --record      writes abi.txt; changes of recorded lines break existing clients
"""
import difflib
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parents[2]
HEADER = ROOT / "include" / "veery" / "veery.h"
INCLUDED = re.compile(r'^#include "(\w+\.h)"', re.MULTILINE)
RECORD = pathlib.Path(__file__).with_name("abi.txt")
BLOCK = re.compile(r"typedef (enum|struct) (\w+) \{(.*?)\} \w+;", re.DOTALL)
CALL = re.compile(r"^VEERY_API ([^;]*);", re.MULTILINE)
CALLBACK = re.compile(r"^typedef ([^;{}]*\(\*\w+\)[^;]*);", re.MULTILINE)


def words(text):
    return " ".join(text.split())


def members(body):
    """(type, name) of each member: "float top_p, min_p" are two, "size_t sizes[3]" is an array."""
    for statement in filter(None, map(words, body.split(";"))):
        kind, names = re.fullmatch(r"(.*?[\s*])(\w+(?:\[\w+\])?(?:, \w+(?:\[\w+\])?)*)", statement).groups()
        for name in names.split(", "):
            bare, _, extent = name.partition("[")
            yield kind.strip() + (f"[{extent}" if extent else ""), bare


def program(text):
    """Source text of a program that prints the values and the layout."""
    lines = ["#include <stdio.h>", f'#include "{HEADER}"', "int main(void) {"]
    for kind, name, body in BLOCK.findall(text):
        if kind == "enum":
            for constant in re.findall(r"\w+(?= =)", body):
                lines.append(f'  printf("{name} {constant} = %d\\n", (int){constant});')
            continue
        lines.append(f'  printf("{name}: %zu bytes\\n", sizeof({name}));')
        for type_, member in members(body):
            lines.append(f'  printf("{name}.{member}: offset %zu, {type_}\\n", offsetof({name}, {member}));')
        if "size_t size;" in body:  # a member that is added later must not lie where an older header has padding
            end = f"offsetof({name}, {member}) + sizeof(static_cast<{name}*>(nullptr)->{member})"
            lines.append(f'  static_assert({end} == sizeof({name}), "{name} has padding at its end");')
    return "\n".join(lines + ["  return 0;", "}", ""])


def declarations():
    """The text of the header and of those that it includes, without comments."""
    text = HEADER.read_text()
    parts = [text, *(HEADER.with_name(name).read_text() for name in INCLUDED.findall(text))]
    return re.sub(r"/\*.*?\*/", "", "\n".join(parts), flags=re.DOTALL)


def found(compiler):
    text = declarations()
    with tempfile.TemporaryDirectory() as folder:
        source, binary = pathlib.Path(folder, "abi.cc"), pathlib.Path(folder, "abi")
        source.write_text(program(text))
        subprocess.run([compiler, source, "-o", binary], check=True)
        layout = subprocess.run([binary], check=True, capture_output=True, text=True).stdout.splitlines()
    return layout + sorted(map(words, CALLBACK.findall(text))) + sorted(map(words, CALL.findall(text)))


def names(lines):
    return {match[1] for line in lines if (match := re.search(r"(veery_\w+)\(", line))}


def exported(library):
    listed = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1].partition("@")[0] for line in listed.splitlines()}


def main():
    compiler, *more = sys.argv[1:]
    if struct.calcsize("P") != 8:
        return 77
    lines = found(compiler)
    if more == ["--record"]:
        RECORD.write_text("\n".join(lines) + "\n")
        return 0
    recorded = RECORD.read_text().splitlines()
    changes = list(difflib.unified_diff(recorded, lines, str(RECORD), str(HEADER), lineterm="", n=0))
    if changes:
        print("the binary interface of veery.h changed; if that is meant, record it: abi_test.py COMPILER --record")
        print("\n".join(changes))
    wrong = set()
    if more and pathlib.Path(more[0]).exists():
        wrong = exported(more[0]) ^ names(lines)
        if wrong:
            print(f"{more[0]}: exported but not declared, or declared but not exported:", *sorted(wrong))
    return 1 if changes or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
