#!/usr/bin/env python3
"""Checks the structure of the sources: layers, folders and sizes.

Fails if a file includes a header of a higher layer or of a folder that src/LAYERS does not list, if includes between
folders are cyclic, if a file has more than 600 lines, a function more than 60, or a folder more than 26 files. The size
limits also apply to tests.

usage: check_layers.py [SRC [TESTS]]    SRC/LAYERS lists one layer per line, lowest first; # starts a comment.
"""
import collections
import pathlib
import re
import sys

INCLUDE = re.compile(r'\s*#\s*include\s+"([^"/]+)((?:/[^"/]+)*)/[^"/]+"')
SOURCES = {".h", ".cc", ".cu", ".cuh", ".mm", ".metal"}
MOST_LINES = 600
MOST_FILES = 26
MOST_FUNCTION = 60
# Non-code that may contain braces: comments, strings, characters.
NO_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)
SCOPE = re.compile(r"^(?:inline\s+)?(?:namespace|class|struct|union|extern)\b|^template\s*<[^{]*>\s*(?:class|struct)\b")
ROWS = re.compile(r"=$|\breturn$|(?<!\bconst)(?<!\bmutable)(?<!\bnoexcept)(?<!\belse)(?<!\bdo)(?<!\btry)(?<=\w)$")
CONTROL = re.compile(r"^(?:if|for|while|switch|do|else|try|catch|return)\b")


def read_ranks(path):
    names = [line.split("#")[0].strip() for line in path.read_text().splitlines()]
    return {name: rank for rank, name in enumerate(n for n in names if n)}


def sources(root):
    return sorted(p for p in root.rglob("*") if p.suffix in SOURCES)


def includes(path):
    """Yields (line number, layer, folder) of each project header that a file includes."""
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
                yield f"{path}:{number}: {used} is not a layer"


def circles(root):
    """Returns folders that include each other directly or indirectly, with one such include per pair."""
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


def functions(text):
    """Yields (name, first line, line count) of each function in a namespace or class, ignoring table rows."""
    code = NO_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    code = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda found: re.sub(r"[^\n]", " ", found[0]), code, flags=re.M)
    open_blocks, begin, line, rows = [], 0, 1, 0  # blocks: (kind, text before it, its first line)
    for place, char in enumerate(code):
        line += char == "\n"
        if char == "{":
            head = code[begin:place].strip()
            head = re.sub(r"^(?:(?:public|private|protected)\s*:\s*)+", "", head)
            inside = open_blocks[-1][0] if open_blocks else "scope"
            if inside == "scope" and SCOPE.match(head):
                kind = "scope"
            elif inside == "scope" and ")" in head and not head.endswith("=") and not CONTROL.match(head):
                kind, rows = "function", 0
            elif ROWS.search(head):
                kind = "table"
            else:
                kind = "block"
            open_blocks.append((kind, head, line - head.count("\n")))
        elif char == "}" and open_blocks:
            kind, head, first = open_blocks.pop()
            if kind == "function":
                name = re.search(r"([\w:~]+)\s*\(", head)
                yield name[1] if name else head[:40], first, line - first + 1 - rows
            elif kind == "table":
                rows += line - first
        if char in "{};":
            begin = place + 1


def long_functions(path):
    for name, first, lines in functions(path.read_text(errors="replace")):
        if lines > MOST_FUNCTION:
            yield f"{path}:{first}: {name} has {lines} lines, at most {MOST_FUNCTION} are allowed: divide it"


def sizes(root):
    files = collections.Counter(path.parent for path in sources(root))
    yield from (f"{folder}: has {count} files, at most {MOST_FILES} are allowed: divide it"
                for folder, count in sorted(files.items()) if count > MOST_FILES)
    for path in sources(root):
        lines = len(path.read_text(errors="replace").splitlines())
        if lines > MOST_LINES:
            yield f"{path}: has {lines} lines, at most {MOST_LINES} are allowed: divide it"
        yield from long_functions(path)


def main():
    root, *tests = [pathlib.Path(name) for name in sys.argv[1:] or ["src"]]
    found = [*layer_violations(root, read_ranks(root / "LAYERS")), *circles(root)]
    for tree in (root, *tests):
        found += sizes(tree)
    print("\n".join(found) if found else "layers: no violation")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
