#!/usr/bin/env python3
"""Generates the man pages veery.1 and veery-VERB.1 from the program's --help output.

usage: man_pages.py FOLDER PROGRAM...    recreates FOLDER; PROGRAM may have several words (e.g. an emulator)
"""
import pathlib
import re
import shutil
import subprocess
import sys

# "  -n,--predict N    Most tokens": two spaces, the flag, two or more spaces, its description.
ENTRY = re.compile(r"^ {2}(\S(?:.*?\S)?)(?: {2,}(.*))?$")
EXIT_STATUS = [
    ("0", "Done."),
    ("1", "Failed: standard error says why in one line."),
    ("2", "Misused: a flag or argument is unknown, missing or out of range; standard error names it."),
]


def escaped(text):
    """Escapes text for roff: no requests, and hyphens that survive copying."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    text = text.replace("^", "\\(ha").replace("~", "\\(ti")
    return "\\&" + text if text.startswith(".") else text


def marked(name):
    """Sets flags in bold and value placeholders in italics."""
    out = []
    for word in re.split(r"([ ,=|])", name):
        if word.startswith("-"):
            out.append(f"\\fB{escaped(word)}\\fR")
        elif word.isupper() or re.fullmatch(r"\[?[A-Z_]+\]?", word):
            out.append(f"\\fI{escaped(word)}\\fR")
        else:
            out.append(escaped(word))
    return re.sub(r", *", ", ", "".join(out))


def paragraphs(lines):
    """Returns blocks of lines separated by empty lines."""
    block = []
    for line in [*lines, ""]:
        if line.strip():
            block.append(line)
        elif block:
            yield block
            block = []


def entries(lines):
    """Yields (name, [description lines]) of a list in a help text."""
    found = []
    for line in lines:
        entry = ENTRY.match(line)
        if entry:
            found.append((entry[1], [entry[2]] if entry[2] else []))
        elif line.strip() and found:
            found[-1][1].append(line.strip())
    return found


def list_of(lines):
    out = []
    for name, what in entries(lines):
        out += [".TP", marked(name), *(escaped(line) for line in what or [""])]
    return out


def sections(text):
    """Returns the parts of a help text as [title, lines]; the first one, the description, has no title."""
    parts = [("", [])]
    for line in text.splitlines():
        title = re.fullmatch(r"([A-Z][A-Za-z ]*):(.*)", line)
        if title:
            parts.append((title[1], [title[2].strip()] if title[2].strip() else []))
        else:
            parts[-1][1].append(line)
    return parts


def description(lines):
    """Formats prose and the indented lists in it."""
    out = []
    for block in paragraphs(lines):
        out.append(".PP")
        prose = [line for line in block if not line.startswith("  ")]
        out += [escaped(line) for line in prose]
        out += list_of(line for line in block if line.startswith("  "))
    return out


def page(name, version, summary, text, see):
    out = [f'.TH {name.upper()} 1 "" "veery {version}" "User Commands"', ".SH NAME",
           f"{escaped(name)} \\- {escaped(summary)}"]  # fmt: skip
    parts = sections(text)
    usage = next(lines[0] for title, lines in parts if title == "Usage")
    out += [".SH SYNOPSIS", marked(usage)]
    for title, lines in parts:
        if title == "":
            out += [".SH DESCRIPTION", *description(lines)[1:]]
        elif title == "Example":
            out += [".SH EXAMPLES", ".nf", *(escaped(line.strip()) for line in lines if line.strip()), ".fi"]
        elif title == "Verbs":
            out += [".SH VERBS"]
            for verb, what in entries(lines):
                out += [".TP", f"\\fBveery\\-{escaped(verb)}\\fR(1)", *(escaped(line) for line in what)]
        elif title != "Usage":
            heading = {"Positionals": "ARGUMENTS"}.get(title, title.upper())
            out += [f".SH {heading}", *list_of(lines)]
    out += [".SH EXIT STATUS"]
    for status, meaning in EXIT_STATUS:
        out += [".TP", f"\\fB{status}\\fR", escaped(meaning)]
    if see:
        out += [".SH SEE ALSO", " ,\n".join(f".BR {escaped(other)} (1)" for other in see)]
    return "\n".join(out) + "\n"


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    folder, program = pathlib.Path(sys.argv[1]), sys.argv[2:]

    def ask(*arguments):
        done = subprocess.run([*program, *arguments], stdout=subprocess.PIPE, check=True, timeout=120)
        return done.stdout.decode()

    top = ask("--help")
    version = ask("--version").split()[1]
    verbs = {name: what[0] for name, what in entries(dict(sections(top))["Verbs"])}
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    summary = top.split("\n", 1)[0].removeprefix("veery ").rstrip(".")
    text = top.replace("'veery VERB --help' describes a verb.", "")
    (folder / "veery.1").write_text(page("veery", version, summary, text, [f"veery-{verb}" for verb in verbs]))
    for verb, what in verbs.items():
        text = page(f"veery-{verb}", version, what[0].lower() + what[1:], ask(verb, "--help"), ["veery"])
        (folder / f"veery-{verb}.1").write_text(text)


if __name__ == "__main__":
    main()
