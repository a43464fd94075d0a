"""Receivers that fail, are slow and are down by chance and by the clock: the laws, the order, and what is saved."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from leyden import Sandbox
from leyden.callbacks.replies import Reply
from leyden.distributions import span_value, value_distribution
from leyden.errors import DistributionError
from tests.support.deep import deep

HOOK = "http://shop.localhost/paid"


def paid(sandbox: Sandbox, count: int = 1) -> None:
    for _ in range(count):
        sandbox.wallet("ana").pay(sandbox.charges.create(amount="1000", description="tea", callbackUrl=HOOK))
    sandbox.run("1ms")


def answers(sandbox: Sandbox) -> list[Any]:
    return [got.answer for got in sandbox.receiver("shop").inbox]


def attempts(sandbox: Sandbox) -> list[Any]:
    """Each attempt that has ended: its status or error, and its latency in ms."""
    rows = sandbox.callbacks.to_dict("records")
    return [(row["error"] if isinstance(row["error"], str) else row["http_status"], row["latency_ms"]) for row in rows]


@deep("test_another_share_of_failures_leaves_the_latencies_as_they_are")
def test_the_share_of_failures_is_that_of_a_binomial_law(sandbox: Sandbox) -> None:
    sandbox.receiver("shop").behaves(failure=0.2, fails_with=503)
    count = 2_000
    paid(sandbox, count)
    failed = answers(sandbox)[:count].count(503)
    assert abs(failed - 0.2 * count) / math.sqrt(count * 0.2 * 0.8) < 4
    assert set(answers(sandbox)) == {200, 503}
    assert repr(sandbox.receiver("shop")).endswith("answers 200, 503 for 0.2 of the callbacks>")


def test_latencies_follow_the_distribution_and_a_long_one_is_a_timeout(sandbox: Sandbox) -> None:
    sandbox.receiver("shop").behaves(latency="lognorm(2s, 1.5)")
    paid(sandbox, 400)
    sandbox.run("3h")  # few attempts are in flight at a time
    found = sandbox.callbacks.query("attempt == 1")
    ended = found[found["http_status"] == 200]["latency_ms"].tolist()
    late = found["error"].tolist().count("timeout")
    assert len(ended) + late == 400
    # A log-normal with a median of 2 s and a sigma of 1.5 is above 15 s with probability 0.0896.
    assert 15 < late < 60
    assert 1_500 < median([*ended, *[15_000] * late]) < 2_600
    assert max(ended) < 15_000


def test_another_share_of_failures_leaves_the_latencies_as_they_are() -> None:
    def latencies(failure: float) -> list[float]:
        with Sandbox(seed=3) as sandbox:
            sandbox.receiver("shop").behaves(failure=failure, latency="exp(500ms)")
            paid(sandbox, 30)
            sandbox.run("14s")
            firsts = sandbox.callbacks.query("attempt == 1")
            return firsts["latency_ms"].tolist()

    assert latencies(0.0) == latencies(0.9)


@pytest.mark.parametrize(
    ("down", "refused"),
    [
        (("10:00", "12:00"), {10, 11, 34, 35}),
        (("22:30", "01:00"), {23, 24, 47}),
        ([("09:00", "10:00"), ("24:00", "01:00")], {9, 24, 33}),
        (("2030-01-01T10:00:00Z", "2030-01-02T09:00:00+01:00"), set(range(10, 32))),
        ([["2030-01-02T10:00:00Z", "2030-01-02T11:00:00Z"]], {34}),
    ],
)
def test_nobody_listens_in_the_windows(down: Any, refused: set[int]) -> None:
    """A callback at each full hour of nearly two days, from 9:00; the end of a window does not belong to it."""
    with Sandbox(seed=1, start="2030-01-01T09:00:00Z") as sandbox:
        shop = sandbox.receiver("shop").behaves(down=down)
        heard = set()
        for hour in range(9, 48):
            before = {got.webhook_id for got in shop.inbox}
            charge = sandbox.charges.create(amount="1000", description="tea", callbackUrl=HOOK)
            sandbox.wallet("ana").pay(charge)
            sandbox.run("1ms")
            if any(got.json["id"] == charge.id for got in shop.inbox if got.webhook_id not in before):
                heard.add(hour)
            sandbox.advance_to(f"2030-01-0{1 + (hour + 1) // 24}T{(hour + 1) % 24:02}:00:00Z")
        assert set(range(9, 48)) - heard == refused


def test_an_outage_of_two_hours_delays_the_callbacks_and_loses_none(sandbox: Sandbox) -> None:
    sandbox.receiver("shop").behaves(down=("10:00", "12:00"))
    sandbox.advance_to("2030-01-01T11:00:00Z")
    paid(sandbox, 5)
    assert answers(sandbox) == []
    assert {answer for answer, _ in attempts(sandbox)} == {"refused"}
    sandbox.run("1d")
    assert answers(sandbox) == [200] * 5
    assert set(sandbox.deliveries["status"]) == {"delivered"}


def test_scripts_and_rules_come_first_but_not_while_it_is_down(sandbox: Sandbox) -> None:
    shop = sandbox.receiver("shop").behaves(failure=1.0, latency="1s", down=("10:00", "11:00"))
    shop.when(410, attempt=7)
    shop.answers([202])
    paid(sandbox)
    assert answers(sandbox) == [202]
    assert attempts(sandbox) == [(202, 0)]
    sandbox.advance_to("2030-01-01T10:00:00Z")
    shop.answers([202])
    paid(sandbox)
    assert len(shop.script) == 1
    shop.reset_script()
    sandbox.advance_to("2030-01-01T11:00:00Z")
    paid(sandbox)
    assert answers(sandbox)[1] == 500
    shop.behaves()
    before = len(answers(sandbox))
    paid(sandbox)
    assert answers(sandbox)[before:] == [200]


def test_forks_saved_sandboxes_directories_and_scripts_draw_the_same(tmp_path: Path) -> None:
    def hash_of(sandbox: Sandbox) -> str:
        paid(sandbox, 20)
        sandbox.run("3h")
        return sandbox.world.journal.hash

    with Sandbox(seed=3, start="2030-01-01T09:00:00Z") as sandbox:
        behaviour = {"failure": 0.4, "fails_with": Reply(503, headers={"retry-after": "60"}), "latency": "exp(2s)"}
        sandbox.receiver("shop").behaves(**behaviour, down=[("09:30", "10:00")])
        hash_of(sandbox)
        sandbox.save(tmp_path / "saved.json")
        script = sandbox.script()
        before = sandbox.world.journal.hash
        with sandbox.fork() as fork, Sandbox.load(tmp_path / "saved.json") as loaded, sandbox.fork(reseed=9) as other:
            assert hash_of(fork) == hash_of(loaded) == hash_of(sandbox) != hash_of(other)
    names: dict[str, Any] = {}
    exec(script, names)
    assert names["sb"].world.journal.hash == before
    with Sandbox(seed=3, data=tmp_path / "data") as sandbox:
        sandbox.receiver("shop").behaves(failure=1.0)
    with Sandbox(data=tmp_path / "data") as sandbox:
        paid(sandbox)
        assert answers(sandbox) == [500]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"failure": 1.5}, "failure=1.5 is no share: give a number from 0 to 1"),
        ({"failure": "often"}, "failure='often' is no share"),
        ({"fails_with": 99}, "99 is not a final HTTP status"),
        ({"latency": "slow"}, "latency: 'slow' is not a duration"),
        (
            {"latency": "80"},
            'latency: \'80\' has no unit: write "80s" or "80ms"',
        ),
        ({"latency": "lognorm(80)"}, "latency: '80' has no unit"),
        ({"latency": "-1s"}, "latency: '-1s' is negative"),
        ({"down": "12:00"}, r"down='12:00' is no window: give two times of every day \(UTC\)"),
        ({"down": ("12:00", "25:00")}, "is no window"),
        ({"down": ("12:00", "12:00")}, "has no length: give two times of the day"),
        ({"down": ("12:00", "2030-01-01T12:00:00Z")}, "is no window"),
        ({"down": ("2030-01-02T12:00:00Z", "2030-01-01T12:00:00Z")}, "ends before it begins"),
        ({"down": [("12:00",)]}, "is no window"),
        ({"down": 7}, "is no window"),
    ],
)
def test_what_is_no_behaviour_is_refused(sandbox: Sandbox, wrong: dict[str, Any], why: str) -> None:
    shop = sandbox.receiver("shop")
    with pytest.raises((ValueError, DistributionError), match=why):
        shop.behaves(**wrong)
    assert "behaves" not in sandbox.script()
    assert re.match("<Receiver 'shop': 0 received", repr(shop))


@pytest.mark.parametrize(
    ("script", "acknowledged"),
    [([200], [True]), ([500, 200], [True, False]), (["timeout", 204], [True, False]), ([200, 200], [True])],
)
def test_the_first_callback_with_an_id_says_whether_its_message_was_acknowledged(
    sandbox: Sandbox, script: list[Any], acknowledged: list[bool]
) -> None:
    sandbox.receiver("shop").answers(script)
    sandbox.wallet("ana").pay(sandbox.charges.create(amount="1000", description="tea", callbackUrl=HOOK))
    sandbox.run("1h")
    rows = sandbox.session.world.service.outbox._store.table("received", key="id")
    assert [row["acknowledged"] for row in rows] == acknowledged


@pytest.mark.parametrize(
    ("latency", "shown"),
    [
        ("80ms", "80ms"),
        (1.5, "1500ms"),
        (timedelta(minutes=1), "60s"),
        ("exp(2m)", "exp(120s)"),
        ("lognorm(80ms)", "lognorm(80ms, 0.6)"),
        ("uniform(0s, 2s)", "uniform(0s, 2s)"),
        ("normal(60s, 5s)", "normal(60s, 5s)"),
        ("pareto(1s, 1.2)", "pareto(1s, 1.2)"),
        ("pareto(1s, 1.2, 9m)", "pareto(1s, 1.2, 540s)"),
        ("weibull(45s, 0.5)", "weibull(45s, 0.5)"),
        ("choice(1s:3, 2s)", "choice(1s:3, 2s:1)"),
        ("clip(exp(1s), 1s, 2m)", "clip(exp(1s), 1s, 120s)"),
    ],
)
def test_the_repr_shows_the_latency_in_the_form_that_is_read(sandbox: Sandbox, latency: Any, shown: str) -> None:
    shop = sandbox.receiver("shop").behaves(latency=latency)
    row = sandbox.world.receivers.state("shop")["behaviour"]
    assert repr(shop) == f"<Receiver 'shop': 0 received, answers 200, latency {shown}>"
    shop.behaves(latency=shown)
    assert sandbox.world.receivers.state("shop")["behaviour"] == row


def test_the_repr_shows_all_that_is_set(sandbox: Sandbox) -> None:
    once = ("2030-01-01T12:00:00Z", "2030-01-01T14:00:00Z")
    shop = sandbox.receiver("shop").behaves(failure=0.1, down=[("12:00", "14:00"), once, ("22:00", "06:30")])
    shop.when(503).use_secret("whsec_" + "A" * 32)
    assert repr(shop) == (
        "<Receiver 'shop': 0 received, answers 200, 1 rule, 500 for 0.1 of the callbacks, down daily from 12:00 to"
        " 14:00 and from 2030-01-01T12:00:00.000Z to 2030-01-01T14:00:00.000Z and in 1 more window,"
        " a secret of its own>"
    )


@pytest.mark.parametrize(
    "call",
    [
        lambda sb: sb.advance("80"),
        lambda sb: sb.faults.add("delay", delay="80"),
        lambda sb: sb.traffic(patience="80"),
        lambda sb: sb.traffic(think_time=["80"]),
        lambda sb: sb.traffic(return_after="exp(80)"),
        lambda sb: sb.traffic("every(80)"),
        lambda sb: sb.traffic(duration="80"),
        lambda sb: sb.payers.add(delay="80"),
        lambda sb: sb.kpi.by("80"),
    ],
)
def test_a_text_of_a_duration_has_its_unit(sandbox: Sandbox, call: Callable[[Sandbox], Any]) -> None:
    with pytest.raises(ValueError, match='\'80\' has no unit: write "80s" or "80ms"'):
        call(sandbox)


def test_a_number_is_in_seconds(sandbox: Sandbox) -> None:
    for think_time in (15, timedelta(seconds=15), "15s"):
        assert sandbox.traffic(think_time=think_time).row["settings"]["think_time"] == ["const", 15_000]
    assert sandbox.traffic(think_time={15: 1}).arrived == 0
    assert value_distribution([15], "think_time", span_value) == ["values", [15_000], None]
    assert value_distribution({"15": 1}, "think_time", span_value) == ["values", [15_000], [1.0]]  # keys in JSON
    sandbox.traffic(payers={"ana": 5, "7": 1})
    Sandbox.from_snapshot(sandbox.snapshot())
    assert sandbox.traffic(expiresIn="choice(60, 600)").row["settings"]["expiresIn"][0] == "choice"
