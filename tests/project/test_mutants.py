"""Mutation testing leaves out mutations without an effect, and no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mutmut", reason="mutation testing needs the extra `mutation`")

from tests.mutation import alone
from tests.mutation.engines import in_a_fork
from tests.mutation.equivalent import EQUIVALENT, name_of
from tests.mutation.mutants import mutants_of
from tests.mutation.patterns import changed_patterns

SOURCE = """
from typing import cast

TEA = 5

def brew(given, raw):
    cups = cast("dict[str, int]", given)
    leaves = cast("Leaf", given)
    size = int.from_bytes(raw, "big")
    little = int.from_bytes(raw, "little")
    packed = size.to_bytes(8, "big")
    name = "tea".encode("ascii")
    kind = "ascii"
    if size > 5:
        raise ValueError("the pot is too small")
"""


@pytest.fixture
def changes(tmp_path: Path) -> list[tuple[str, str]]:
    (tmp_path / "tea.py").write_text(SOURCE)
    return [(mutant.was.strip(), mutant.now.strip()) for mutant in mutants_of(tmp_path, "tea.py")]


def test_texts_and_type_names_are_left_out(changes: list[tuple[str, str]]) -> None:
    assert not [now for was, now in changes if "pot" in was and "ValueError" not in was]
    assert not [was for was, _ in changes if was in ('"dict[str, int]"', '"Leaf"', "5 ", "TEA = 5")]
    assert ('cast("Leaf", given)', "cast(None, given)") not in changes
    assert ('cast("Leaf", given)', 'cast("Leaf", None)') in changes
    assert ('cast("Leaf", given)', "cast(given)") in changes
    assert ('raise ValueError("the pot is too small")', "x") not in changes
    assert ('ValueError("the pot is too small")', "ValueError(None)") in changes


def test_a_removed_default_argument_is_left_out(changes: list[tuple[str, str]]) -> None:
    assert ('int.from_bytes(raw, "big")', "int.from_bytes(raw, )") not in changes
    assert ('size.to_bytes(8, "big")', "size.to_bytes(8, )") not in changes
    assert ('int.from_bytes(raw, "little")', "int.from_bytes(raw, )") in changes
    assert ('int.from_bytes(raw, "big")', 'int.from_bytes("big")') in changes
    assert ('int.from_bytes(raw, "big")', "int.from_bytes(raw, None)") in changes
    assert ('"big"', '"BIG"') in changes


def test_a_codec_in_upper_case_is_left_out(changes: list[tuple[str, str]]) -> None:
    assert changes.count(('"ascii"', '"ASCII"')) == 1, "only where it is no name of a codec"
    assert changes.count(('"ascii"', '"XXasciiXX"')) == 2
    assert ('"tea"', '"TEA"') in changes


def test_every_other_mutation_is_there(changes: list[tuple[str, str]]) -> None:
    assert {("> 5", ">= 5"), ("5", "6"), ("8", "9")} <= set(changes)


PLACES = """
import re

LIMIT = 5
NAME = re.compile(r"[a-z]{2}")
Body = dict[str, int]

def brew(size=1):
    if size > LIMIT:
        return 1
    def pour():
        return 2
    return pour()

class Pot:
    lid = True

    @property
    def full(self):
        return (1 +
                2)
"""


@pytest.fixture
def places(tmp_path: Path) -> list[tuple[str, str, str, range | None]]:
    (tmp_path / "pot.py").write_text(PLACES)
    found = mutants_of(tmp_path, "pot.py", constants=True)
    return [(mutant.was.strip(), mutant.now.strip(), mutant.function, mutant.lines) for mutant in found]


def test_constants_patterns_and_properties_are_mutated_and_types_are_not(places: list[tuple[Any, ...]]) -> None:
    assert ("5", "6", "", None) in places
    assert ("True", "False", "", None) in places
    assert ('re.compile(r"[a-z]{2}")', 're.compile(r"[a-z]{3}")', "", None) in places
    assert not [was for was, *_ in places if "dict[" in was]


def test_a_mutant_has_the_lines_that_are_executed_for_it(places: list[tuple[Any, ...]]) -> None:
    assert [lines for was, now, _, lines in places if (was, now) == ("1", "2")] == [
        None,  # a default is evaluated with the definition
        range(10, 11),
        range(20, 22),  # the whole statement
    ]
    assert ("> LIMIT", ">= LIMIT", "brew", range(9, 10)) in places  # the condition, without what depends on it
    assert ("2", "3", "brew.pour", range(12, 13)) in places
    assert ("2", "3", "Pot.full", range(20, 22)) in places


@pytest.mark.parametrize(
    ("pattern", "changed"),
    [
        ("a?", ["a"]),
        ("a*b+", ["a+b+", "a*b*"]),
        ("a{3}", ["a{2}", "a{4}"]),
        ("a{1,2}", ["a{0,2}", "a{2,2}", "a{1,1}", "a{1,3}"]),
        ("a{1,}", ["a{0,}", "a{2,}"]),
        ("[a-c_]", ["[_]", "[a-c]"]),
        ("[^ab]", ["[^b]", "[^a]"]),
        (r"\d\.", [r".\."]),
        ("x(?:a|b)", ["x(?:b)", "x(?:a)"]),
        ("abc", []),
    ],
)
def test_a_pattern_is_changed_in_each_part(pattern: str, changed: list[str]) -> None:
    assert changed_patterns(pattern) == changed


CLOCK, RULES = "sim/harness/model/timeline.py", "sim/harness/model/rules.py"


@pytest.mark.parametrize(
    ("module", "was", "now", "noticed_by"),
    [
        (CLOCK, "<= when_ms", "< when_ms", "conformance"),
        (CLOCK, "range(3)", "range(None)", "import"),
        (RULES, "1_000", "1001", "conformance"),  # a constant is imported anew
        (RULES, "2_147_483_647", "2147483648", "survived"),
        (RULES, "_ADDRESS.fullmatch(value)", "_ADDRESS.fullmatch(None)", "never executed"),
    ],
)
def test_the_harness_alone_tests_a_mutant_by_the_cases_that_execute_it(
    monkeypatch: pytest.MonkeyPatch, module: str, was: str, now: str, noticed_by: str
) -> None:
    every = alone._cases
    monkeypatch.setattr(
        alone, "_cases", lambda: {key: case for key, case in every().items() if "after the expiry" in key}
    )
    monkeypatch.setattr(alone, "_wanted", set)
    changes = [(one.was.strip(), one.now.strip()) for one in mutants_of(alone.ROOT, module, constants=True)]
    mutant = mutants_of(alone.ROOT, module, constants=True)[changes.index((was, now))]
    result = in_a_fork(lambda report: alone.noticed_by(alone.trace((module,)), mutant, report))
    assert result() == noticed_by


def test_a_limit_of_time_does_not_hide_lost_coverage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three cases of which two reach an item, one is within the limit. The mutant loses the item in both; another
    one only in that one."""
    module, lines = CLOCK, alone.Lines([CLOCK])
    mutant = next(one for one in mutants_of(alone.ROOT, module) if one.was.strip() == "<= when_ms")
    executed = lines.set_of(module, mutant.lines or ())
    item = frozenset({"an item"})
    keys = [f"obligations: {number}" for number in range(3)]
    traced = {
        key: alone.Traced(executed, reached, cost)
        for key, reached, cost in zip(keys, (item, frozenset[str](), item), (1.0, 2.0, 3.0), strict=True)
    }
    played: list[str] = []

    class Result:
        violation = None

        def __init__(self, reached: frozenset[str]) -> None:
            self.reached = reached

    def noticed(loses: list[str]) -> str:
        played.clear()

        def play(case: str, target: object) -> Result:
            played.append(case)
            return Result(frozenset() if case in loses else traced[case].reached)

        monkeypatch.setattr("leyden.harness.runs.cases.play", play)
        baseline = alone.Baseline(lines, 0, 0, {key: key for key in keys}, traced, [], {"an item"})
        monkeypatch.setattr(alone, "_replace_code", lambda _: True)
        return alone.noticed_by(baseline, mutant, lambda _: None, seconds=1e-9)

    assert noticed([keys[0], keys[2]]) == "coverage"
    assert played == [keys[0], keys[2]]
    assert noticed([keys[0]]) == "survived 2 of 3 cases"
    assert noticed([]) == "survived 1 of 3 cases"


def test_a_mutant_outside_functions_has_the_names_that_depend_on_it(tmp_path: Path) -> None:
    source = "LOW, HIGH = 1, 5\nSPAN = HIGH + 7\nOTHER = 9\n\n\ndef brew(size=3):\n    return size + SPAN\n"
    (tmp_path / "teas.py").write_text(source)
    found = {mutant.was: mutant.names for mutant in mutants_of(tmp_path, "teas.py", constants=True)}
    assert found["5"] == {"LOW", "HIGH", "SPAN"}
    assert found["7"] == {"SPAN"}
    assert found["9"] == {"OTHER"}
    assert found["3"] == {"brew"}
    assert found["size + SPAN"] == set()


def test_the_cases_that_use_a_mutated_constant_come_first() -> None:
    lines = alone.Lines(["sim/harness/model/timeline.py"])
    uses = lines.with_words(["SETTLEMENT"])
    assert uses
    assert not lines.with_words([])
    traced = {
        "obligations: cheap": alone.Traced(0, frozenset(), 0.1),
        "obligations: user": alone.Traced(uses, frozenset(), 0.5),
        "conformance: slow": alone.Traced(0, frozenset(), 0.9),
    }
    baseline = alone.Baseline(lines, 0, 0, {}, traced, [], set())
    ordered = alone._in_order(baseline, uses, traced)
    assert ordered == ["conformance: slow", "obligations: user", "obligations: cheap"]


def test_the_first_case_of_each_field_comes_before_the_second_of_another() -> None:
    costs = {"createCharge body.amount a": 1, "createCharge body.amount b: c": 2, "fault drop x": 4, "fault drop y": 3}
    traced = {
        f"obligations: () obligations: {name}": alone.Traced(0, frozenset(), cost) for name, cost in costs.items()
    }
    baseline = alone.Baseline(alone.Lines([]), 0, 0, {}, traced, [], set())
    ordered = [key.rpartition("obligations: ")[2] for key in alone._in_order(baseline, 0, traced)]
    assert ordered == [
        "createCharge body.amount a", "fault drop y", "createCharge body.amount b: c", "fault drop x"
    ]  # fmt: skip


def test_each_equivalent_mutant_exists() -> None:
    for module in {one[0] for one in EQUIVALENT}:
        model = module.startswith("sim/harness/model/")
        found = {name_of(mutant) for mutant in mutants_of(alone.ROOT, module, constants=model)}
        assert {one for one in EQUIVALENT if one[0] == module} <= found
