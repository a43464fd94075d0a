"""One run of a sweep: its id, its seed, and its result as a row."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from hashlib import sha256
from math import isnan
from types import SimpleNamespace
from typing import Any, NamedTuple, TypedDict

from leyden.errors import ArgumentError
from leyden.lab.sweeps.identity import Identity
from leyden.server.printable import quoted
from leyden.server.version import VERSION

# The columns of every sweep; parameters and metrics come between the fourth and the fifth.
COLUMNS = ("run_id", "scenario", "replication", "seed", "status", "error", "real_time_s", "version", "leyden_version")

MAX_SEED = 2**48 - 1
OK, FAILED = "ok", "failed"


class SweepRow(TypedDict):
    """The result of a run as JSON values: `metrics` are what the function returned, `real_time_s` how long it took.
    `version` is the argument of `sweep`, `leyden_version` the Leyden that did the run."""

    run_id: str
    scenario: int
    replication: int
    seed: int
    params: dict[str, Any]
    metrics: dict[str, Any]
    status: str
    error: str | None
    real_time_s: float | None
    version: str
    leyden_version: str


class Scenario(SimpleNamespace):
    """One combination of parameters, as attributes. In a run it also has `seed` and `replication`."""


class SweepRun(NamedTuple):
    """One replication of one scenario. `params` are the given values, `json_params` their JSON values.
    `version` is the argument of `sweep`."""

    run_id: str
    scenario: int
    replication: int
    seed: int
    params: dict[str, Any]
    json_params: dict[str, Any]
    version: str = ""


def seed_for(seed: int, replication: int) -> int:
    """The seed of a replication, at most `MAX_SEED`, the same in every scenario."""
    return int.from_bytes(sha256(f"sweep {seed} {replication}".encode()).digest()[:6], "big")


def function_key(fn: Callable[..., Any]) -> str:
    """A text that identifies a function by what it depends on: see `leyden.lab.sweeps.identity`."""
    return Identity(fn).text


def run_key(text: str, params: Mapping[str, Any], seed: int, version: str) -> str:
    """16 hex digits that identify a run by everything that its result depends on."""
    listed = [[name, Identity(value, name).text] for name, value in sorted(params.items())]
    return sha256(json.dumps([text, listed, seed, version]).encode()).hexdigest()[:16]


def as_json(value: Any) -> Any:
    """The value as JSON values: NaN becomes None, a value without a JSON form becomes its text, a lone surrogate its
    escape."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return None if isnan(value) else float(value)
    if isinstance(value, Mapping):
        return {_text(str(name)): as_json(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json(one) for one in value]
    if callable(getattr(value, "item", None)) and getattr(value, "ndim", None) == 0:
        return as_json(value.item())  # a numpy number
    if callable(value) and hasattr(value, "__code__"):
        return function_key(value)
    return _text(str(value))


def _text(text: str) -> str:
    """The text without lone surrogates, which a column of a DataFrame and a file cannot have."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def perform_run(fn: Callable[..., Any], run: SweepRun) -> SweepRow:
    """Perform one run, in any process. An exception becomes a failed row."""
    from leyden.server.system.clock import stopwatch

    elapsed_s = stopwatch()
    metrics: Mapping[str, Any] = {}
    error = None
    try:
        answer = fn(Scenario(**run.params, seed=run.seed, replication=run.replication))
        if not isinstance(answer, Mapping):
            raise ArgumentError(f"the function returned {quoted(answer, 60)}: return a dict of metrics")
        clash = sorted(set(map(str, answer)) & {*COLUMNS, *run.params})
        if clash:
            raise ArgumentError(f"the metric {clash[0]} has the name of another column: rename it")
        metrics = as_json(answer)
    except Exception as raised:
        error = _text(f"{type(raised).__name__}: {raised}")
    return row_of(run, metrics, error, elapsed_s())


def row_of(run: SweepRun, metrics: Mapping[str, Any], error: str | None, real_time_s: float | None) -> SweepRow:
    """The row of a run, as JSON values."""
    return {
        "run_id": run.run_id,
        "scenario": run.scenario,
        "replication": run.replication,
        "seed": run.seed,
        "params": run.json_params,
        "metrics": dict(metrics),
        "status": OK if error is None else FAILED,
        "error": error,
        "real_time_s": None if real_time_s is None else round(real_time_s, 6),
        "version": _text(run.version),
        "leyden_version": VERSION,
    }
