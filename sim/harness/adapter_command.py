"""The command `leyden adapter`: it writes a template of an adapter, checks an adapter, and calls one of its methods."""

from __future__ import annotations

import argparse
import errno
import inspect
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from leyden.files.json_files import InputError
from leyden.files.written_files import write_document
from leyden.harness.command import HarnessError
from leyden.harness.constants import NO_KEY
from leyden.harness.session.session import encoded
from leyden.harness.targets.adapter import (
    ADAPTER_METHODS,
    Adapter,
    adapter_attribute,
    adapter_method,
    load_adapter,
    why,
)
from leyden.harness.targets.served import ExternalService
from leyden.server.errors import LeydenError
from leyden.server.printable import printable

_HEAD = '''"""An adapter for the harness of Leyden: leyden adapter --check FILE URL tries every method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class Adapter:
    """Remove the methods that your system cannot have: the report names what is not checked."""

    # A receiver that answers 200 and keeps what it gets for inbox().
    callback_url = "http://127.0.0.1:9000/hook"

    # The seconds after which the node returns a held payment; None if that is not known.
    hold_limit_s: float | None = None'''


class AdapterFailed(LeydenError):
    """A method of an adapter raised an error, or returned what cannot be printed as JSON."""


def adapter(options: argparse.Namespace) -> int:
    """Write, check or call an adapter. Returns 1 if a method of the adapter does not do what it must."""
    if options.new is not None:
        _write(Path(options.new))
        print(f"{options.new} is written: replace the bodies, and remove the methods that your system cannot have")
        return 0
    loaded = load_adapter(options.check if options.call is None else options.call)
    if options.call is not None:
        return _call(loaded, options.words)
    if len(options.words) != 1:
        raise HarnessError("--check needs the URL of the service: leyden adapter --check FILE URL")
    [url] = options.words
    target = ExternalService(url, options.api_key, NO_KEY, adapter=loaded, adapter_name=options.check)
    try:
        target.begin(0, 0, ())
        wrong = 0
        for name, text in _Check(target, loaded).results():
            print(f"{name:12} {printable(text)}")
            wrong += text.startswith("wrong")
    finally:
        target.end()
    return 1 if wrong else 0


def template() -> str:
    """An adapter with every method, whose bodies raise an error until they are replaced."""
    lines = [_HEAD]
    for name in ADAPTER_METHODS:
        method = getattr(Adapter, name)
        lines += ["", f"    def {name}{_signature(method)}:", f'        """{inspect.cleandoc(method.__doc__ or "")}"""']
        lines += [f'        raise NotImplementedError("{name}")']
    return "\n".join(lines) + "\n"


def _signature(method: Callable[..., Any]) -> str:
    return str(inspect.signature(method)).replace("'", "")


def _write(path: Path) -> None:
    try:
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        write_document(path, template())
    except OSError as error:
        raise InputError(f"{printable(str(path))}: {error.strerror}; choose the path of a new file") from None


def _call(loaded: object | None, words: Sequence[str]) -> int:
    """Call a method with texts (a number for `advance`) and print its answer: a text as it is, callbacks as one JSON
    object in a line, anything else as JSON."""
    name, *arguments = words or [""]
    if name == "callback_url":
        print(adapter_attribute(loaded, name) or "")
        return 0
    method = adapter_method(loaded, name) if name in ADAPTER_METHODS else None
    if method is None:
        raise HarnessError(
            f"the adapter has no {printable(name) or 'such'}(): give one of {', '.join(ADAPTER_METHODS)}"
        )
    try:
        answer = method(*(float(one) if name == "advance" else one for one in arguments))
        if name == "inbox":
            lines = [json.dumps({"headers": dict(headers), "body": body}) for headers, body in answer]
        else:
            lines = [] if answer is None else [answer if isinstance(answer, str) else json.dumps(answer)]
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the adapter is a user's program
        raise AdapterFailed(
            f"{name}() of the adapter failed with {why(error)}; correct it, or the arguments"
        ) from error
    for line in lines:
        print(line)
    return 0


class _Check:
    """Tries every method of an adapter on Charges that it creates."""

    def __init__(self, target: ExternalService, loaded: object | None) -> None:
        self._target = target
        self._adapter = loaded
        self._url = adapter_attribute(loaded, "callback_url")

    def results(self) -> Iterator[tuple[str, str]]:
        """For each method its name and `ok`, `wrong` or `absent` with the reason."""
        valid = isinstance(self._url, str) and self._url[:8].lower().startswith(("http://", "https://"))
        absent = self._url is None
        yield "callback_url", "absent: the callback URLs of the cases are used" if absent else _said(valid, self._url)
        for name, without in ADAPTER_METHODS.items():
            method = adapter_method(self._adapter, name)
            if method is None:
                yield name, f"absent: {without} are not checked"
                continue
            try:
                yield name, getattr(self, f"_{name}")(method)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # the adapter is a user's program
                yield name, f"wrong: {why(error)}"

    def _create(self) -> dict[str, Any]:
        body = {"amount": "1000", "description": "leyden adapter --check"}
        body |= {"callbackUrl": self._url} if isinstance(self._url, str) else {}
        return self._data("POST", "/v0/charges", encoded(body))

    def _data(self, method: str, path: str, body: bytes = b"") -> dict[str, Any]:
        headers = [("apikey", self._target.keys["default"])]
        headers += [("Content-Type", "application/json")] if body else []
        response = self._target.send(method, path, headers, body)
        data = response.json.get("data") if isinstance(response.json, dict) else None
        if response.status != 200 or not isinstance(data, dict):
            raise HarnessError(f"{method} {path} is answered with {response.status}: correct the service first")
        return data

    def _becomes(self, charge: Mapping[str, Any], status: str, answer: Any) -> str:
        observed = ""
        for _ in range(50):
            observed = self._data("GET", f"/v0/charges/{charge['id']}")["status"]
            if observed == status:
                break
        return _said(observed == status, answer, f"the Charge is {observed}", f"a Charge that is {status}")

    def _pay(self, method: Callable[..., Any]) -> str:
        charge = self._create()
        return self._becomes(charge, "completed", method(charge["invoice"]["request"]))

    def _fail(self, method: Callable[..., Any]) -> str:
        charge = self._create()
        return self._becomes(charge, "error", method(charge["id"]))

    def _hold(self, method: Callable[..., Any]) -> str:
        charge = self._create()
        return self._becomes(charge, "pending", method(charge["invoice"]["request"]))

    def _settle(self, method: Callable[..., Any]) -> str:
        return self._resolve(method, "completed")

    def _cancel(self, method: Callable[..., Any]) -> str:
        return self._resolve(method, "error")

    def _resolve(self, method: Callable[..., Any], status: str) -> str:
        hold = adapter_method(self._adapter, "hold")
        if hold is None:
            return "wrong: it needs hold()"
        charge = self._create()
        hold(charge["invoice"]["request"])
        return self._becomes(charge, status, method(charge["invoice"]["request"]))

    def _advance(self, method: Callable[..., Any]) -> str:
        now = adapter_method(self._adapter, "now")
        before = None if now is None else now()
        answer = method(60.0)
        if now is None:
            return f"ok: returned {_kind(answer)}; how far it went is not known without now()"
        passed = now() - before
        return _said(60 <= passed < 65, answer, f"{passed:g} s passed", "60 s")

    def _inbox(self, method: Callable[..., Any]) -> str:
        if not isinstance(self._url, str):
            return "wrong: it needs the attribute callback_url"
        pay = adapter_method(self._adapter, "pay")
        charge = self._create()
        if pay is not None:
            pay(charge["invoice"]["request"])
        found: Any = ()
        for _ in range(50):
            found = method(self._url)
            if pay is None or any(charge["id"] in str(body) for _, body in found):
                break
            self._data("GET", "/v0/wallet")
        valid = isinstance(found, Sequence) and all(
            isinstance(headers, Mapping) and isinstance(body, str) for headers, body in found
        )
        if valid and pay is not None and not any(charge["id"] in body for _, body in found):
            return "wrong: it has no callback about a Charge that is completed"
        return _said(valid, found, f"{len(found)} callbacks", "a list of (headers, body): a mapping and a text")

    def _now(self, method: Callable[..., Any]) -> str:
        found = method()
        valid = isinstance(found, int | float) and not isinstance(found, bool) and 0 < found < 10**10
        return _said(valid, found, f"{found}", "a number of seconds since 1970")

    def _secret(self, method: Callable[..., Any]) -> str:
        found = method()
        return _said(isinstance(found, str) and found.startswith("whsec_"), found, "", "a text that begins with whsec_")

    def _rotate(self, method: Callable[..., Any]) -> str:
        secret = adapter_method(self._adapter, "secret")
        before = None if secret is None else secret()
        answer = method()
        return _said(secret is None or secret() != before, answer, "", "another secret()")

    def _restart(self, method: Callable[..., Any]) -> str:
        charge = self._create()
        answer = method()
        again = self._data("GET", f"/v0/charges/{charge['id']}")
        return _said(again == charge, answer, "the Charge is the same", "the same Charge")


def _said(valid: bool, answer: Any, more: str = "", wanted: str = "an http or https URL") -> str:
    seen = f"returned {_kind(answer)}{f'; {more}' if more else ''}"
    return f"ok: {seen}" if valid else f"wrong: {seen}, expected {wanted}"


def _kind(answer: Any) -> str:
    return "None" if answer is None else type(answer).__name__
