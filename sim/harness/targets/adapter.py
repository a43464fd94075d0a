"""Adapters: what a QA team writes to control its own system, and how an adapter is loaded by its name."""

from __future__ import annotations

import os
import re
import sys
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from leyden.files.json_files import InputError
from leyden.server.errors import LeydenError
from leyden.server.pipes import read_file
from leyden.server.printable import printable

NO_ADAPTER = "none"
HOLD_LIMIT = "hold_limit_s"
_LAST_S = 253_402_300_800  # the year 10000
_SECRET = re.compile("whsec_[A-Za-z0-9+/]+={0,2}")
_NAMES = ("adapter", "Adapter")  # what a file without a name is searched for


class TargetError(LeydenError):
    """A target that cannot be tested with these options; the text says what to do."""

    exit_status = 3


class Adapter(Protocol):
    """The interface that a QA team implements for its own system. Leave out methods that the system cannot have.

    An attribute `callback_url`, if there is one, replaces the callback URLs of the cases: that of a receiver which
    answers 200 and keeps what it gets for `inbox`. An attribute `hold_limit_s` is the time in seconds after which the
    node returns a held payment; without it a payment that is held for ten minutes or longer may have been returned.
    """

    def pay(self, request: str) -> None:
        """Pay a BOLT11 invoice in full. A payment that the service refuses is no error."""

    def advance(self, seconds: float) -> None:
        """Advance the clock of the service."""

    def inbox(self, url: str) -> Sequence[tuple[Mapping[str, str], str]]:
        """The callbacks to this URL so far, as (headers, body), oldest first; the body as the text that was sent."""

    def now(self) -> float:
        """The time of the service, in seconds since 1970."""

    def secret(self) -> str:
        """The webhook secret that signs now, with its prefix `whsec_`."""

    def fail(self, charge_id: str) -> None:
        """Let the invoice of a Charge fail at the node. A Charge in a final state keeps it."""

    def hold(self, request: str) -> None:
        """Pay a BOLT11 invoice, and let the node hold the payment."""

    def settle(self, request: str) -> None:
        """Settle the held payment of an invoice."""

    def cancel(self, request: str) -> None:
        """Cancel the held payment of an invoice."""

    def rotate(self) -> None:
        """Rotate the webhook secret; the former one signs, too, for a day."""

    def restart(self) -> None:
        """Stop the service and start it on its data."""


# The methods of an adapter, and what is not checked without each.
ADAPTER_METHODS: Mapping[str, str] = {
    "pay": "payments",
    "advance": "expiry and the end of retention",
    "inbox": "callbacks",
    "now": "the seconds about an expiry and the end of retention, and times of creation",
    "secret": "signatures of callbacks",
    "fail": "the state error",
    "hold": "held payments",
    "settle": "held payments that are settled",
    "cancel": "held payments that are cancelled",
    "rotate": "rotation of the webhook secret",
    "restart": "restarts",
}


def hold_limit_of(adapter: object | None) -> float | None:
    """The attribute `hold_limit_s` of an adapter, a number of seconds above zero; None if it has none. Raises
    `InputError` for another value, and as `adapter_attribute`."""
    found = adapter_attribute(adapter, HOLD_LIMIT)
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 < found < _LAST_S:
        seen = printable(f"{type(found).__name__} {found!r}"[:100])
        raise InputError(
            f"the adapter's {HOLD_LIMIT} is {seen} and not a number of seconds above 0; correct the adapter"
        )
    return float(found)


def adapter_method(adapter: object | None, name: str) -> Callable[..., Any] | None:
    """The method of an adapter; None if it has none of this name. Raises as `adapter_attribute`."""
    found = adapter_attribute(adapter, name)
    return found if callable(found) else None


def adapter_attribute(adapter: object | None, name: str) -> Any:
    """The attribute of an adapter; None if it has none of this name. Raises `InputError` when reading it raises: a
    property or a `__getattr__` is a user's program."""
    try:
        return getattr(adapter, name, None)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise InputError(f"the adapter's attribute {name} cannot be read: {why(error)}; correct the adapter") from error


def adapter_call(adapter: object | None, name: str) -> Callable[..., Any] | None:
    """The method of an adapter for a run; None if it has none of this name. It raises `TargetError` when the method
    raises, and when it returns what the method of `Adapter` does not."""
    method = adapter_method(adapter, name)
    return None if method is None else partial(_answer, method, name)


def _answer(method: Callable[..., Any], name: str, *arguments: Any) -> Any:
    wanted = ""
    try:
        answer = method(*arguments)
        if name not in _ANSWERS:
            return answer
        read, wanted = _ANSWERS[name]
        return read(answer)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the adapter is a user's program
        seen = f"returned what is not {wanted}" if wanted else f"failed with {why(error)}"
        raise TargetError(f"{name}() of the adapter {seen}: correct it; leyden adapter --check tries it") from error


def _seconds(answer: Any) -> float:
    seconds = float(answer)
    if not 0 <= seconds < _LAST_S:
        raise ValueError
    return seconds


def _text(answer: Any) -> str:
    if not isinstance(answer, str):
        raise TypeError
    return answer


def _secret(answer: Any) -> str:
    if _SECRET.fullmatch(_text(answer)) is None:
        raise ValueError
    b64decode(answer.removeprefix("whsec_"), validate=True)
    return str(answer)


def _callbacks(answer: Any) -> list[tuple[Mapping[str, str], str]]:
    return [({_text(name): _text(headers[name]) for name in headers}, _text(body)) for headers, body in answer]


# How the answer of a method is read, and what it is.
_ANSWERS: Mapping[str, tuple[Callable[[Any], Any], str]] = {
    "now": (_seconds, "a number of seconds since 1970"),
    "secret": (_secret, "a text that begins with whsec_ and goes on in Base64"),
    "inbox": (_callbacks, "a list of (headers, body): a mapping of texts and a text"),
}


def why(error: BaseException) -> str:
    """An error of a user's program in one line, also one whose text cannot be made."""
    try:
        return printable(f"{type(error).__name__}: {error}"[:300])
    except Exception:
        return printable(type(error).__name__[:300])


def load_adapter(text: str) -> object | None:
    """The adapter that `FILE.py`, `FILE.py:NAME` or `MODULE:NAME` names, or None for `none`; a class is called without
    arguments. A file without a name has an object `adapter` or a class `Adapter`.

    The file or module is a program, which is run. Raises `InputError` if it cannot be loaded.
    """
    if text == NO_ADAPTER:
        return None
    place, colon, name = text.rpartition(":")
    if not colon:
        place, name = text, ""
    if not place.endswith(".py") and (not colon or name.endswith(".py")):
        place, name = text, ""
    if not (place.endswith(".py") or (colon and name)):
        raise InputError(
            f"{printable(text)!r} names no adapter: write file.py, file.py:object, module:object, or {NO_ADAPTER}"
        )
    try:
        module = _module_of_file(place) if place.endswith(".py") else _imported(place)
        name = name or next((one for one in _NAMES if hasattr(module, one)), _NAMES[0])
        found = getattr(module, name)
        adapter: object = found() if isinstance(found, type) else found
    except KeyboardInterrupt:
        raise
    except FileNotFoundError as error:
        if not place.endswith(".py") or Path(place).exists():
            raise InputError(_not_imported(text, error)) from error
        start = "" if Path(place).is_absolute() else " in the directory from which this is run"
        raise InputError(f"there is no adapter {printable(place)!r}{start}: give its path") from error
    except BaseException as error:  # the module is a user's program
        raise InputError(_not_imported(text, error)) from error
    for each in ("callback_url", HOLD_LIMIT, *ADAPTER_METHODS):
        adapter_attribute(adapter, each)  # raises before anything is sent
    return adapter


def _not_imported(text: str, error: BaseException) -> str:
    return f"the adapter {printable(text)!r} cannot be imported: {why(error)}; correct the module"


def adapter_from(text: str, base: Path, folder: Path) -> str:
    """The name of an adapter that is given from the directory `base`, as it must be given from `folder`: another
    relative path of its file."""
    if not is_relative(text):
        return text
    path, colon, name = (text, "", "") if text.endswith(".py") else text.rpartition(":")
    return os.path.relpath(base / path, folder) + colon + name


def is_relative(text: str) -> bool:
    """Whether a name of an adapter is the relative path of a file."""
    path = text if text.endswith(".py") else text.rpartition(":")[0]
    return path.endswith(".py") and not Path(path).is_absolute()


def _imported(name: str) -> ModuleType:
    if "" not in sys.path:
        sys.path.insert(0, "")
    return import_module(name)


class _Program(SourceFileLoader):
    """Reads a module as other files are read: who waits for a named pipe is told so."""

    def get_data(self, path: str) -> bytes:
        """The bytes of the file. Raises `OSError`."""
        return read_file(path, -1)


def _module_of_file(place: str) -> ModuleType:
    path = Path(place)
    spec = spec_from_file_location(path.stem, path, loader=_Program(path.stem, str(path)))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
