"""Instants in files of every kind: without an offset, with an odd one, at the ends of the calendar. A file with one is
read, or refused in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from itertools import product
from pathlib import Path

import pytest

from leyden import Sandbox
from leyden.__main__ import main
from leyden.harness.model.rules import instant
from leyden.harness.runs.cases import Case, play, read_case
from leyden.server.timestamps import parse_iso
from leyden.world.time.clock import LAST_MS
from leyden.world.time.process_clock import FIRST_MS
from tests.support.mutations import refusal

DATES = ("2030-01-01", "20300101", "2030-W01-2", "2030-001", "1970-01-01", "2999-12-31", "3000-01-01", "9999-12-31",
         "0001-01-01", "0000-01-01", "2030-02-30", "10000-01-01", "")  # fmt: skip
TIMES = ("", "T00", "T00:00:00", " 00:00:00", "t23:59:59.999", "T000000", "T23:59:60", "T24:00:00", "T00:00:00.0000001",
         "T00:00:00,5")  # fmt: skip
OFFSETS = ("", "Z", "z", "+00:00", "-00:00", "+23:59", "-23:59", "+24:00", "+0530", "+05", "+00:00:30", " Z", "UTC",
           "[Europe/Berlin]")  # fmt: skip
TEXTS = [*map("".join, product(DATES, TIMES, OFFSETS)), "now", "\ud800", "\x00", "2030-01-01T00:00:00Z\n", "9" * 400]


def test_a_case_is_read_when_its_start_is_one_of_a_clock() -> None:
    document = Case(({"do": "advance", "by": 1000},)).document()
    read = 0
    for text in TEXTS:
        why = refusal(lambda: read_case({**document, "start": text}))  # noqa: B023
        assert (why is None) == is_within(text, FIRST_MS, LAST_MS), (text, why)
        if why is None:
            read += 1
        else:
            assert "/start: " in why
            assert "2030-01-01T00:00:00Z" in why
    assert 50 < read < len(TEXTS) / 2


@pytest.mark.parametrize(
    "text", ["2030-01-01T00:00:00.000", "2030-01-01", "20300101T000000", "9999-12-31T00:00:00-23:59"]
)
@pytest.mark.parametrize("export", [[], ["--export", "pytest"], ["--export", "curl"], ["--export", "notebook"]])
def test_a_replay_refuses_a_start_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, export: list[str]
) -> None:
    path = tmp_path / "case.json"
    path.write_text(json.dumps({**Case(({"do": "advance", "by": 1000},)).document(), "start": text}))
    assert main(["replay", str(path), *export]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert f'{path} is no case: /start: "{text}" is not a "date-time with an offset' in line


@pytest.mark.parametrize("start", ["1971-01-01T00:00:00Z", "2999-12-31T23:59:58Z", "2030-06-01T23:59:60+05:30"])
def test_a_case_that_was_read_is_played(tmp_path: Path, start: str) -> None:
    path = tmp_path / "case.json"
    step = {"do": "create_charge", "as": "c1", "body": {"amount": "1000", "description": "tea", "expiresIn": 60}}
    path.write_text(json.dumps({**Case((step,)).document(), "start": start}))
    assert play(read_case(path)).violation is None


@pytest.mark.parametrize("name", ["createdAfter", "createdBefore"])
def test_a_step_of_a_case_with_any_instant_is_played_or_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "case.json"
    for text in (*TEXTS[:: len(TEXTS) // 40], "2030-01-01T00:00:00"):
        step = {"do": "list", "of": "charges", "query": {name: text}}
        path.write_text(json.dumps(Case((step,)).document()))
        refusal(lambda: play(read_case(path)))


def test_a_saved_sandbox_with_any_instant_is_opened_or_refused() -> None:
    sandbox = Sandbox(seed=3)
    sandbox.service_faults.add("error", until="2030-01-02T00:00:00Z")
    saved = json.dumps(sandbox.snapshot())
    assert '"start": "2030-01-01T00:00:00.000Z"' in saved
    assert '"until": "2030-01-02T00:00:00.000Z"' in saved
    for old, least_ms, most_ms in (
        ("2030-01-01T00:00:00.000Z", FIRST_MS, LAST_MS),
        ("2030-01-02T00:00:00.000Z", 0, parse_iso("9999-12-31T23:59:59.999Z")),
    ):
        for text in TEXTS[:: len(TEXTS) // 200]:
            document = json.loads(saved.replace(f'"{old}"', json.dumps(text)))
            why = refusal(lambda: Sandbox.from_snapshot(document))  # noqa: B023
            assert (why is None) == is_within(text, least_ms, most_ms), (text, why)


def is_within(text: str, least_ms: int, most_ms: int) -> bool:
    try:
        return least_ms <= parse_iso(text) <= most_ms
    except ValueError:
        return False


@pytest.mark.parametrize("read", [instant, parse_iso])
def test_a_text_is_an_instant_or_a_value_error(read: Callable[[str], int]) -> None:
    for text in TEXTS:
        with suppress(ValueError):
            assert type(read(text)) is int
