"""Files that are read whole: JSON documents with bounds and a schema.

A file comes from somebody else. An error in it is one line: the file, the place, and the correction.
"""

from __future__ import annotations

import io
import json
import math
import re
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from jsonschema_rs import Draft4Validator, Draft202012Validator

from leyden.server.contract.schema_errors import first_error
from leyden.server.errors import LeydenError
from leyden.server.pipes import read_file
from leyden.server.printable import cut, printable
from leyden.server.version import VERSION

STANDARD_INPUT = "standard input"  # its name in an error
MAX_DEPTH = 100  # of brackets; a document of ours has at most about 30
MAX_FILE_BYTES = 256 * 1024 * 1024  # of a file whose kind sets no bound
_MAX_DIGITS = 100  # of a number
# Strings are skipped as a whole, so that brackets in them do not count. Possessive: linear in the text.
_BRACKETS = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)


# What a program raises that relies on the form of wrong data.
WRONG_DATA = (ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def in_words(error: BaseException) -> str:
    """What one of `WRONG_DATA` says about the data, in at most 200 characters and without the names of Python."""
    match error:
        case LeydenError():
            words = str(error)
        case KeyError():
            words = f"there is no {error}"
        case IndexError():
            words = "a list is shorter than is needed"
        case RecursionError():
            words = "it is nested too deeply"
        case UnicodeError():
            words = "a text has characters that cannot be encoded"
        case ArithmeticError():
            words = "a number is too large"
        case TypeError() if "64-bit" in str(error):
            words = "a number is too large"
        case ValueError() if "format code" not in str(error):
            words = str(error) or "a value is not possible"
        case TypeError() | AttributeError() | ValueError():
            words = "a value has another type than its place takes"
        case _:
            words = str(error) or "its values contradict each other"
    return printable(cut(words, 200))


class VersionWarning(UserWarning):
    """A file was written by another version of Leyden."""


class DocumentKind(NamedTuple):
    """A kind of document: its `name` ("case"), the error that refuses it, and the `mend` that ends the error's text.

    `validator` checks its JSON values; `max_bytes` bounds its file.
    """

    name: str
    error: type[LeydenError]
    mend: str
    validator: Draft4Validator | Draft202012Validator
    max_bytes: int

    def read(self, path: str | Path) -> Any:
        """The valid document in a file. Raises `error`, with one line that names the file and the place."""
        return self.check(self.load(path), shown(path))

    def load(self, path: str | Path) -> Any:
        """The JSON values in a file, before the schema is applied. Raises `error`."""
        return self.parse(self.content(path), shown(path))

    def parse(self, data: bytes, where: str, *, infinite: bool = False) -> Any:
        """The JSON values in `data`, which has only one meaning: no name twice, no NaN, no endless number.

        With `infinite` it may have `Infinity` and `-Infinity`, which Python writes.
        Raises `error` for anything else, and before the parsing for more than `MAX_DEPTH` nested brackets.
        """
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.refusal(where, f"byte {error.start} is not UTF-8") from None
        if text.startswith("\ufeff"):
            raise self.refusal(where, "it begins with a byte order mark (the bytes EF BB BF), which JSON does not have")
        if text.count("[") + text.count("{") > MAX_DEPTH and _is_too_deep(text):
            raise self.refusal(where, f"it nests deeper than {MAX_DEPTH} levels")
        try:
            return (_INFINITE if infinite else _DECODER).decode(text)
        except json.JSONDecodeError as error:
            raise self.refusal(where, f"{error.msg} in line {error.lineno}, column {error.colno}") from None
        except ValueError as error:
            raise self.refusal(where, str(error)) from None

    def check(self, document: Any, where: str) -> Any:
        """The document, if the schema permits it. Raises `error` with the first place that it does not permit."""
        try:
            try:
                wrong = first_error(self.validator, document)
            except UnicodeEncodeError:  # a lone surrogate, which a text of a case may have
                text = json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")
                wrong = first_error(self.validator, json.loads(text))
        except (OverflowError, RecursionError, TypeError, ValueError):
            raise self.refusal(where, "it has a value that is not JSON") from None
        if wrong is None:
            return document
        place = "".join(f"/{step}" for step in wrong.instance_path)
        raise self.refusal(where, f"{f'{place[:100]}: ' if place else ''}{wrong.message}")

    def refusal(self, where: str, why: str) -> LeydenError:
        """The error that refuses a document: one line."""
        line = why if len(why) <= 300 else f"{why[:150]} ... {why[-147:]}"
        return self.error(f"{printable(where)} is no {self.name}: {printable(line)}; {self.mend}")

    def content(self, path: str | Path) -> bytes:
        """The bytes of a file, if they are not too many. Raises `error`."""
        try:
            if not str(path):
                raise FileNotFoundError
            size = Path(path).stat().st_size
            if size > self.max_bytes:
                raise self.refusal(str(path), f"it has {size} bytes, and at most {self.max_bytes} are read")
            data = read_file(path, self.max_bytes + 1)  # a device or a pipe has no size
        except FileNotFoundError:
            raise self.error(f"{shown(path)} does not exist: give the path of a {self.name} file") from None
        except (OSError, ValueError) as error:  # ValueError: a path with a null byte
            raise self.error(f"{shown(path)} cannot be read: {getattr(error, 'strerror', None) or error}") from None
        return self.bounded(data, path)

    def bounded(self, data: bytes, path: str | Path) -> bytes:
        """The bytes that were read from a file, if they are not too many. Raises `error`."""
        if len(data) > self.max_bytes:
            raise self.refusal(str(path), f"it is longer than {self.max_bytes} bytes, and no more are read")
        return data


def shown(path: str | Path) -> str:
    """A path as it is shown in an error; an empty one has quotes."""
    return printable(str(path)) or "''"


class InputError(LeydenError):
    """A file or a module that a command was given cannot be used; the text names it and says what to do."""

    exit_status = 2


def read_bytes(path: str | Path) -> bytes:
    """The bytes of a file, at most `MAX_FILE_BYTES`. Raises `InputError` with one line."""
    try:
        data = read_file(path, MAX_FILE_BYTES + 1)
    except OSError as problem:
        raise InputError(f"{shown(path)}: {problem.strerror}; check the path") from None
    if len(data) > MAX_FILE_BYTES:
        raise InputError(f"{shown(path)}: it has more than {MAX_FILE_BYTES} bytes; give a smaller file")
    return data


def check_regular_file(path: Path) -> None:
    """Raise `InputError` for a pipe, a device or a directory in place of a file that a run wrote: its end may never
    come. What does not exist is refused by whoever opens it."""
    try:
        is_other = path.exists() and not path.is_file()
    except OSError:  # a name that no file can have
        return
    if is_other:
        raise InputError(f"{shown(path)} is no file: put the file that the run wrote in its place")


def read_text(path: str | Path) -> str:
    """The text of a file in UTF-8. Raises `InputError` as `read_bytes` does."""
    try:
        return io.TextIOWrapper(io.BytesIO(read_bytes(path)), encoding="utf-8").read()
    except UnicodeDecodeError as problem:
        raise InputError(f"{shown(path)}: byte {problem.start} is not UTF-8; save the file as UTF-8") from None


def warn_of_version(version: object, what: str) -> None:
    """Warn with `VersionWarning` when a file is of another version of Leyden than this one."""
    note = version_note(version, what)
    if note is not None:
        warnings.warn(note, VersionWarning, stacklevel=3)


def version_note(version: object, what: str) -> str | None:
    """That a file is of another version of Leyden than this one, in a sentence; None if it is not."""
    if version == VERSION:
        return None
    by = "an earlier Leyden" if version is None else f"Leyden {printable(str(version)[:40])}"
    return f"{what} was written by {by}, and this is Leyden {VERSION}: results may differ"


def _is_too_deep(text: str) -> bool:
    depth = 0
    for found in _BRACKETS.finditer(text):
        first = text[found.start()]
        if first in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                return True
        elif first != '"':
            depth -= 1
    return False


def _pairs(pairs: list[tuple[str, Any]]) -> Mapping[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name, count in counts.items() if count > 1)
        raise ValueError(f"an object has the name {cut(twice, 60)!r} twice")
    return found


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _infinity(name: str) -> float:
    return _constant(name) if name == "NaN" else float(name)


def _whole(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise ValueError(f"a number has {len(text)} digits, and at most {_MAX_DIGITS} are read")
    return int(text)


def _real(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text[:40]} is out of range")
    return value


def _decoder(constant: Callable[[str], float]) -> json.JSONDecoder:
    return json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=constant, parse_int=_whole, parse_float=_real)


_DECODER, _INFINITE = _decoder(_constant), _decoder(_infinity)
