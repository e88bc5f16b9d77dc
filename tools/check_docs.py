#!/usr/bin/env python3
"""Checks names in the documentation against the tree.

Fails if a relative link of a *.md file has no target file or heading, if a path or function in backticks in
docs/layout.md does not exist, if a folder of src is not listed there, if a test in backticks (`Suite.Name`, `Suite.*`)
or a --gtest_filter names no test, if docs/c-api.md and the header of the C interface name different functions, or if the
OpenAPI document and the server's route table name different paths. A function (`name()`) must be in one of the files
that its paragraph or list item names, if it names any.

usage: check_docs.py [REPOSITORY]
"""
import collections
import fnmatch
import functools
import json
import pathlib
import re
import sys

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
NAME = re.compile(r"^[A-Za-z_]\w*(?:::~?[A-Za-z_]\w*)*(\(\))?$")
PATH = re.compile(r"^[\w.*-]+(?:/[\w.*-]+)*$")
SUFFIXES = {".h", ".cc", ".py", ".md", ".txt", ".sh"}
ROOTS = ("src/", "tests/", "tools/", "docs/", "fuzz/", "bench/", "scripts/", "examples/", "include/")
PLACEHOLDER = re.compile(r"/(?:[A-Z]{4,}\b|x(?:_|$))|^bench/linear_bench$")  # NAME.cc, x_test.cc; a program
TEST = re.compile(r"\b(?:TEST|TEST_F|TEST_P)\(\s*(\w+),\s*(\w+)\)")
INSTANCE = re.compile(r"\bINSTANTIATE_TEST_SUITE_P\(\s*(\w+),\s*(\w+)")
TEST_NAME = re.compile(r"^[A-Z*]\w*\*?\.[A-Z*]\w*\*?$")
FILTER = re.compile(r"--gtest_filter=['\"]?([^'\"`\s]+)")
SKIPPED = {"build", "install", "node_modules"}
ITEM = re.compile(r"^(?:\d+\. |- |\| )", re.MULTILINE)


def pages(root):
    for path in sorted(root.rglob("*.md")):
        parts = path.relative_to(root).parts
        if not any(part in SKIPPED or part.startswith(".") for part in parts[:-1]):
            yield path


def without_fences(text):
    """Returns the lines with those of fenced blocks emptied."""
    lines, fenced = [], False
    for line in text.splitlines():
        fence = line.lstrip().startswith("```")
        lines.append("" if fenced or fence else line)
        fenced ^= fence
    return "\n".join(lines)


@functools.cache
def anchors(path):
    """Returns the anchors that GitHub generates for a page's headings."""
    headings = re.findall(r"^#+ +(.+)$", without_fences(path.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(root):
    for page in pages(root):
        for number, line in enumerate(without_fences(page.read_text()).splitlines(), 1):
            for target in LINK.findall(re.sub(r"`[^`]*`", "", line)):
                if re.match(r"[a-z]+:", target):
                    continue
                name, _, anchor = target.partition("#")
                found = (page.parent / name) if name else page
                where = f"{page.relative_to(root)}:{number}"
                if not found.exists():
                    yield f"{where}: link to {target}, which is not a file"
                elif anchor and found.suffix == ".md" and anchor not in anchors(found.resolve()):
                    yield f"{where}: link to {target}, found no such heading"


def missing_paths(root):
    """Paths in backticks that are not in the tree, on all pages but docs/layout.md, which layout_violations() reads."""
    for page in pages(root):
        where = page.relative_to(root).as_posix()
        if where == "docs/layout.md":
            continue
        for number, line in enumerate(without_fences(page.read_text()).splitlines(), 1):
            for word in CODE.findall(line):
                if PATH.match(word) and word.startswith(ROOTS) and not PLACEHOLDER.search(word) and not any(root.glob(word)):
                    yield f"{where}:{number}: path `{word}`, which is not in the tree"


def tests(root):
    """Returns the names of the tests of tests/, and those by which --gtest_filter selects them."""
    names, instances = [], collections.defaultdict(list)
    for path in (root / "tests").rglob("*.cc"):
        text = path.read_text(errors="replace")
        names += TEST.findall(text)
        for prefix, suite in INSTANCE.findall(text):
            instances[suite].append(prefix)
    selected = {f"{prefix}/{suite}.{name}/0" for suite, name in names for prefix in instances[suite]}
    plain = {f"{suite}.{name}" for suite, name in names}
    return plain, selected | {f"{suite}.{name}" for suite, name in names if not instances[suite]}


def missing_tests(root):
    plain, selected = tests(root)
    for page in pages(root):
        for number, line in enumerate(page.read_text().splitlines(), 1):
            named = [(name, plain) for word in CODE.findall(line) for name in word.split(":") if TEST_NAME.match(name)]
            named += [(name, selected) for word in FILTER.findall(line) for name in re.split("[:-]", word) if name]
            for name, known in named:
                if not fnmatch.filter(known, name):
                    yield f"{page.relative_to(root)}:{number}: test `{name}`, which is not in tests"


def blocks(text):
    """Yields (line number, text) of each paragraph, list item and table row."""
    starts = sorted({0, *(m.start() for m in ITEM.finditer(text)), *(m.end() for m in re.finditer(r"\n\n+", text))})
    for start, end in zip(starts, [*starts[1:], len(text)]):
        yield text.count("\n", 0, start) + 1, text[start:end]


def is_path(word):
    return bool(PATH.match(word)) and (word.startswith(("src/", "tests/", "tools/", "docs/", "fuzz/", "bench/")) or
                                       ("/" in word and pathlib.PurePath(word).suffix in SUFFIXES))  # fmt: skip


def has_word(text, word):
    return re.search(rf"\b{re.escape(word)}\b", text) is not None


@functools.cache
def sources(root):
    return {path: path.read_text(errors="replace") for path in (root / "src").rglob("*") if path.suffix in {".h", ".cc", ".js"}}


def is_in(name, called, texts):
    """Returns whether one of `texts` contains all parts of `A::name`; in calls, the last one before a parenthesis."""
    *scopes, last = name.removesuffix("()").split("::")
    pattern = rf"\b{last}(?:<[^>\n]*>)?\(" if called else rf"\b{last}\b"
    return any(re.search(pattern, text) and all(has_word(text, scope) for scope in scopes) for text in texts)


def check_block(root, block):
    """Yields names in a part of the page that do not exist."""
    words = CODE.findall(block)
    named = []
    for word in filter(is_path, words):
        found = list(root.glob(word))
        if not found:
            yield f"path `{word}`, which is not in the tree"
        named += [path for path in found if path.is_file()]
    # Functions of a header may be in the source of the same name.
    near = {side for path in named for side in (path, path.with_suffix(".cc"), path.with_suffix(".h"))}
    all_texts = sources(root)
    texts = [all_texts[path] for path in near if path in all_texts] or list(all_texts.values())
    for word in words:
        match = NAME.match(word)
        if not match or (root / word).exists():
            continue
        called = match[1] is not None
        if not is_in(word, called, texts if called else all_texts.values()):
            yield f"name `{word}`, which is not in {'the files named with it' if called and named else 'src'}"


def layout_violations(root):
    page = root / "docs/layout.md"
    text = without_fences(page.read_text())
    for number, block in blocks(text):
        yield from (f"docs/layout.md:{number}: {what}" for what in check_block(root, block))
    listed = set(re.findall(r"^\| `(src/[\w/]+)` \|", text, re.MULTILINE))
    folders = {str(p.parent.relative_to(root)) for p in sources(root)}
    yield from (f"docs/layout.md: folder {folder} is not listed" for folder in sorted(folders - listed))
    yield from (f"docs/layout.md: lists {folder}, which holds no sources" for folder in sorted(listed - folders))


def c_api_violations(root):
    header, page = root / "include/veery/veery.h", root / "docs/c-api.md"
    if not header.exists():  # in the tests of this script
        return
    text = header.read_text()
    included = re.findall(r'^#include "(\w+\.h)"', text, re.MULTILINE)
    text += "".join((header.parent / name).read_text() for name in included)
    calls = set(re.findall(r"^VEERY_API [^(]*?(veery_\w+)\(", text, re.MULTILINE))
    rows = re.findall(r"^\| (`veery_\w+`(?:, `veery_\w+`)*) \|", page.read_text(), re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"`(veery_\w+)`", row)}
    yield from (f"docs/c-api.md: {call} is not listed" for call in sorted(calls - listed))
    yield from (f"docs/c-api.md: lists {call}, which is not in {header.name}" for call in sorted(listed - calls))


def http_violations(root):
    document, routes = root / "src/serve/page/openapi.json", root / "src/serve/service.cc"
    if not document.exists():
        return
    listed = {(method.upper(), re.sub(r"\{\w+\}", "*", path)) for path, methods in
              json.loads(document.read_text())["paths"].items() for method in methods}  # fmt: skip
    served = set(re.findall(r'^    \{"([A-Z]+)", "([^"]+)",', routes.read_text(), re.MULTILINE))
    yield from (f"{document.name}: {method} {path} is not listed" for method, path in sorted(served - listed))
    yield from (f"{document.name}: lists {method} {path}, which is not in {routes.name}"
                for method, path in sorted(listed - served))


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    checks = broken_links, missing_paths, missing_tests, layout_violations, c_api_violations, http_violations
    found = [violation for check in checks for violation in check(root)]
    print("\n".join(found) if found else "docs: no violation")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
