"""One run of a sweep: what it is called, what luck it has, and its answer as a row."""

from __future__ import annotations

import inspect
import json
import textwrap
import tokenize
from collections.abc import Callable, Mapping
from hashlib import sha256
from math import isnan
from types import SimpleNamespace
from typing import Any, NamedTuple

from leyden.server.version import VERSION

# The columns that every sweep has; the parameters and the metrics stand between the fourth and the fifth.
COLUMNS = ("run_id", "scenario", "replication", "seed", "status", "error", "wall_s", "version")

OK, FAILED = "ok", "failed"

Row = dict[str, Any]


class Scenario(SimpleNamespace):
    """One combination of parameters, as attributes. A run's scenario has `seed` and `replication` besides."""


class SweepRun(NamedTuple):
    """One scenario in one replication. `params` are the values as they were given, `kept` as they are written down."""

    run_id: str
    scenario: int
    replication: int
    seed: int
    params: dict[str, Any]
    json_params: dict[str, Any]


def seed_for(seed: int, replication: int) -> int:
    """The seed of a replication, 48 bits, the same in every scenario."""
    return int.from_bytes(sha256(f"sweep {seed} {replication}".encode()).digest()[:6], "big")


def function_key(fn: Callable[..., Any]) -> str:
    """What the function is: its source text, or its code where there is none, with its defaults and what it has closed
    over. A notebook's cell counts as source."""
    bare = inspect.unwrap(fn)
    whole = getattr(bare, "func", bare)  # of a functools.partial
    code = getattr(whole, "__code__", None)
    try:
        text = textwrap.dedent(inspect.getsource(whole))
    except (OSError, TypeError, SyntaxError, tokenize.TokenError):  # the last two: its file was changed since
        text = repr((code.co_code.hex(), code.co_names, _without_code(code.co_consts))) if code else repr(whole)
    bound = [getattr(bare, name, None) for name in ("args", "keywords")]
    defaults = getattr(whole, "__defaults__", None), getattr(whole, "__kwdefaults__", None)
    cells = [as_json(cell.cell_contents) for cell in getattr(whole, "__closure__", None) or () if _filled(cell)]
    return repr((text, as_json(defaults), cells, as_json(bound)))


def _without_code(constants: tuple[Any, ...]) -> list[str]:
    # A set is written in no particular order: another process would write it otherwise.
    return [
        one.co_code.hex()
        if hasattr(one, "co_code")
        else repr(sorted(map(repr, one)) if isinstance(one, frozenset) else one)
        for one in constants
    ]


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018  an empty cell raises
    except ValueError:
        return False
    return True


def run_key(text: str, params: Mapping[str, Any], seed: int, version: str) -> str:
    """16 hex digits that name a run by what its answer depends on."""
    listed = [[name, as_json(value)] for name, value in sorted(params.items())]
    return sha256(json.dumps([text, listed, seed, version]).encode()).hexdigest()[:16]


def as_json(value: Any) -> Any:
    """The value as JSON has it, the same before and after it was written down: NaN is None, what JSON does not know is
    its text."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return None if isnan(value) else float(value)
    if isinstance(value, Mapping):
        return {str(name): as_json(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json(one) for one in value]
    if callable(getattr(value, "item", None)) and getattr(value, "ndim", None) == 0:
        return as_json(value.item())  # a number of numpy's
    if callable(value) and hasattr(value, "__code__"):
        return function_key(value)
    return str(value)


def perform_run(fn: Callable[..., Any], run: SweepRun) -> Row:
    """Make one run, wherever this is called: in a worker process or here. It never raises an `Exception`."""
    from leyden.server.system.clock import stopwatch

    elapsed_s = stopwatch()
    metrics: Mapping[str, Any] = {}
    error = None
    try:
        answer = fn(Scenario(**run.params, seed=run.seed, replication=run.replication))
        if not isinstance(answer, Mapping):
            raise TypeError(f"the function returned {answer!r:.60}: return a dict of metrics")
        clash = sorted(set(map(str, answer)) & {*COLUMNS, *run.params})
        if clash:
            raise ValueError(f"the metric {clash[0]} is named like another column: name it otherwise")
        metrics = {str(name): as_json(value) for name, value in answer.items()}
    except Exception as raised:
        error = f"{type(raised).__name__}: {raised}"
    return row_of(run, metrics, error, elapsed_s())


def row_of(run: SweepRun, metrics: Mapping[str, Any], error: str | None, wall_s: float | None) -> Row:
    """What a run came to, as JSON values."""
    return {
        "run_id": run.run_id,
        "scenario": run.scenario,
        "replication": run.replication,
        "seed": run.seed,
        "params": run.json_params,
        "metrics": dict(metrics),
        "status": OK if error is None else FAILED,
        "error": error,
        "wall_s": None if wall_s is None else round(wall_s, 6),
        "version": VERSION,
    }
