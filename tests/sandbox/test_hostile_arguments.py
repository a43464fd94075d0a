"""Values of other libraries, texts that no file has and numbers without end, given to every public call: each is
accepted, or refused by one error of Leyden in one line."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import leyden
from leyden import Sandbox, VirtualClock, grid, sweep
from leyden.callbacks.replies import Reply
from leyden.errors import ApiError, LeydenError
from leyden.lightning.payer.payer_rules import PayerSpec
from leyden.server.printable import printable, quoted
from leyden.service_faults.kinds import ServiceFaultSpec
from tests.sandbox.test_wrong_types import Subject, metrics, wrong_calls
from tests.support.deep import deep_except

MOST = 1_200  # characters of an error's text


class Unprintable:
    """A value of a class of one's own, whose repr raises."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")


SERIES = pd.Series([1, 2, 3])
HOSTILE = (
    SERIES,
    pd.Series([0.5]),
    pd.DataFrame({"a": [1, 2]}),
    np.array([1, 2]),
    np.array(1),
    np.array([0.5]),
    np.array(["a", "b"]),
    np.float64("nan"),
    np.float32(2.5),
    np.bool_(True),
    np.datetime64("2030-01-01"),
    pd.Timestamp("2030-01-01"),
    pd.NaT,
    pd.NA,
    10**400,
    -(10**400),
    10**5000,
    Decimal("1e400"),
    Fraction(10**400),
    float("inf"),
    "a\0b",
    "\ud800",
    "one\ntwo",
    "x" * 5000,
    {1: 2},
    {"a"},
    Unprintable(),
    [SERIES],
    [10**5000],
    ["a\0b"],
    [Unprintable()],
    {"a": SERIES},
)


# What an error calls a parameter, where it has another word.
WORDS = {"what": "LNURL"}


class WholeApi(Subject):
    """All that `Subject` has, and the calls that no object of a sandbox has."""

    def __init__(self) -> None:
        super().__init__()
        sb = self.sandbox
        rule, fault = [one.name for one in fields(PayerSpec)], [one.name for one in fields(ServiceFaultSpec)]
        self._add(lambda **named: sb.payers.add(**named), "payers.add", *rule)
        self._add(lambda **named: sb.service_faults.add(**{"kind": "error", **named}), "service_faults.add", *fault)
        for kind in ("slow_body", "connection_reset", "past_date", "wrong_content_type"):
            self._add(partial(fault_of, sb, kind), f"service_faults.add {kind}", *fault[1:])
        self.calls |= {"payers.clear": sb.payers.clear, "service_faults.clear": sb.service_faults.clear}
        runs = sweep(metrics, grid(a=[1, 2]), replications=3, workers=1, progress=False)
        compared = {"runs": runs, "baseline": 0}
        self._add(lambda **named: leyden.compare(**{**compared, **named}), "compare", "runs", "baseline", "metrics",
                  "width", "confidence", "shares")  # fmt: skip
        self._add(lambda **named: leyden.estimates(**{"runs": runs, **named}), "estimates", "runs", "metrics",
                  "confidence", "shares")  # fmt: skip
        self._add(lambda **named: grid(**{"a": [1], **named}), "grid", "a")
        self._add(lambda **named: leyden.read(**named), "read", "directory")
        self._add(lambda **named: Sandbox.load(**named), "load", "path")
        self._add(lambda **named: Sandbox.from_snapshot(**named), "from_snapshot", "snapshot")
        self._add(lambda **named: VirtualClock(**{"start_ms": 0, **named}), "VirtualClock", "start_ms", "rate")
        for name in ("advance", "advance_to", "run_events", "set_rate", "add_elapsed"):
            self.calls[f"VirtualClock.{name}"] = getattr(VirtualClock(0), name)
        self._add(lambda **named: Reply(**named) and sb.receiver("shop").always(Reply(**named)), "Reply",
                  *[one.name for one in fields(Reply)])  # fmt: skip


def fault_of(sandbox: Sandbox, kind: str, **named: Any) -> Any:
    return sandbox.service_faults.add(kind, **named)


NAMES = list(WholeApi().calls)


@pytest.mark.parametrize("name", deep_except(NAMES, *NAMES[::10]))
def test_a_value_of_another_library_is_refused_by_an_error_of_leyden_or_accepted(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    subject = WholeApi()
    faults = []
    for parameter, value, positional, named in wrong_calls(subject.calls[name], HOSTILE):
        shown = f"{name}({parameter}={quoted(value, 40)})"
        try:
            subject.calls[name](*positional, **named)
        except LeydenError as error:
            text = str(error)
            if len(text.splitlines()) != 1 or len(text) > MOST:
                faults.append(f"{shown}: {len(text)} characters: {text[:200]!r}")
            elif not isinstance(error, ApiError) and not is_named(text, parameter, value):
                faults.append(f"{shown}: not named by {text:.200}")
        except Exception as error:
            *_, last = traceback.extract_tb(error.__traceback__)
            faults.append(f"{shown}: {type(error).__name__} {error!s:.80} at {last.filename[-40:]}:{last.lineno}")
    assert not faults, "\n" + "\n".join(faults)


def is_named(text: str, parameter: str, value: Any) -> bool:
    """Whether a text names the parameter, or shows the value or what is in it."""
    inside = []
    if isinstance(value, (list, dict, set, pd.Series, pd.DataFrame, np.ndarray)) and getattr(value, "ndim", 1):
        inside = [*value, *(value.values() if isinstance(value, dict) else ())]
    shown = [form for one in (value, *inside) for form in forms(one)]
    return any(
        word in text for word in (WORDS.get(parameter, parameter), parameter, parameter.rpartition("_")[2], *shown)
    )


def forms(value: Any) -> list[str]:
    """How an error may show a value: its repr, its text, the number of its digits or its type."""
    texts = [quoted(value)[:8], type(value).__name__]
    if isinstance(value, (int, Fraction, Decimal)) and abs(value) > 10**40:
        return [*texts, "a number of about"]
    with suppress(RuntimeError, ValueError):  # what has no text
        texts.append(printable(str(value)[:8]))
    return texts


@pytest.mark.parametrize(
    "script", [range(500, 503), iter([500, 501, 502]), (one for one in (500, 501, 502)), pd.Series([]), (500, 501, 502)]
)
def test_replies_that_are_read_in_order_are_recorded_as_a_list(script: Any, tmp_path: Path) -> None:
    sb = Sandbox(seed=1)
    sb.receiver("shop").answers(script)
    count = len(sb.receiver("shop").script)
    assert count in (0, 3)
    assert len(Sandbox.load(sb.save(tmp_path / "saved.json")).receiver("shop").script) == count
    again: dict[str, Any] = {}
    exec(sb.script(), again)
    assert again["sb"].receiver("shop").script == sb.receiver("shop").script


@pytest.mark.parametrize("script", [{500}, frozenset(), b"", bytearray(b"a"), {500: 1}, {}])
def test_replies_without_an_order_are_refused(script: Any) -> None:
    with pytest.raises(ValueError, match="is not a list of replies"):
        Sandbox().receiver("shop").answers(script)


def test_numbers_of_other_libraries_are_recorded_as_numbers(tmp_path: Path) -> None:
    sb = Sandbox(seed=1)
    for duration in (np.int64(60), np.float64(60)):
        sb.traffic("5/min", count=1, duration=duration)  # type: ignore[arg-type]
    assert Sandbox.load(sb.save(tmp_path / "saved.json")).journal_hash == sb.journal_hash
    assert "duration=60.0" in sb.script()


SURROGATE = "a\udcff"
SET: dict[str, Callable[[Sandbox], object]] = {
    "payers.add description": lambda sandbox: sandbox.payers.add(description=SURROGATE),
    "payers.add internal_id": lambda sandbox: sandbox.payers.add(internal_id=SURROGATE),
    "payers.add payer": lambda sandbox: sandbox.payers.add(payer=SURROGATE),
    "PayerSpec static_charge": lambda sandbox: PayerSpec(static_charge=SURROGATE).row("a", 0),
    "always body": lambda sandbox: sandbox.receiver("shop").always(Reply(body=SURROGATE)),
    "answers header": lambda sandbox: sandbox.receiver("shop").answers([200, Reply(headers={"x": SURROGATE})]),
    "when header name": lambda sandbox: sandbox.receiver("shop").when(Reply(headers={SURROGATE: "x"})),
    "behaves": lambda sandbox: sandbox.receiver("shop").behaves(fails_with=Reply(status=500, body=SURROGATE)),
    "label": lambda sandbox: sandbox.fork(SURROGATE),
    "fault value": lambda sandbox: sandbox.faults.add("unknown_status", value=SURROGATE),
    "service fault path": lambda sandbox: sandbox.service_faults.add("error", path=f"/{SURROGATE}"),
    "wallet": lambda sandbox: sandbox.wallet(SURROGATE),
}


@pytest.mark.parametrize("name", SET)
def test_a_text_with_half_a_character_is_refused_where_it_is_set(name: str) -> None:
    with Sandbox(seed=1) as sandbox:
        with pytest.raises(ValueError, match=r"give |leave |choose ") as refused:
            SET[name](sandbox)
        assert isinstance(refused.value, LeydenError)
        assert not isinstance(refused.value, UnicodeError)
        assert str(refused.value).isprintable()
        assert sandbox.request("GET", "/sandbox/v1/export").status == 200
