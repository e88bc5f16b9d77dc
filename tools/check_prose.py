#!/usr/bin/env python3
"""Checks the mechanical part of the language rules in CONTRIBUTING.md.

Fails if a page (*.md) or a comment of src/ breaks a rule:
- Markdown prose is at most 100 columns wide (tables, fences, link targets and generated parts excepted);
- no statement begins with "What ..." or "Of ..." used as a noun;
- "behind" is not used for time or order;
- words for which docs/glossary.md has a term are not used;
- commit subjects since BASE have at most 72 characters.
A finding that is good English belongs in EXCEPTIONS, with a reason.

usage: check_prose.py [REPOSITORY]
"""
import collections
import pathlib
import re
import subprocess
import sys

COLUMNS, SUBJECT = 100, 72
BASE = "63a2fa1a"  # it and the commits before it keep their subjects
SOURCES = {".h", ".cc", ".cu", ".mm", ".metal", ".js"}

NOUN = re.compile(r"^(What|Of) (?!course\b)")
BEHIND = re.compile(r"\bbehind\b", re.IGNORECASE)
SPATIAL = re.compile(  # places, and idioms
    r"\bbehind (?:(?:an?|the|this|that|its|their|one|another|some) )?(?:\w+ )?"
    r"(?:proxy|proxies|firewall|load balancer|NAT|interface|pointer|handle|abstraction|lock|scenes)\b|"
    r"\b(?:fall|falls|falling|fell|lag|lags|lagging|left|leave|leaves|stay|stays) behind\b|\breasons? behind\b",
    re.IGNORECASE)  # fmt: skip

# Expression, and the term to use. Words that are also good English (row, ring, place, turn) are left to the reader.
TERMS = [(re.compile(rf"\b(?:{words})\b", re.IGNORECASE), term) for words, term in (
    (r"prompt runs?|runs? of many rows|chunks? of a prompt", "prefill, prefill chunk"),
    (r"steps? of one row", "decode step"),
    (r"what a sequence keeps|keys and values kept", "KV cache, recurrent state"),
    (r"kept (?:prefix|prefixes|sequences?)", "cached prefix"),
    (r"drafts by look-up|drafted by look-up|look-up drafts", "prompt-lookup decoding"),
    (r"tests? of drafts", "verification"),
    (r"heads? for further tokens|layers? behind the others", "multi-token prediction (MTP) head"),
    (r"forms? of x|(?:bring|brings|brought) \w+ to (?:its|their) form", "quantised activations"),
    (r"what codes leave over", "residual quantisation"),
    (r"loud blocks?", "outlier block"),
    (r"products? of (?:one row|few rows|many rows)", "GEMV, skinny GEMM, GEMM"),
    (r"blocks? of threads", "thread block"),
    (r"lanes (?:meet|arrive)", "warp-synchronous, arrive on the barrier"),
    (r"on (?:its|their) way", "in flight"),
    (r"passes? on the turn", "hands over the ticket"),
    (r"what lies where", "memory layout"),
    (r"who wants", "requested outputs, or name the subject"),
    (r"foreign (?:text|bytes|code)", "untrusted input"),
    (r"brought to f32", "converted to f32"),
    (r"leaves? nothing behind", "cleans up after failure"),
    (r"the walk", "persistent megakernel"),
    (r"holds? an answer to", "constrained decoding"),
    (r"by its upper bits", "pruned output head"),
    (r"told apart", "distinguished"),
    (r"seldom", "rarely"),
    (r"so many(?! \w+ that)", "N, up to N"),
)]  # fmt: skip

# (path, expression of the finding, reason)
EXCEPTIONS = [
    (r"docs/testing\.md", r"lanes arrive", "a statement about mbarriers, with the field's verb"),
    (r"docs/architecture\.md", r"products of (?:few|many) rows", "covers GEMV and skinny GEMM, and all GEMMs"),
]  # fmt: skip

Finding = collections.namedtuple("Finding", "path line text")


def markdown_blocks(text):
    """(line, kind, text) of each paragraph, list item and table cell; fences and generated parts are left out."""
    found, start, kind, lines, fenced, generated = [], 0, "", [], False, False

    def flush():
        if lines:
            found.append((start, kind, " ".join(line.strip() for line in lines)))
        lines.clear()

    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if bare.startswith("```"):
            fenced = not fenced
            flush()
        elif bare.startswith("<!-- tables:"):
            generated = True
            flush()
        elif bare.startswith("<!-- end"):
            generated = False
        elif fenced or generated:
            continue
        elif not bare or bare.startswith(("#", "<", "![")):
            flush()
        elif bare.startswith("|"):
            flush()
            found += [(number, "cell", cell.strip()) for cell in re.split(r"(?<!\\)\|", bare) if cell.strip()]
        else:
            item = re.match(r"\s*(?:[-*]|\d+\.) +(.*)", line)
            if item:
                flush()
            if not lines:
                start, kind = number, "prose"
            lines.append(item[1] if item else line)
    flush()
    return found


def comment_blocks(text):
    """(line, kind, text) of each run of whole-line or trailing // comments."""
    found, lines, start = [], [], 0
    for number, line in enumerate([*text.splitlines(), ""], 1):
        match = re.match(r"^\s*///?<? ?(.*)", line)
        if match and match[1].strip():
            start = start if lines else number
            lines.append(match[1].strip())
            continue
        if lines:
            found.append((start, "comment", " ".join(lines)))
            lines = []
        trailing = re.search(r"(?<![:\"'])//+<? (.*)", line)
        if trailing:
            found.append((number, "comment", trailing[1].strip()))
    return found


def sentences(block):
    plain = re.sub(r"`[^`]*`", "`x`", re.sub(r"\]\([^)]*\)", "]", block))
    plain = re.sub(r"\*\*([^*]*)\*\*", r"\1", plain)
    return [part.strip(" \"'([*_") for part in re.split(r"(?<=[.!?:])\s+(?=[\"'(\[A-Z])", plain)]


def sentence_findings(block):
    for sentence in sentences(block):
        if NOUN.match(sentence) and not sentence.rstrip(")\"'] ").endswith("?"):
            yield f"statement that begins with a noun clause: {sentence[:60]}"
    plain = re.sub(r'"[^"]{1,40}"', '"x"', re.sub(r"`[^`]*`", "`x`", block))  # a quoted word is mentioned, not used
    for match in BEHIND.finditer(SPATIAL.sub("", plain)):
        yield f"'behind' for time or order (after, next): {SPATIAL.sub('', plain)[max(0, match.start() - 30):][:60]}"
    for expression, term in TERMS:
        for match in expression.finditer(plain):
            yield f"'{match[0]}': use {term}"


def long_lines(text):
    """Numbers of lines of prose over COLUMNS, link targets not counted."""
    fenced = generated = False
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        fenced ^= bare.startswith("```")
        generated = bare.startswith("<!-- tables:") or (generated and not bare.startswith("<!-- end"))
        if fenced or generated or bare.startswith(("|", "```", "#", "<!--", "![")):
            continue
        width = len(re.sub(r"\]\([^)]*\)", "]", line))
        if width > COLUMNS and len(bare.split()) > 1:
            yield number, width


def excepted(path, text):
    return any(re.fullmatch(where, path) and re.search(what, text, re.IGNORECASE) for where, what, _ in EXCEPTIONS)


def file_findings(path, text):
    """Findings of one file; `path` is relative to the repository."""
    is_page = path.endswith(".md")
    if is_page:
        for number, width in long_lines(text):
            yield Finding(path, number, f"{width} columns of prose, expected at most {COLUMNS}")
    for number, _, block in markdown_blocks(text) if is_page else comment_blocks(text):
        yield from (Finding(path, number, found) for found in sentence_findings(block) if not excepted(path, found))


def files(root):
    skipped = {"build", "install", "node_modules"}
    for path in sorted([*root.rglob("*.md"), *(p for p in (root / "src").rglob("*") if p.suffix in SOURCES)]):
        parts = path.relative_to(root).parts
        if not any(part in skipped or part.startswith(".") for part in parts[:-1]) and path.is_file():
            yield path


def long_subjects(root, base=BASE):
    """Subjects of commits since `base` that are too long; None without git or without that commit."""
    command = ["git", "-C", str(root), "log", "--no-merges", "--format=%h %s", f"{base}..HEAD"]
    try:
        run = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        return None
    if run.returncode != 0:
        return None
    lines = [line.split(" ", 1) for line in run.stdout.splitlines()]
    return [f"{commit}: subject of {len(subject)} characters, expected at most {SUBJECT}: {subject}"
            for commit, subject in lines if len(subject) > SUBJECT]  # fmt: skip


def main(arguments):
    root = pathlib.Path(arguments[0] if arguments else ".").resolve()
    failed = []
    for path in files(root):
        name = path.relative_to(root).as_posix()
        for found in file_findings(name, path.read_text(errors="replace")):
            failed.append(f"{found.path}:{found.line}: {found.text}")
    subjects = long_subjects(root)
    if subjects is None:
        print("prose: no history, commit subjects are not checked")
    failed += subjects or []
    print("\n".join(failed) if failed else "prose: no violation")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
