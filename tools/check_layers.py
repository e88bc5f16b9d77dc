#!/usr/bin/env python3
"""Fails if a file includes a header of a higher layer, or of a folder that src/LAYERS does not list.

usage: check_layers.py [SRC]    SRC/LAYERS lists the folders, lowest first, one a line; # starts a comment.
"""
import pathlib
import re
import sys

INCLUDE = re.compile(r'\s*#\s*include\s+"([^"/]+)/')
SOURCES = {".h", ".cc", ".cu", ".cuh", ".mm", ".metal"}


def read_ranks(path):
    names = [line.split("#")[0].strip() for line in path.read_text().splitlines()]
    return {name: rank for rank, name in enumerate(n for n in names if n)}


def violations(root, ranks):
    for path in sorted(p for p in root.rglob("*") if p.suffix in SOURCES):
        layer = path.relative_to(root).parts[0]
        if layer not in ranks:
            yield f"{path}: folder {layer} is not in {root / 'LAYERS'}"
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            found = INCLUDE.match(line)
            if not found:
                continue
            used = found[1]
            if used in ranks and ranks[used] > ranks[layer]:
                yield f"{path}:{number}: {layer} includes {used}, which is above it"
            elif used not in ranks:
                yield f"{path}:{number}: {used} is no layer"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "src")
    found = list(violations(root, read_ranks(root / "LAYERS")))
    print("\n".join(found) if found else "layers: no violation")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
