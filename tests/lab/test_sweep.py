"""Sweeps: one row per run, in order, the same in every process, and no run is repeated."""

from __future__ import annotations

import json
import math
import os
import stat
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pytest

from leyden import Sandbox, grid, sweep
from leyden.errors import SweepError
from leyden.lab.kpi import Kpi
from leyden.lab.sweeps.runs import COLUMNS, Scenario, as_json, function_key, seed_for
from leyden.lab.sweeps.store import SweepStore
from leyden.lab.traffic import traffic
from leyden.server.errors import StoreError
from leyden.server.version import VERSION
from tests.support.deep import deep

OWN = list(COLUMNS)


def shop(s: Any) -> dict[str, Any]:
    """The figures of a small sandbox."""
    with Sandbox(seed=s.seed) as sandbox:
        traffic(sandbox.world, "30/min", expiresIn=s.expiresIn, patience="lognorm(45s)", count=10)
        sandbox.run()
        kpi = Kpi(sandbox.world)
        return {"conversion": kpi.conversion, "received_msat": kpi.received_msat, "hash": sandbox.world.journal.hash}


def metrics(s: Any) -> dict[str, Any]:
    return {"double": 2 * s.x, "random": s.seed % 1_000, "again": s.replication}


def same(one: pd.DataFrame, other: pd.DataFrame) -> bool:
    pd.testing.assert_frame_equal(one.drop(columns="real_time_s"), other.drop(columns="real_time_s"))
    return True


def test_only_the_owner_reads_a_new_file_of_a_sweep(tmp_path: Path) -> None:
    former = os.umask(0o022)
    try:
        sweep(metrics, grid(x=[1]), store=tmp_path / "rows.jsonl", progress=False)
    finally:
        os.umask(former)
    assert stat.S_IMODE((tmp_path / "rows.jsonl").stat().st_mode) == 0o600


# What is run


def test_a_grid_is_every_combination_the_last_parameter_fastest() -> None:
    assert [(s.a, s.b) for s in grid(a=[1, 2], b=["x", "z"])] == [(1, "x"), (1, "z"), (2, "x"), (2, "z")]
    assert [vars(s) for s in grid()] == [{}]
    assert [s.a for s in grid(a=range(3))] == [0, 1, 2]


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"a": []}, "no values"),
        ({"a": 5}, r"write a=\[5\]"),
        ({"a": "abc"}, r"a=\['abc'\]"),
        ({"seed": [1]}, "seed=..."),
    ],
)
def test_an_empty_grid_is_refused(params: dict[str, Any], words: str) -> None:
    with pytest.raises(SweepError, match=words):
        grid(**params)


def test_a_file_with_the_former_name_of_a_column_is_continued(tmp_path: Path) -> None:
    store = tmp_path / "sweep.jsonl"
    first = sweep(metrics, grid(x=[1, 2]), store=store, progress=False)
    store.write_text(store.read_text().replace('"real_time_s"', '"wall_s"'))
    again = sweep(metrics, grid(x=[1, 2]), store=store, progress=False)
    assert list(again["real_time_s"]) == list(first["real_time_s"])  # no run was repeated


def test_rows_are_in_the_order_of_the_scenarios_with_these_columns() -> None:
    df = sweep(metrics, grid(x=[3, 1, 2]), replications=2, progress=False)
    assert list(df.columns) == [*OWN[:4], "x", "double", "random", "again", *OWN[4:]]
    assert list(df["scenario"]) == [0, 0, 1, 1, 2, 2]
    assert list(df["replication"]) == [0, 1, 0, 1, 0, 1]
    assert list(df["double"]) == [6, 6, 2, 2, 4, 4]
    assert set(df["status"]) == {"ok"}
    assert df["error"].isna().all()
    assert set(df["version"]) == {""}
    assert set(df["leyden_version"]) == {VERSION}
    assert df["run_id"].is_unique
    assert (df["real_time_s"] >= 0).all()


def test_a_replication_has_the_same_random_numbers_in_every_scenario() -> None:
    df = sweep(metrics, grid(x=[1, 2]), replications=3, progress=False)
    by_replication = df.groupby("replication")["seed"].nunique()
    assert list(by_replication) == [1, 1, 1]
    assert df["seed"].nunique() == 3
    other = sweep(metrics, grid(x=[1, 2]), replications=3, progress=False, seed=1)
    assert not set(df["seed"]) & set(other["seed"])


def test_common_random_numbers_show_a_small_difference() -> None:
    df = sweep(shop, grid(expiresIn=[5, 600]), replications=5, progress=False)
    by_expiry = df.pivot_table("conversion", "replication", "expiresIn")
    assert (by_expiry[600] >= by_expiry[5]).all()
    assert by_expiry[600].mean() > by_expiry[5].mean()


def test_plain_mappings_are_scenarios_too() -> None:
    df = sweep(lambda s: {"sum": s.x + getattr(s, "y", 0)}, [{"x": 1}, {"x": 2, "y": 3}], progress=False)
    assert list(df["sum"]) == [1, 5]
    assert df["y"].isna().tolist() == [True, False]


def test_a_scenario_given_twice_is_run_twice() -> None:
    df = sweep(metrics, [Scenario(x=1), Scenario(x=1)], progress=False)
    assert list(df["double"]) == [2, 2]
    assert df["run_id"].is_unique


# What goes wrong


def test_a_failed_run_is_a_row_and_the_others_continue() -> None:
    def shaky(s: Any) -> dict[str, Any]:
        return {"share": 1 / s.x}

    df = sweep(shaky, grid(x=[1, 0, 2]), progress=False)
    assert list(df["status"]) == ["ok", "failed", "ok"]
    assert df["error"][1] == "ZeroDivisionError: division by zero"
    assert math.isnan(df["share"][1])
    assert df["share"].dtype == "float64"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "return a dict"),
        ([1], "return a dict"),
        ({"seed": 1}, "has the name of another column"),
        ({"x": 1}, "has the name of another column"),
    ],
)
def test_a_result_that_is_not_a_row_fails_its_run(answer: Any, words: str) -> None:
    df = sweep(lambda s: answer, grid(x=[1]), progress=False)
    assert words in df["error"][0]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: sweep(metrics, []),
        lambda: sweep(metrics, grid(x=[1]), replications=0),
        lambda: sweep("metrics", grid(x=[1])),  # type: ignore[arg-type]
        lambda: sweep(metrics, [{"status": 1}]),
        lambda: sweep(metrics, grid(x=[1]), workers=0),
    ],
)
def test_an_impossible_sweep_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        wrong()


def test_an_interrupt_stops_the_sweep() -> None:
    def interrupted(s: Any) -> dict[str, Any]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(interrupted, grid(x=[1]), progress=False)


# Kinds of columns


def test_columns_keep_their_dtypes_where_values_are_missing() -> None:
    def answer(s: Any) -> dict[str, Any]:
        full = {"whole": 10**15 + s.x, "share": 0.5, "text": "a", "yes": True, "mixed": [1], "none": None}
        return full if s.x else {"share": float("nan")}

    df = sweep(answer, grid(x=[0, 1]), progress=False)
    kinds = {name: str(df[name].dtype) for name in ("whole", "share", "text", "yes", "mixed", "none")}
    assert kinds == {
        "whole": "Int64", "share": "float64", "text": "str", "yes": "boolean", "mixed": "object", "none": "float64",
    }  # fmt: skip
    assert df["whole"][1] == 10**15 + 1


def test_numpy_numbers_are_numbers() -> None:
    numpy = pytest.importorskip("numpy")
    given = [numpy.float64(0.5), numpy.int64(3), numpy.bool_(True), numpy.float64("nan"), float("inf")]
    assert [as_json(one) for one in given] == [0.5, 3, True, None, float("inf")]
    assert [type(as_json(one)) for one in given[:3]] == [float, int, bool]


# The store


def counted(path: Path) -> Any:
    """A function that counts its calls in a file."""

    def run(s: Any) -> dict[str, Any]:
        with path.open("a") as file:
            file.write("x")
        if s.x == 13:
            raise RuntimeError("bad run")
        return {"y": s.x**2, "nothing": float("nan")}

    return run


def test_a_sweep_with_a_store_continues_after_an_interrupt(tmp_path: Path) -> None:
    fn, store = counted(tmp_path / "marks"), tmp_path / "runs.jsonl"
    first = sweep(fn, grid(x=[1, 2]), replications=2, store=store, progress=False)
    more = sweep(fn, grid(x=[3, 1, 2]), replications=2, store=store, progress=False)
    assert (tmp_path / "marks").read_text() == "x" * 6
    assert list(more["y"]) == [9, 9, 1, 1, 4, 4]
    assert list(more["scenario"]) == [0, 0, 1, 1, 2, 2]
    again = sweep(fn, grid(x=[1, 2]), replications=2, store=store, progress=False)
    pd.testing.assert_frame_equal(first, again)


def test_a_failed_run_is_repeated(tmp_path: Path) -> None:
    fn, store = counted(tmp_path / "marks"), tmp_path / "runs.jsonl"
    for _ in range(2):
        assert list(sweep(fn, grid(x=[13, 1]), store=store, progress=False)["status"]) == ["failed", "ok"]
    assert (tmp_path / "marks").read_text() == "xxx"


@pytest.mark.parametrize("cut", [0, 1, 30])
def test_null_bytes_after_the_rows_are_removed_with_a_note(tmp_path: Path, cut: int) -> None:
    """A power failure may leave them: the size of the file was written, and its content was not."""
    store = tmp_path / "runs.jsonl"
    expected = sweep(metrics, grid(x=[1, 2, 3]), store=store, progress=False)
    whole = store.read_bytes()
    first, second, _ = whole.splitlines(keepends=True)
    store.write_bytes(first + second[: len(second) - cut] + b"\0" * 4_096)
    kept = 1 if cut else 2
    with pytest.warns(UserWarning, match=rf"runs\.jsonl: the 4096 null bytes .* {kept} rows? before") as warned:
        again = sweep(metrics, grid(x=[1, 2, 3]), store=store, progress=False)
    assert warned[0].filename == __file__
    assert list(again["run_id"]) == list(expected["run_id"])
    assert b"\0" not in store.read_bytes()
    assert len(store.read_bytes().splitlines()) == 3


@pytest.mark.parametrize("place", ["all", "middle"])
def test_null_bytes_elsewhere_are_refused_and_the_file_stays(tmp_path: Path, place: str) -> None:
    store = tmp_path / "runs.jsonl"
    sweep(metrics, grid(x=[1, 2]), store=store, progress=False)
    first, second = store.read_bytes().splitlines(keepends=True)
    content = b"\0" * 4_096 if place == "all" else first + b"\0" * 4_096 + second
    store.write_bytes(content)
    with pytest.raises(StoreError, match=r"runs\.jsonl, line [12],"):
        sweep(metrics, grid(x=[1, 2]), store=store, progress=False)
    assert store.read_bytes() == content


@pytest.mark.parametrize("kept", range(0, 200, 23))
def test_an_incomplete_last_line_loses_only_its_run(tmp_path: Path, kept: int) -> None:
    fn, store = counted(tmp_path / "marks"), tmp_path / "runs.jsonl"
    whole = sweep(fn, grid(x=[1, 2]), store=store, progress=False)
    data = store.read_bytes()
    first = data.index(b"\n") + 1
    store.write_bytes(data[: first + min(kept, len(data) - first - 1)])
    assert same(whole, sweep(fn, grid(x=[1, 2]), store=store, progress=False))
    assert (tmp_path / "marks").read_text() == "xxx"
    assert len([json.loads(line) for line in store.read_text().splitlines()]) == 2


_NO_ROWS = ("not a row", '{"run_id": "1"}', "[1]", '"text"', "{}", "null", "12", '{"months": ["only copy"]}', "\0" * 9)
_BEGUN = '{"run_id": "0123456789abcdef-2", "scenario": 0, "replication": 1, "seed": 5, "params": {'


@pytest.mark.parametrize("end", ["", "\n"])
@pytest.mark.parametrize(
    "other", [*_NO_ROWS, f"{_BEGUN}}}}} and a note", f"{_BEGUN}}}}}", f"{_BEGUN}\u2028", "\ufeff{"]
)
def test_a_file_that_is_no_store_is_not_changed(tmp_path: Path, other: str, end: str) -> None:
    store = tmp_path / "runs.jsonl"
    store.write_text(other + end, encoding="utf-8")
    with pytest.raises(StoreError, match=r"line 1.* give store= a file of its own"):
        sweep(metrics, grid(x=[1]), store=store, progress=False)
    assert store.read_text(encoding="utf-8") == other + end


def test_a_note_behind_the_rows_is_not_dropped(tmp_path: Path) -> None:
    store = tmp_path / "runs.jsonl"
    sweep(metrics, grid(x=[1]), store=store, progress=False)
    noted = store.read_bytes() + b"a note"
    store.write_bytes(noted)
    with pytest.raises(StoreError, match="line 2, is no row of a sweep"):
        sweep(metrics, grid(x=[1]), store=store, progress=False)
    assert store.read_bytes() == noted


@pytest.mark.parametrize("has_checksum", [True, False])
@pytest.mark.parametrize(
    ("changed", "value"),
    [
        ("params", {"x": 7, "y": [1, {"z": "a"}]}),
        ("params", {"x": 2, "y": [1, {"z": "b"}]}),
        ("params", {"x": 2, "y": [1]}),
        ("params", {"x": 2, "y": [True, {"z": "a"}]}),
        ("params", {"x": 2}),
        ("params", {}),
        ("seed", 5),
        ("seed", 1e308),
        ("seed", 2**48),
        ("metrics", {"double": 4}),
        ("metrics", {"double": 5, "random": 1, "again": 0}),
        ("scenario", 9),
        ("real_time_s", 9.5),
    ],
)
def test_a_row_that_was_changed_is_refused_with_its_line(
    tmp_path: Path, changed: str, value: Any, has_checksum: bool
) -> None:
    store, scenarios = tmp_path / "runs.jsonl", [{"x": x, "y": (1, {"z": "a"})} for x in (1, 2, 3)]
    fresh = sweep(metrics, scenarios, store=store, progress=False)
    rows = [json.loads(line) for line in store.read_text().splitlines()]
    if not has_checksum:  # as former versions wrote it
        for row in rows:
            del row["checksum"]
    store.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert same(fresh, sweep(metrics, scenarios, store=store, progress=False))
    rows[1][changed] = value
    text = "".join(json.dumps(row) + "\n" for row in rows)
    store.write_text(text)
    if has_checksum or changed in ("params", "seed"):
        with pytest.raises(
            StoreError, match=r"runs\.jsonl, line 2, is no row of a sweep: .*; (restore it|give store=)"
        ):
            sweep(metrics, scenarios, store=store, progress=False)
    else:  # nothing else tells what the function returned
        sweep(metrics, scenarios, store=store, progress=False)
    assert store.read_text() == text


def test_parameters_that_have_another_text_in_each_process_are_read(tmp_path: Path) -> None:
    def given() -> list[dict[str, Any]]:
        return [{"x": 1, "lock": threading.Lock(), "by": {1: 2}, "nan": math.nan, "a": "\ud800", "n": np.int64(3)}]

    for _ in range(2):
        df = sweep(metrics, given(), store=tmp_path / "runs.jsonl", progress=False, version="1")
        assert list(df["status"]) == ["ok"]
    assert len((tmp_path / "runs.jsonl").read_text().splitlines()) == 1


def test_every_beginning_of_a_row_is_dropped(tmp_path: Path) -> None:
    store = tmp_path / "runs.jsonl"
    sweep(metrics, [{"x": 1}, {"x": 1}], store=store, progress=False)
    rows = store.read_bytes().splitlines(keepends=True)
    assert len(rows) == 2
    for row in rows:
        for size in range(len(row)):
            store.write_bytes(row[:size])
            with SweepStore(store) as opened:
                assert not opened.rows
            assert store.read_bytes() == b""


def test_a_lone_surrogate_is_escaped_in_a_result_an_error_and_a_stored_row(tmp_path: Path) -> None:
    def halves(scenario: Scenario) -> dict[str, Any]:
        if scenario.x == "fail":
            raise ValueError("\udcff")
        return {"note": ["\ud800"], "\ud800": scenario.x}

    store = tmp_path / "runs.jsonl"
    fresh = sweep(halves, grid(x=["fail", "\udfff"]), store=store, progress=False)
    assert fresh["error"][0] == "ValueError: \\udcff"
    assert (fresh["note"][1], fresh["\\ud800"][1], fresh["x"][1]) == (["\\ud800"], "\\udfff", "\\udfff")
    lines = [json.loads(line) for line in store.read_text().splitlines()]
    lines[1]["metrics"]["note"] = ["\ud800"]  # as another program may write it
    del lines[1]["checksum"]
    store.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert same(fresh, sweep(halves, grid(x=["fail", "\udfff"]), store=store, progress=False))


def test_stored_rows_equal_the_results(tmp_path: Path) -> None:
    store = tmp_path / "runs.jsonl"
    fresh = sweep(shop, grid(expiresIn=[30]), store=store, progress=False)
    assert [json.loads(line)["metrics"]["hash"] for line in store.read_text().splitlines()] == list(fresh["hash"])


def test_a_run_is_identified_by_its_source_parameters_and_seed(tmp_path: Path) -> None:
    def closing_over(number: int) -> Any:
        return lambda s: {"y": s.x + number}

    def defaulting(s: Any, number: int = 1) -> dict[str, Any]:
        return {"y": s.x + number}

    assert function_key(metrics) == function_key(metrics) != function_key(shop)
    assert function_key(closing_over(1)) != function_key(closing_over(2))
    before = function_key(defaulting)
    defaulting.__defaults__ = (2,)
    assert function_key(defaulting) != before
    store = tmp_path / "runs.jsonl"
    ids = [
        sweep(metrics, grid(x=[x]), store=store, progress=False, seed=seed)["run_id"][0]
        for x, seed in ((1, 0), (2, 0), (1, 1), (1, 0), (1.0, 0))
    ]
    assert ids[0] == ids[3]
    assert len(set(ids)) == 4


CELLS = """
import threading
from dataclasses import dataclass
from functools import cache, partial
price = 2
table = {"a": [1]}
names = {"x", "y"}
def helper(x): return deeper(x) * price
def deeper(x): return x + 1
@cache
def cached(x): return x * 3
@dataclass
class Shop:
    rate: int = 1
    def income(self, x): return self.rate * x
class Chain(Shop): pass
chain = Chain(2)
def run(s):
    def inner(): return helper(s.x) + len(names)
    from own_module_of_a_user import factor
    return {"y": inner() + sum(table["a"]) + chain.income(1) + cached(1) + own.nested.other(1) * factor}
"""
OWN_MODULE = "import own_nested_module as nested\nfactor = 1\nunused = 1\n"
NESTED = "def other(x): return x\n"


@pytest.fixture
def reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Defines the function of `CELLS`, with texts replaced, and returns its key."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def key(*replaced: tuple[str, str], modules: tuple[str, str] = (OWN_MODULE, NESTED)) -> str:
        for name, text in zip(("own_module_of_a_user", "own_nested_module"), modules, strict=True):
            (tmp_path / f"{name}.py").write_text(text)
            sys.modules.pop(name, None)
        text = CELLS
        for old, new in replaced:
            assert old in text
            text = text.replace(old, new)
        cell = ModuleType("cell_of_a_notebook")
        monkeypatch.setitem(sys.modules, cell.__name__, cell)
        exec("import own_module_of_a_user as own\n" + text, vars(cell))
        return function_key(cell.run)

    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield key
    for name in ("own_module_of_a_user", "own_nested_module"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("price = 2", "price = 3"),
        ("x + 1", "x + 2"),
        ("* price", "+ price"),
        ("x * 3", "x * 4"),
        ('{"a": [1]}', '{"a": [2]}'),
        ('{"x", "y"}', '{"x", "z"}'),
        ("rate: int = 1", "rate: int = 5"),
        ("self.rate * x", "self.rate + x"),
        ("Chain(2)", "Chain(3)"),
        ("helper(s.x) +", "helper(s.x) -"),
    ],
)
def test_whatever_a_function_reaches_is_part_of_its_key(reached: Any, old: str, new: str) -> None:
    assert reached() == reached() != reached((old, new))


def test_the_users_own_modules_are_part_of_a_functions_key(reached: Any) -> None:
    key = reached()
    assert reached(modules=(OWN_MODULE.replace("factor = 1", "factor = 2"), NESTED)) != key
    assert reached(modules=(OWN_MODULE, NESTED.replace("return x", "return 2 * x"))) != key
    assert reached(modules=(OWN_MODULE.replace("unused = 1", "unused = 2"), NESTED)) == key
    assert reached(("import threading", "import threading\nother = 7")) == key


def test_a_sweep_with_a_store_repeats_runs_whose_helper_changed(tmp_path: Path) -> None:
    store = tmp_path / "runs.jsonl"
    names: dict[str, Any] = {}
    exec("def helper(x): return x\nscale = 1\ndef run(s): return {'y': helper(s.x) * scale}", names)

    def value() -> int:
        return int(sweep(names["run"], grid(x=[3]), store=store, progress=False)["y"][0])

    assert value() == 3
    exec("def helper(x): return 10 * x", names)
    assert value() == 30
    names["scale"] = 2
    assert value() == 60


def test_a_large_parameter_is_identified_by_all_of_it(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    store = tmp_path / "runs.jsonl"
    for position in (0, 5_000):
        weights = numpy.zeros(10_000)
        weights[position] = position + 1
        row = sweep(lambda s: {"y": float(s.weights.sum())}, [{"weights": weights}], store=store, progress=False)
        assert row["y"][0] == position + 1


def test_what_has_no_fixed_form_is_named_and_a_version_stands_for_it(tmp_path: Path) -> None:
    base, store = Sandbox(seed=1), tmp_path / "runs.jsonl"

    def run(s: Any) -> dict[str, Any]:
        return {"y": s.x * len(base.charges)}

    with pytest.raises(SweepError, match=r"base in .*run.*no fixed form.*version="):
        sweep(run, grid(x=[1]), store=store, progress=False)
    assert not store.exists()
    assert list(sweep(run, grid(x=[1]), progress=False, workers=1)["y"]) == [0]
    ids = {
        version: sweep(run, grid(x=[1]), store=store, progress=False, workers=1, version=version)["run_id"][0]
        for version in ("1", "2")
    }
    again = sweep(run, grid(x=[1]), store=store, progress=False, workers=1, version="2")
    assert (list(again["run_id"]), list(again["version"])) == ([ids["2"]], ["2"])
    assert ids["1"] != ids["2"]
    with pytest.raises(SweepError, match="lock"):
        sweep(metrics, [{"x": 1, "lock": threading.Lock()}], store=store, progress=False)


def test_a_function_whose_file_has_changed_is_identified_by_its_code(tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    code = "def f(s):\n    return {'a': s.seed}\n"
    names: dict[str, Any] = {}
    file.write_text("text = (\n\n")  # where the function stood there is half a statement now
    exec(compile(code, str(file), "exec"), names)
    nowhere: dict[str, Any] = {}
    exec(compile(code, "nowhere", "exec"), nowhere)
    assert function_key(names["f"]) == function_key(nowhere["f"])


def test_a_function_without_source_is_identified_by_its_code_in_every_process() -> None:
    text = "f = lambda s: {'y': s.x in {'a', 'b', 'c'}}"
    program = f"from leyden.lab.sweeps.runs import function_key\nexec({text!r})\nprint(function_key(f))"
    command = [sys.executable, "-c", program]
    seeds = ("1", "2")
    keys = {
        subprocess.run(command, capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}).stdout
        for seed in seeds
    }
    assert len(keys) == 1


def test_seeds_differ() -> None:
    assert len({seed_for(seed, replication) for seed in range(20) for replication in range(20)}) == 400


# Where it is run


def test_threads_and_processes_give_the_same_rows() -> None:
    scenarios = grid(expiresIn=[5, 600])
    here = sweep(shop, scenarios, replications=2, progress=False, workers=1)
    with ThreadPoolExecutor(2) as pool:
        assert same(here, sweep(shop, scenarios, replications=2, progress=False, executor=pool))
    assert same(here, sweep(shop, scenarios, replications=2, progress=False))


@pytest.fixture
def processes() -> Iterator[int]:
    """Two worker processes, stopped after the test."""
    from loky import get_reusable_executor

    yield 2
    get_reusable_executor().shutdown(wait=True)


def test_a_function_from_a_notebook_runs_in_processes(processes: int) -> None:
    import os

    # As a cell makes it: in a namespace that no other process can import, with a helper beside it.
    cell: dict[str, Any] = {"__name__": "__main__", "parent": os.getpid()}
    exec(
        "import os\nfrom leyden import Sandbox\n"
        "def helper(s): return os.getpid() != parent\n"
        "def run(s):\n"
        "    if s.a == 2: raise LookupError('in the worker')\n"
        "    return {'elsewhere': helper(s), 'key': Sandbox(seed=s.seed).world.streams.secret('x').hex()}\n",
        cell,
    )
    df = sweep(cell["run"], grid(a=[1, 2, 3]), workers=processes, progress=False)
    assert list(df["status"]) == ["ok", "failed", "ok"]
    assert df["error"][1] == "LookupError: in the worker"
    assert df["elsewhere"].dropna().all()
    here = sweep(cell["run"], grid(a=[1, 2, 3]), workers=1, progress=False)
    assert list(here["key"].dropna()) == list(df["key"].dropna())


def test_a_worker_that_dies_fails_its_runs_and_not_the_sweep(processes: int, tmp_path: Path) -> None:
    def deadly(s: Any) -> dict[str, Any]:
        import os

        if s.x == 2:
            os._exit(3)
        return {"y": s.x}

    store = tmp_path / "runs.jsonl"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # loky warns about it
        df = sweep(deadly, grid(x=[1, 2, 3]), workers=processes, store=store, progress=False)
    assert df["status"][1] == "failed"
    assert len(df) == 3


def test_a_function_that_cannot_be_sent_is_a_failed_row() -> None:
    with ProcessPoolExecutor(1) as pool:
        df = sweep(lambda s: {"y": 1}, grid(x=[1]), executor=pool, progress=False)
    assert df["status"][0] == "failed"
    assert "ickle" in df["error"][0]


def test_little_work_is_done_in_the_process() -> None:
    def where(s: Any) -> dict[str, Any]:
        import os

        return {"pid": os.getpid()}

    assert sweep(where, grid(x=range(20)), progress=False)["pid"].nunique() == 1


@deep("test_a_function_from_a_notebook_runs_in_processes")
@pytest.mark.filterwarnings("ignore")
def test_a_cluster_of_two_workers_gives_the_same_rows() -> None:
    distributed = pytest.importorskip("distributed", reason="pip install 'leyden[cluster]'")

    def run(s: Any) -> dict[str, Any]:
        import os

        with Sandbox(seed=s.seed) as sandbox:
            traffic(sandbox.world, "30/min", expiresIn=s.expiresIn, count=5)
            sandbox.run()
            figures = Kpi(sandbox.world).row()
            return {**figures, "hash": sandbox.world.journal.hash, "pid": os.getpid()}

    scenarios = grid(expiresIn=[5, 600])
    here = sweep(run, scenarios, replications=3, progress=False, workers=1)
    with (
        mock.patch.dict(os.environ),  # dask sets variables
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address="127.0.0.1:0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        there = sweep(run, scenarios, replications=3, progress=False, executor=client.get_executor())
    assert list(there["error"].dropna()) == []
    assert not set(here["pid"]) & set(there["pid"])
    assert same(here.drop(columns="pid"), there.drop(columns="pid"))


# What is shown meanwhile


def test_a_progress_bar_is_shown_only_when_requested(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    sweep(metrics, grid(x=[1, 2]), store=tmp_path / "runs.jsonl")
    sweep(metrics, grid(x=[1, 2]), progress=False)
    assert capfd.readouterr() == ("", "")
    sweep(metrics, grid(x=[1, 2, 3]), store=tmp_path / "runs.jsonl", progress=True)
    assert "3/3" in capfd.readouterr().err


def test_pandas_is_imported_with_the_first_table() -> None:
    program = (
        "import sys, leyden\nfrom leyden import grid, sweep\nimport leyden.lab.traffic, leyden.lab.kpi\n"
        "print([name for name in ('pandas', 'numpy', 'scipy', 'loky', 'tqdm', 'distributed') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"executor": 5}, "executor=5"),
        ({"scenarios": 5}, "scenarios=5"),
        ({"scenarios": "abc"}, "scenarios='abc'"),
        ({"scenarios": [5]}, "5 is no scenario"),
        ({"store": 5}, "store=5"),
        ({"version": 5}, "version=5"),
        ({"workers": 0}, "workers=0"),
    ],
)
def test_a_wrong_argument_of_a_sweep_is_refused_before_a_run(arguments: dict[str, Any], words: str) -> None:
    ran = []
    given = {"scenarios": grid(a=[1]), "progress": False, **arguments}
    with pytest.raises((SweepError, TypeError, ValueError), match=words):
        sweep(lambda _: ran.append(1) or {}, **given)  # type: ignore[func-returns-value]
    assert not ran
