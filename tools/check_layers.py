#!/usr/bin/env python3
"""Checks the structure of the sources: layers, folders and sizes.

Fails if a file includes a header of a higher layer or of a folder that src/LAYERS does not list, if folders include each
other in a circle, if a file has more than 600 lines, or if a folder has more than 26 files.

usage: check_layers.py [SRC]    SRC/LAYERS lists the layers, lowest first, one a line; # starts a comment.
"""
import collections
import pathlib
import re
import sys

INCLUDE = re.compile(r'\s*#\s*include\s+"([^"/]+)((?:/[^"/]+)*)/[^"/]+"')
SOURCES = {".h", ".cc", ".cu", ".cuh", ".mm", ".metal"}
MOST_LINES = 600
MOST_FILES = 26


def read_ranks(path):
    names = [line.split("#")[0].strip() for line in path.read_text().splitlines()]
    return {name: rank for rank, name in enumerate(n for n in names if n)}


def sources(root):
    return sorted(p for p in root.rglob("*") if p.suffix in SOURCES)


def includes(path):
    """(line number, layer, folder) of each header of ours that a file includes."""
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        found = INCLUDE.match(line)
        if found:
            yield number, found[1], found[1] + found[2]


def layer_violations(root, ranks):
    for path in sources(root):
        layer = path.relative_to(root).parts[0]
        if layer not in ranks:
            yield f"{path}: folder {layer} is not in {root / 'LAYERS'}"
            continue
        for number, used, _ in includes(path):
            if used in ranks and ranks[used] > ranks[layer]:
                yield f"{path}:{number}: {layer} includes {used}, which is above it"
            elif used not in ranks:
                yield f"{path}:{number}: {used} is no layer"


def circles(root):
    """Folders that include each other, directly or through others, each pair with one such include."""
    graph = collections.defaultdict(dict)
    for path in sources(root):
        folder = str(path.relative_to(root).parent)
        for number, _, used in includes(path):
            if used != folder:
                graph[folder].setdefault(used, f"{path}:{number}")

    def reaches(start):
        seen, todo = set(), [start]
        while todo:
            for folder in graph[todo.pop()]:
                if folder not in seen:
                    seen.add(folder)
                    todo.append(folder)
        return seen

    reachable = {folder: reaches(folder) for folder in list(graph)}
    for folder in sorted(reachable):
        for used, where in sorted(graph[folder].items()):
            if folder in reachable.get(used, ()):
                yield f"{where}: {folder} includes {used}, which comes back to {folder}: a circle"


def sizes(root):
    files = collections.Counter(path.parent for path in sources(root))
    yield from (f"{folder}: has {count} files, at most {MOST_FILES} are allowed: divide it"
                for folder, count in sorted(files.items()) if count > MOST_FILES)
    for path in sources(root):
        lines = len(path.read_text(errors="replace").splitlines())
        if lines > MOST_LINES:
            yield f"{path}: has {lines} lines, at most {MOST_LINES} are allowed: divide it"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "src")
    found = [*layer_violations(root, read_ranks(root / "LAYERS")), *circles(root), *sizes(root)]
    print("\n".join(found) if found else "layers: no violation")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
