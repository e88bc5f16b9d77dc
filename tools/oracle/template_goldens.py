#!/usr/bin/env python3
"""Renders chat templates with jinja2 in the configuration of transformers and records the results.

usage: template_goldens.py conversations TEMPLATES OUT.json   every *.jinja of a folder with all of
                                                              CONVERSATIONS, whose messages are
                                                              prepared as in transformers
       template_goldens.py hashes TEMPLATES OUT.json          the same, but texts as size and hash
       template_goldens.py snippets CASES.json OUT.json       CASES: {"variables", "templates":
                                                              [text]}

OUT.json: {"conversations": {name: variables}, "goldens": {template: {conversation: result}}}, or
{"variables", "cases": [{"template", result}]}. A result is one of
  {"text"}
  {"size", "hash"}      bytes and 64-bit FNV-1a of the UTF-8 text, for published templates, whose
                        text is not copied into the repository
  {"raises": message}   the template called raise_exception
  {"fails": message}    jinja2 or Python raised an exception
Needs jinja2 3.1.
"""
import copy
import datetime
import json
import pathlib
import sys

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime.datetime(2024, 5, 17, 12, 34, 56)
LONGEST_TEXT = 20000


class Raised(Exception):
    """The exception of raise_exception, distinct from errors of jinja2."""


class Generation(jinja2.ext.Extension):
    """The generation tag of transformers, which renders its body unchanged."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_support"), [], [], body).set_lineno(line)

    @jinja2.pass_eval_context
    def _support(self, context, caller):
        return caller()


def environment():
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])

    def raise_exception(message):
        raise Raised(str(message))

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                          sort_keys=sort_keys)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


def render(env, source, variables):
    try:
        # A copy, because "list|indent" modifies the list.
        text = env.from_string(source).render(**copy.deepcopy(variables))
        return {"text": text} if len(text) <= LONGEST_TEXT else {"fails": "TooLong"}
    except Raised as error:
        return {"raises": str(error)}
    except Exception as error:  # any error of Python or jinja2 is an error of the template
        return {"fails": f"{type(error).__name__}: {error}"[:300]}


def prepared(variables):
    """Returns the variables with messages as apply_chat_template of transformers 5.23 passes them
    to the template."""
    names = ("reasoning_content", "thinking", "reasoning")
    messages = []
    for given in variables["messages"]:
        message = {key: value for key, value in given.items() if value is not None}
        reasoning = next((message[name] for name in names if name in message), None)
        if reasoning is not None:
            message = {"thinking": reasoning, **message, "reasoning_content": reasoning}
        messages.append(message)
    return {**variables, "messages": messages}


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def call(name, arguments, number):
    return {"id": f"call{number:05d}", "type": "function",
            "function": {"name": name, "arguments": arguments}}


WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather of a place, \"now\" <or> later & so on.",
    "parameters": {"type": "object", "required": ["place"], "properties": {
        "place": {"type": "string", "description": "A town: Zürich, 東京"},
        "unit": {"type": "string", "enum": ["celsius", "kelvin"], "default": "celsius"},
        "days": {"type": "integer", "minimum": 1, "maximum": 18446744073709551615}}}}}
SUM = {"type": "function", "function": {
    "name": "add", "description": "Adds numbers.",
    "parameters": {"type": "object", "required": ["a", "b"], "properties": {
        "a": {"type": "number", "minimum": -1.5e300}, "b": {"type": ["number", "null"]},
        "how": {"type": "object", "properties": {"exact": {"type": "boolean", "default": False},
                                                 "digits": {"type": "array",
                                                            "items": {"type": "integer"}}}}}}}}

TOOL_TALK = [user("How warm is it in Zürich?"),
             assistant("", tool_calls=[call("get_weather", {"place": "Zürich", "days": 2}, 1)]),
             {"role": "tool", "name": "get_weather", "tool_call_id": "call00001",
              "content": "{\"celsius\": 21.5}"}]
PARALLEL = [user("Weather there and 1 + 2?"),
            assistant("Let me see.", tool_calls=[
                call("get_weather", {"place": "東京", "unit": None}, 1),
                call("add", {"a": 1, "b": 2.5, "how": {"exact": True, "digits": [1, 2]}}, 2)]),
            {"role": "tool", "name": "get_weather", "tool_call_id": "call00001", "content": "rain"},
            {"role": "tool", "name": "add", "tool_call_id": "call00002", "content": "3.5"}]
TURNS = [user("Hi"), assistant("Hello!"), user(" What is 2 + 2? \n"), assistant("4"), user("Why?")]
THOUGHT = [user("Think."), assistant("Done.", reasoning_content="First this,\nthen that."),
           user("And now?"), assistant("<think>\nHm.\n</think>\n\nAgain."), user("Well?")]
SYSTEM = {"role": "system", "content": "You are terse."}
PARTS = [{"role": "user", "content": [{"type": "text", "text": "Part one. "},
                                      {"type": "text", "text": "Part two."}]}]

# Variables that differ from DEFAULTS below.
CONVERSATIONS = {
    "plain": {"messages": [user("Hello, how are you?")]},
    "plain-no-prompt": {"messages": [user("Hello")], "add_generation_prompt": False},
    "system": {"messages": [SYSTEM, user("Hello")]},
    "developer": {"messages": [{"role": "developer", "content": "Be kind."}, user("Hello")]},
    "turns": {"messages": TURNS},
    "turns-system": {"messages": [SYSTEM, *TURNS]},
    "ends-with-assistant": {"messages": TURNS[:4], "add_generation_prompt": False},
    "unordered": {"messages": [user("One"), user("Two"), assistant("Three"), assistant("Four")]},
    "tools-unused": {"messages": [SYSTEM, user("Hello")], "tools": [WEATHER, SUM]},
    "tool-call": {"messages": TOOL_TALK, "tools": [WEATHER]},
    "tool-call-pending": {"messages": TOOL_TALK[:2], "tools": [WEATHER],
                          "add_generation_prompt": False},
    "tool-answered": {"messages": [SYSTEM, *TOOL_TALK, assistant("21.5 degrees."), user("Thanks")],
                      "tools": [WEATHER]},
    "tool-arguments-text": {"messages": [user("Hi"), assistant(None, tool_calls=[
        call("add", "{\"a\": 1, \"b\": 2}", 1)]), {"role": "tool", "tool_call_id": "call00001",
                                                 "content": "3"}], "tools": [SUM]},
    "tool-calls-without-tools": {"messages": TOOL_TALK},
    "tools-empty": {"messages": [user("Hello")], "tools": []},
    "parallel": {"messages": PARALLEL, "tools": [WEATHER, SUM]},
    "parallel-system": {"messages": [SYSTEM, *PARALLEL, assistant("Rain, 3.5."), user("Thanks")],
                        "tools": [WEATHER, SUM]},
    "reasoning": {"messages": THOUGHT},
    "reasoning-tools": {"messages": [THOUGHT[0], {**PARALLEL[1], "reasoning_content": "Tools."},
                                     *PARALLEL[2:]], "tools": [WEATHER, SUM]},
    "reasoning-off": {"messages": THOUGHT[:3], "enable_thinking": False},
    "reasoning-on": {"messages": THOUGHT[:3], "enable_thinking": True, "thinking": True},
    "effort": {"messages": THOUGHT[:1], "reasoning_effort": "high"},
    "parts": {"messages": PARTS},
    "parts-system": {"messages": [{"role": "system", "content": [{"type": "text", "text": "Short."}]},
                                  *PARTS, assistant([{"type": "text", "text": "Yes."}]), *PARTS]},
    "image": {"messages": [{"role": "user", "content": [{"type": "image"},
                                                        {"type": "text", "text": "What?"}]}]},
    "documents": {"messages": [user("Read.")], "documents": [
        {"title": "First", "text": "One & two.", "doc_id": 1}, {"title": "2nd", "text": "3"}]},
    "unknown-role": {"messages": [user("Hi"), {"role": "wizard", "content": "Abracadabra"}]},
    "empty": {"messages": []},
    "content-null": {"messages": [user("Hi"), assistant(None), user("Again")]},
    "null-fields": {"messages": [
        {**user("Add."), "name": None}, {**PARALLEL[1], "content": None, "reasoning_content": None},
        {**PARALLEL[2], "tool_calls": None}, PARALLEL[3],
        assistant("Done.", tool_calls=None, reasoning=None, thinking=None), user("Well?")],
        "tools": [WEATHER, SUM]},
    "reasoning-names": {"messages": [
        user("Think."), assistant("A.", reasoning="By reasoning."), user("And?"),
        assistant("", thinking="By thinking.", tool_calls=[call("add", {"a": 1, "b": None}, 1)]),
        {"role": "tool", "name": "add", "tool_call_id": "call00001", "content": "1"},
        assistant("B.", reasoning_content="By content.", thinking="Another."), user("Well?")],
        "tools": [SUM]},
    "unicode": {"messages": [user("Grüße, 世界! 🙂 \u00a0 \"quotes\" <tags> {{ braces }}\r\nend ")]},
}
DEFAULTS = {"tools": None, "documents": None, "add_generation_prompt": True,
            "bos_token": "<s>", "eos_token": "</s>"}


def fnv1a(data):
    code = 0xcbf29ce484222325
    for byte in data:
        code = (code ^ byte) * 0x100000001b3 % 2**64
    return f"{code:016x}"


def hashed(result):
    if "text" in result:
        data = result["text"].encode()
        return {"size": len(data), "hash": fnv1a(data)}
    if "raises" in result:
        return {"raises": fnv1a(result["raises"].encode())}
    return {"fails": result["fails"].split(":")[0]}


def conversations(folder, out, finish=lambda result: result):
    env = environment()
    full = {name: {**DEFAULTS, **more} for name, more in CONVERSATIONS.items()}
    goldens = {path.stem: {name: finish(render(env, path.read_text(), prepared(variables)))
                           for name, variables in full.items()}
               for path in sorted(pathlib.Path(folder).glob("*.jinja"))}
    dump = lambda value: json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    rows = lambda table: ",\n".join(f"{dump(name)}:{dump(row)}" for name, row in table.items())
    pathlib.Path(out).write_text(
        f'{{"conversations":{{\n{rows(full)}}},\n"goldens":{{\n{rows(goldens)}}}}}\n')


def snippets(cases, out):
    env = environment()
    given = json.loads(pathlib.Path(cases).read_text())
    done = [{"template": template, **render(env, template, given["variables"])}
            for template in given["templates"]]
    dump = lambda value: json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    lines = ",\n".join(dump(case) for case in done)
    pathlib.Path(out).write_text(
        f'{{"variables":{dump(given["variables"])},\n"cases":[\n{lines}]}}\n')


if __name__ == "__main__":
    modes = {"conversations": conversations, "snippets": snippets,
             "hashes": lambda folder, out: conversations(folder, out, hashed)}
    if len(sys.argv) != 4 or sys.argv[1] not in modes:
        sys.exit(__doc__)
    modes[sys.argv[1]](sys.argv[2], sys.argv[3])
