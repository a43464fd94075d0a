"""The contract as tables, the same in a terminal, in the README and in the documentation."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leyden.server.contract.load import default_spec, load_contract
from leyden.server.contract.types import Contract, LifecycleRow, LifecycleTable
from leyden.server.docs.tables import (
    REFUSAL_COLUMNS,
    TRANSITION_COLUMNS,
    MarkerError,
    all_tables,
    callbacks_table,
    lifecycle_sentence,
    lifecycle_tables,
    refusal_lines,
    replace_between_markers,
    routes_table,
    schedule_in_words,
    transition_lines,
)
from leyden.server.errors import LeydenError
from leyden.server.timestamps import span_in_words
from tests.support.small_spec import small

PROSE = st.text(max_size=40)


@pytest.fixture(scope="module")
def charges() -> Contract:
    return load_contract(default_spec("charges"))


def shop() -> Contract:
    return load_contract(small())


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def one_row(because: str, source: str = "open") -> LifecycleTable:
    created = LifecycleRow("(creation)", "created", None, "open", (), None, None, "specification", None)
    refused = LifecycleRow(source, "shut", None, None, (), "no", because, "decision", "why")
    return LifecycleTable("Gate", ("open",), ("created", "shut"), (created, refused))


def with_lifecycle(contract: Contract, table: LifecycleTable) -> Contract:
    return contract._replace(lifecycles={table.resource: table})


def test_every_operation_has_a_line_in_the_order_of_the_document(charges: Contract) -> None:
    lines = routes_table(charges).splitlines()
    assert cells(lines[0]) == ["Method", "Path", "Operation", "Key", "Basis"]
    assert [cells(line)[2] for line in lines[2:]] == list(charges.operations)
    assert ["POST", "/v0/charges", "createCharge", "yes", "specification"] in [cells(line) for line in lines]


def test_a_route_without_a_key_is_marked() -> None:
    key = {cells(line)[2]: cells(line)[3] for line in routes_table(shop()).splitlines()[2:]}
    assert key == {"createOrder": "yes", "getOrder": "yes", "payOrder": "no"}


@pytest.mark.parametrize("name", ["charges", "sandbox"])
def test_every_table_is_aligned_for_a_terminal(name: str) -> None:
    block: list[str] = []
    for line in [*all_tables([load_contract(default_spec(name))]).splitlines(), ""]:
        if line.startswith("|"):
            block.append(line)
        else:
            assert len({len(row) for row in block}) <= 1
            block = []


def test_the_lifecycle_of_a_charge_is_that_of_the_specification(charges: Contract) -> None:
    assert TRANSITION_COLUMNS == ("State", "Trigger", "Condition", "Next state", "Also happens", "Basis")
    shown = [line.cells[:4] for line in transition_lines(charges.lifecycles["Charge"])]
    assert shown[:3] == [
        ("(creation)", "created", "", "pending"),
        ("pending", "payment_settled", "before_expiry", "completed"),
        ("pending", "expiry_reached", "", "expired"),
    ]
    assert lifecycle_sentence(charges.lifecycles["Charge"]) == (
        "starts pending; completed, expired and error are final"
    )


def test_no_row_of_a_lifecycle_is_lost(charges: Contract) -> None:
    for table in charges.lifecycles.values():
        moves = {(line.cells[0], line.cells[1]) for line in transition_lines(table)}
        refusals = {(line.cells[0], name) for line in refusal_lines(table) for name in line.cells[1].split(", ")}
        assert moves | refusals == {(row.source, row.trigger) for row in table.rows}
        assert len(transition_lines(table)) == sum(row.to is not None for row in table.rows)


def test_a_refusal_after_a_guard_is_labelled_otherwise_and_one_without_always() -> None:
    conditions = {line.cells[:2]: line.cells[2] for line in refusal_lines(shop().lifecycles["Order"])}
    assert conditions["new", "paid"] == "otherwise"
    assert conditions["paid", "paid, time_up"] == ""


def test_equal_refusals_of_a_state_share_a_line() -> None:
    lines = [line.cells for line in refusal_lines(shop().lifecycles["Order"])]
    assert ("paid", "paid, time_up", "", "already_paid", "It is paid.", "specification") in lines
    assert len(lines) == 3


def test_a_callback_shows_its_schedule_and_what_counts_as_delivered() -> None:
    (line,) = callbacks_table(shop()).splitlines()[2:]
    attempts = "3 attempts: at once, then after 5 s, 5 min (each wait varies by 20 %)"
    assert cells(line) == ["orderUpdated", "createOrder", "order.paid", attempts, "200", "15 s (3 s to connect)"]


def test_a_range_of_statuses_is_described_in_words(charges: Contract) -> None:
    assert cells(callbacks_table(charges).splitlines()[2])[4] == "any 2xx"


def test_a_document_without_callbacks_or_lifecycles_has_no_such_tables() -> None:
    control = load_contract(default_spec("sandbox"))
    assert callbacks_table(control) == lifecycle_tables(control) == ""
    assert "Callbacks" not in all_tables([control])


@pytest.mark.parametrize(
    ("span", "words"),
    [(0, "0 s"), (1, "1 ms"), (999, "999 ms"), (1_000, "1 s"), (1_001, "1 s 1 ms"), (59_000, "59 s"), (60_000, "1 min"),
     (5_400_000, "1 h 30 min"), (86_400_000, "24 h"), (3_661_001, "1 h 1 min")],
)  # fmt: skip
def test_a_duration_is_shown_in_its_two_largest_units(span: int, words: str) -> None:
    assert span_in_words(span) == words


@pytest.mark.parametrize(
    ("pauses", "words"),
    [((), "never"), ((0,), "1 attempt: at once"), ((5_000,), "1 attempt: after 5 s"),
     ((0, 5_000), "2 attempts: at once, then after 5 s")],
)  # fmt: skip
def test_a_schedule_is_described_in_words(pauses: Sequence[int], words: str) -> None:
    assert schedule_in_words(pauses, 0) == words


@given(PROSE)
def test_no_text_adds_a_cell_or_a_line(because: str) -> None:
    table = lifecycle_tables(with_lifecycle(shop(), one_row(because)))
    refusals = table.split("Gate refuses:\n\n")[1].split("\n")
    assert len(refusals) == 3
    assert all(len(cells(line)) == len(REFUSAL_COLUMNS) for line in refusals)
    assert "<" not in table


def test_no_text_closes_the_markers_around_its_table() -> None:
    hostile = one_row("done <!-- leyden:end --> and more")
    table = lifecycle_tables(with_lifecycle(shop(), hostile))
    page = replace_between_markers("<!-- leyden:table t -->\n<!-- leyden:end -->", "t", table)
    assert replace_between_markers(page, "t", table) == page


def test_only_the_text_between_the_markers_is_replaced() -> None:
    page = "# Read me\n<!-- leyden:table routes -->\nold\n<!-- leyden:end -->\nrest\n"
    done = replace_between_markers(page, "routes", "| new |")
    assert done == "# Read me\n<!-- leyden:table routes -->\n| new |\n<!-- leyden:end -->\nrest\n"


@given(PROSE, PROSE, PROSE)
def test_replacing_is_idempotent(before: str, old: str, after: str) -> None:
    page = f"{before}<!-- leyden:table x -->{old}<!-- leyden:end -->{after}"
    done = replace_between_markers(page, "x", "| t |")
    assert replace_between_markers(done, "x", "| t |") == done
    assert done.startswith(before)
    assert done.endswith(after)


def test_two_tables_on_a_page_are_independent() -> None:
    page = "".join(f"<!-- leyden:table {name} -->\n<!-- leyden:end -->\n" for name in ("a", "ab"))
    done = replace_between_markers(replace_between_markers(page, "a", "first"), "ab", "second")
    assert done.count("first") == done.count("second") == 1
    assert done.index("first") < done.index("second")


@pytest.mark.parametrize(
    ("page", "complaint"),
    [
        ("nothing", "stands 0 times"),
        ("<!-- leyden:table x --><!-- leyden:end -->" * 2, "stands 2 times"),
        ("<!-- leyden:table x -->\nno end", "never closed"),
        ("<!-- leyden:table x --> <!-- leyden:table y --> <!-- leyden:end -->", "never closed"),
    ],
)
def test_a_page_with_wrong_markers_is_refused_and_the_marker_is_named(page: str, complaint: str) -> None:
    with pytest.raises(MarkerError, match=complaint) as refused:
        replace_between_markers(page, "x", "| t |")
    assert "leyden:table x" in str(refused.value)
    assert isinstance(refused.value, LeydenError)
