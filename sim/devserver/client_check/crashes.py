"""Crashes: what the runtimes of common languages write when a program ends by an exception that it does not handle."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from typing import NamedTuple

_MULTILINE = re.MULTILINE


class Crash(NamedTuple):
    """An uncaught exception: the line with its message, and the line with its cause if it has one. Or the signal that
    ended the program: then it is `by_signal`."""

    message: str
    cause: str = ""
    by_signal: bool = False

    @property
    def text(self) -> str:
        """The message, and the cause."""
        return f"{self.message} ({self.cause})" if self.cause else self.message


def find_crash(output: str, exit_status: int | None) -> Crash | None:
    """The last uncaught exception in an output, or the signal that ended the program; None without one.

    An exception that the program caught and printed is none: the formats differ in all runtimes but Ruby, and in Python
    where the program caught it in a function.
    """
    for crashes in (_python, _rich, _node, _deno, _ruby, _java, _go, _php, _dotnet, _rust):
        if found := list(crashes(output)):
            return found[-1]
    if exit_status is not None and exit_status < 0:
        return Crash(exit_text(exit_status), by_signal=True)
    return None


def exit_text(exit_status: int) -> str:
    """How a process ended: its exit status, or the signal that ended it (`subprocess` gives that as a negative one)."""
    if exit_status >= 0:
        return f"exit status {exit_status}"
    try:
        return f"signal {signal.Signals(-exit_status).name}"
    except ValueError:
        return f"signal {-exit_status}"


# The errors of JSON parsers: Python (json, requests, orjson, aiohttp, pydantic), Node.js, Ruby, Java (Jackson, Gson,
# org.json), Go, PHP, .NET, Rust and jq.
_JSON_ERROR = re.compile(
    r"^.*(?:JSONDecodeError: |Expecting value: line \d+ column|decode JSON with unexpected mimetype|Invalid JSON: |"
    r"SyntaxError: Unexpected (?:token|end)|Unexpected end of JSON input$|\"(?:\.{3})? is not valid JSON|"
    r"JSON::ParserError|JsonParseException|JsonSyntaxException|MalformedJsonException|"
    r"No content to map due to end-of-input|J[Ss][Oo][Nn](?:Reader)?Exception|invalid character '.' looking for|"
    r"unexpected end of JSON input|expected value at line \d+ column|EOF while parsing a value|"
    r"parse error: Invalid ).*$",
    _MULTILINE,
)
# The exceptions of a program that uses what is not there: the fields of a body that it took for a success.
_MISUSE = re.compile(
    r"^(?:[\w.]+\.)?(?:KeyError|TypeError(?!: fetch failed)|AttributeError|IndexError|NameError|UnboundLocalError|"
    r"RangeError|SyntaxError: Cannot convert|"
    r"ReferenceError|NoMethodError|NullPointerException|NullReferenceException|KeyNotFoundException)\b|"
    r"nil pointer dereference|Undefined (?:array key|index|property)"
)


# Lines of source in what Node.js and Python write about an exception: its text is not theirs.
_SOURCE = re.compile(r"(?<=:\d\n).*\n(?=[ \t]*\^|[ \t]{100})|^[ \t|]{4,}.*$", _MULTILINE)


def json_error(output: str) -> str | None:
    """The last line of an output that has the error of a JSON parser."""
    lines = _JSON_ERROR.findall(_SOURCE.sub("", output))
    return lines[-1].strip() if lines else None


def is_misuse(crash: Crash) -> bool:
    """Whether the program read a value that does not exist, or a body that is no JSON, or was ended by a signal: no
    program ends in this way on purpose."""
    return crash.by_signal or _MISUSE.search(crash.message) is not None or json_error(crash.text) is not None


_TRACEBACK = re.compile(
    r"^(?P<thread>Exception in thread .*\n)?(?P<margin>[ |+]*)(?P<group>Exception Group )?"
    r"Traceback \(most recent call last\):\n",
    _MULTILINE,
)
# The first frame of an exception that nothing caught: the program, or the module that `python -m` runs.
_TOP_FRAME = re.compile(r'  File "(?:<frozen runpy>".*|.*", line \d+, in <module>)$')


def _python(output: str) -> Iterator[Crash]:
    for match in _TRACEBACK.finditer(output):
        margin = match["margin"].replace("+", "|")
        lines = output[match.end() :].splitlines()
        if match["thread"] is None and not (lines and _TOP_FRAME.match(lines[0].removeprefix(margin))):
            continue
        rest = [(number, line.removeprefix(margin)) for number, line in enumerate(lines)]
        at, message = next(((number, line) for number, line in rest if line[:1].strip()), (0, ""))
        causes = re.findall(r"^ +\| (\w\S*: .*)$", "\n".join(lines[at + 1 :]), _MULTILINE) if match["group"] else []
        if message:
            yield Crash(message.strip(), causes[-1] if causes else "")


def _rich(output: str) -> Iterator[Crash]:
    """A traceback that the library rich draws, which the framework typer does with each uncaught exception."""
    for match in re.finditer(r"─ Traceback \(most recent call last\) ─.*\n(?:[│|].*\n)*╰─+╯\n(.+)", output):
        yield Crash(match[1].strip())


_NODE_END = re.compile(r"^Node\.js v\d+\..*$", _MULTILINE)
# The place in the source, the line of source, a mark below it, and the exception. For a place without a text the line
# is empty and there is no mark. In a long line, as of a bundle, the mark is cut off and its blanks are left.
_NODE_BEGIN = re.compile(r"^\S.*:\d+\n(?:.*\n(?:[ \t]*\^+|[ \t]{100,})|)\n+(?P<message>\S.*)$", _MULTILINE)
_REASON = re.compile(r'UnhandledPromiseRejection: .* rejected with the reason "(.*)"')


def _node(output: str) -> Iterator[Crash]:
    start = 0
    for end in _NODE_END.finditer(output):
        text = output[start : end.start()]
        start = end.end()
        if begin := _NODE_BEGIN.search(text):
            reason = _REASON.search(begin["message"])
            cause = re.search(r"^\s*\[cause\]: (.+)$", text[begin.end() :], _MULTILINE)
            message = f"unhandled rejection: {reason[1]}" if reason else begin["message"].removesuffix("{").strip()
            yield Crash(message, cause[1].removesuffix("{").strip() if cause else "")


def _deno(output: str) -> Iterator[Crash]:
    for match in re.finditer(r"^error: Uncaught (?:\(in promise\) )?(.+)$", output, _MULTILINE):
        yield Crash(match[1])


_RUBY = re.compile(
    r"^\S*:\d+:in [`'](?P<place>.+?)': (?P<message>.*) \((?P<name>[A-Z]\w*(?:::\w+)*)\)(?P<frames>(?:\n.*)*)",
    _MULTILINE,
)


def _ruby(output: str) -> Iterator[Crash]:
    for match in _RUBY.finditer(output):
        if "<main>" in match["place"] or re.search(r"^\s+from .*<main>'$", match["frames"], _MULTILINE):
            yield Crash(f"{match['name']}: {match['message']}")


def _java(output: str) -> Iterator[Crash]:
    for match in re.finditer(r'^Exception in thread "[^"]*" (\S.*)$', output, _MULTILINE):
        causes = re.findall(r"^Caused by: (.+)$", output[match.end() :], _MULTILINE)
        yield Crash(match[1], causes[-1] if causes else "")


def _go(output: str) -> Iterator[Crash]:
    for match in re.finditer(r"^(?:panic|fatal error): (.+)$", output, _MULTILINE):
        if re.search(r"^goroutine \d+ ", output[match.end() :], _MULTILINE):
            yield Crash(match[1])


def _php(output: str) -> Iterator[Crash]:
    for match in re.finditer(r"^(?:PHP )?Fatal error: +(?:Uncaught )?(.+)$", output, _MULTILINE):
        yield Crash(match[1])


def _dotnet(output: str) -> Iterator[Crash]:
    for match in re.finditer(r"^Unhandled [Ee]xception[.:]\s+(.+)$", output, _MULTILINE):
        causes = re.findall(r"^ ---> (.+)$", output[match.end() :], _MULTILINE)
        yield Crash(match[1], causes[-1] if causes else "")


def _rust(output: str) -> Iterator[Crash]:
    for match in re.finditer(r"^thread '.*' (?:\(\d+\) )?panicked at (?:[^'\n]*:\n(.+)|'(.*)', )", output, _MULTILINE):
        yield Crash(match[1] or match[2])
