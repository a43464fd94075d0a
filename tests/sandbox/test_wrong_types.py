"""Arguments of wrong types: each public call refuses one by an error of its own that names it, or accepts it."""

from __future__ import annotations

import dis
import inspect
import math
import os
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import leyden
import leyden.server
from leyden import Sandbox, grid, plot_sweep, sweep
from leyden.errors import ApiError, LeydenError
from leyden.lab.drawings import qr
from leyden.lab.traffic import traffic
from leyden.sandbox.collections import _FAULT_FIELDS
from leyden.sandbox.wallet import Wallet
from tests.support.deep import deep_except

LEYDEN = [str(Path(root).resolve()) for package in (leyden, leyden.server) for root in package.__path__]
NESTED: list[Any] = []
for _ in range(500):
    NESTED = [NESTED]
WRONG = (NESTED, object(), 5, "x", None, [], 1.5, math.nan, "", [5], {"a": object()}, b"x", True, ["x"], ())
# What a parameter without a default gets, by its name.
RIGHT: dict[str, Any] = {
    "name": "shop", "method": "GET", "target": "/v0/charges", "operation_id": "createCharge", "by": "1s",
    "when": "2030-01-01T01:00:00Z", "path": "saved.json", "resource": "Charge", "reply": 500, "script": [500],
    "secret": None, "kind": "drop", "interceptor_id": "intercept-1", "channel": 0, "peer": "shop", "amount": 1000,
    "delivery_id": "1", "capacity": 10**9, "since_ms": None, "until_ms": None, "span": "1h", "text": "x", "title": "x",
    "action": print, "period": "1h",
}  # fmt: skip
# Calls that need another object, end the sandbox, or take any field.
LEFT_OUT = {"Sandbox.app", "Sandbox.close", "Sandbox.from_snapshot", "Sandbox.load", "Sandbox.serve"}


class Subject:
    """One sandbox with something of each kind, and its public methods by name."""

    def __init__(self) -> None:
        sb = self.sandbox = Sandbox(seed=1, network="line:4")
        self.charge = sb.charges.create(amount="1000", description="tea", callbackUrl="http://shop.localhost/p")
        self.static = sb.static_charges.create(minAmount="1000", maxAmount="9000", description="tea")
        self.payment = sb.wallet("ana").pay(self.charge)
        sb.run("1m")
        objects = (
            sb, self.charge, self.static, self.payment, sb.wallet("ana"), sb.charges, sb.faults, sb.receiver("shop"),
            sb.network, sb.network["n1"], sb.network.intercept("drop"), sb.kpi, sb.schedule(),
            sb.plot,
        )  # fmt: skip
        self.calls: dict[str, Callable[..., Any]] = {}
        for each in objects:
            for name, _ in inspect.getmembers_static(type(each)):
                if not name.startswith("_") and callable(method := getattr(each, name)):
                    kind = type(each).__name__.removeprefix("Recorded")
                    self.calls[f"{kind}.{name}"] = method
        RIGHT.update(key=self.charge.id, other=sb, what=self.charge)
        for indexed in (sb.charges, sb.network, sb.faults):
            if hasattr(indexed, "__getitem__"):
                self.calls[f"{type(indexed).__name__}.__getitem__"] = indexed.__getitem__
        self.calls["Sandbox"] = Sandbox
        self.calls["qr"] = qr
        self._add(lambda **named: sb.traffic(**{"count": 2, **named}), "traffic", *_names_of(traffic)[1:])
        self._add(lambda **named: sb.faults.add("drop", **named), "faults.add", *_FAULT_FIELDS)
        body = {"amount": "1000", "description": "tea"}
        self._add(lambda **named: sb.charges.create(**{**body, **named}), "charges.create", *body, "expiresIn")
        swept = sweep(metrics, grid(a=[1, 2]), workers=1, progress=False)
        drawn = {"runs": swept, "metric": "m", "x": "a"}
        self._add(lambda **named: plot_sweep(**{**drawn, **named}), "plot_sweep", *_names_of(plot_sweep))
        scanned = {"what": self.static, "amount": 1000}
        self._add(
            lambda **named: sb.wallet("ana").scan(**{**scanned, **named}), "Wallet.scan", *_names_of(Wallet.scan)[1:]
        )
        alone = {"fn": metrics, "scenarios": grid(a=[1]), "workers": 1, "progress": False}
        self._add(lambda **named: sweep(**{**alone, **named}), "sweep", *_names_of(sweep))
        for name in LEFT_OUT:
            self.calls.pop(name, None)

    def _add(self, call: Callable[..., Any], name: str, *parameters: str) -> None:
        kind = inspect.Parameter.KEYWORD_ONLY
        signature = inspect.Signature([inspect.Parameter(one, kind, default=None) for one in parameters])
        call.__signature__ = signature  # type: ignore[attr-defined]
        self.calls[name] = call


def _names_of(call: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(call).parameters)


def metrics(scenario: Any) -> dict[str, int]:
    return {"m": 1}


def wrong_calls(
    call: Callable[..., Any], values: Iterable[Any]
) -> Iterator[tuple[str, Any, list[Any], dict[str, Any]]]:
    """Each parameter with each of these values: its name, the value, and the arguments of the call."""
    several = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    parameters = {name: one for name, one in inspect.signature(call).parameters.items() if one.kind not in several}
    needed = {name: RIGHT[name] for name, one in parameters.items() if one.default is one.empty and name in RIGHT}
    for name in parameters:
        for value in values:
            given = {**needed, name: value}
            positional = [one for one in given if parameters[one].kind is inspect.Parameter.POSITIONAL_ONLY]
            yield name, value, [given.pop(one) for one in positional], given


def names(parameter: str, value: Any) -> list[str]:
    """What an error may name: the parameter, a word of it, the value, or what is in the value."""
    inside = [*value] if isinstance(value, (list, tuple, dict, bytes)) else []
    inside += [*value.values()] if isinstance(value, dict) else []
    if not value:  # has no form that a text could show
        return [""]
    return [
        parameter,
        parameter.rpartition("_")[2],
        *(form(one)[:12] for one in (value, *inside) for form in (repr, str)),
    ]


def is_raised_by_leyden(error: BaseException) -> bool:
    """Whether a `raise` statement of Leyden raised it, and no operation on a value of the wrong type."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    assert last is not None
    code = frame.f_code
    operation = dis.opname[code.co_code[last.tb_lasti]]
    return operation in ("RAISE_VARARGS", "RERAISE") and any(
        os.path.realpath(code.co_filename).startswith(root) for root in LEYDEN
    )


NAMES = list(Subject().calls)


@pytest.mark.parametrize("name", deep_except(NAMES, *NAMES[::10]))
def test_a_value_of_a_wrong_type_is_refused_in_words_or_accepted(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    subject = Subject()
    faults = []  # lines of text: a parameter, a value, and what is wrong with the error
    for parameter, value, positional, named in wrong_calls(subject.calls[name], WRONG):
        shown = f"{name}({parameter}={value!r:.40})"
        try:
            subject.calls[name](*positional, **named)
        except Exception as error:
            text = str(error)
            if not isinstance(error, (LeydenError, ValueError, TypeError)) or not is_raised_by_leyden(error):
                *_, last = traceback.extract_tb(error.__traceback__)
                faults.append(f"{shown}: {type(error).__name__} {text:.80} at {last.filename[-40:]}:{last.lineno}")
            elif not isinstance(error, ApiError) and not any(word in text for word in names(parameter, value)):
                faults.append(f"{shown}: not named by {text:.120}")
    assert not faults, "\n" + "\n".join(faults)
    loaded = Sandbox.load(subject.sandbox.save(tmp_path / "saved.json"))
    assert loaded.journal_hash == subject.sandbox.journal_hash
    assert len(loaded.payments) == len(subject.sandbox.payments)
