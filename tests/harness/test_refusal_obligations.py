"""Refused requests, fields with an Idempotency-Key, bounds, copies, secrets and chosen replays: each class of
obligations finds a defect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from leyden.devserver.control.callbacks import deliveries
from leyden.devserver.control.callbacks.deliveries import CallbackControl
from leyden.harness.checks.violations import ContractViolation
from leyden.harness.engines.obligations import _mixed, run_obligations
from leyden.harness.engines.results import CampaignConfig
from leyden.harness.obligations.derive import all_obligations, obligation_cases
from leyden.harness.runs.cases import play
from leyden.harness.targets.target import InProcess
from leyden.rng import RandomStreams
from leyden.server.errors import MethodNotAllowed, Problem, Unauthorized
from leyden.server.http import idempotency, pipeline
from leyden.server.http.ignored_fields import IgnoredField
from leyden.server.store.compaction import Compaction
from leyden.world.removal import retention
from tests.support.deep import deep


def violation_of(*texts: str, most: int = 400) -> ContractViolation | None:
    """The first violation of the obligations with all of these texts in their names."""
    chosen = [one for one in all_obligations() if all(text in one.id for text in texts)][:most]
    assert chosen
    found = (play(case).violation for case in obligation_cases(chosen))
    return next((one for one in found if one is not None), None)


Patch = Callable[[pytest.MonkeyPatch], None]


def _headers_of(kind: type[Problem], spoil: Callable[[Mapping[str, str]], Mapping[str, str]]) -> Patch:
    original = Problem.__init__

    def init(self: Problem, detail: str, *, field_errors: Any = (), headers: Any = None) -> None:
        given = spoil(headers or {}) if isinstance(self, kind) else headers
        original(self, detail, field_errors=field_errors, headers=given)

    return lambda patch: patch.setattr(Problem, "__init__", init)


def _limited_before_the_key(patch: pytest.MonkeyPatch) -> None:
    original = pipeline.PathEndpoint._handle

    async def handle(self: Any, bound: Any, scope: Any, *rest: Any) -> Any:
        limit = self._pipeline.rate_limit
        problem = None if limit is None else limit(bound.operation.operation_id)
        if problem is not None:
            raise problem
        return await original(self, bound, scope, *rest)

    patch.setattr(pipeline.PathEndpoint, "_handle", handle)


def _head_without_length(patch: pytest.MonkeyPatch) -> None:
    original = pipeline._send

    async def send(send: Any, status: int, body: bytes, *rest: Any, omit_body: bool = False, **more: Any) -> None:
        await original(send, status, b"" if omit_body and status >= 400 else body, *rest, omit_body=omit_body, **more)

    patch.setattr(pipeline, "_send", send)


def _count_of_two_digits(patch: pytest.MonkeyPatch) -> None:
    original = pipeline.header_value
    patch.setattr(pipeline, "header_value", lambda ignored: original(ignored).replace(b"count=1000", b"count=999"))


def _journal_without_the_last_name(patch: pytest.MonkeyPatch) -> None:
    original = pipeline.journal_facts

    def facts(ignored: Any) -> list[dict[str, str]]:
        return original(ignored)[:7]

    patch.setattr(pipeline, "journal_facts", facts)


@pytest.mark.parametrize(
    ("texts", "spoil"),
    [
        (("getWallet order", "key"), _headers_of(Unauthorized, lambda headers: dict.fromkeys(headers, "ApiKey"))),
        (("requestInvoice order", "method"), _headers_of(MethodNotAllowed, lambda headers: {"Allow": "GET"})),
        (("getFaults refused", "method"), _headers_of(MethodNotAllowed, lambda headers: {"Allow": "GET"})),
        (("listFaults refused", "key"), _headers_of(Unauthorized, lambda headers: {})),
        (("createCharge order", "key and", "limited"), _limited_before_the_key),
        (("HEAD getChargeDetails order", "id unknown"), _head_without_length),
        (("createCharge body unknown-fields", "1008"), _count_of_two_digits),
        (("createCharge body unknown-fields", "9"), _journal_without_the_last_name),
    ],
)
def test_headers_and_the_order_of_refusals(
    texts: tuple[str, ...], spoil: Patch, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not any(all(text in one.id for text in texts) for one in all_obligations()):
        texts = ("addFault refused", texts[-1])
    assert violation_of(*texts) is None
    spoil(monkeypatch)
    assert violation_of(*texts) is not None


@pytest.mark.parametrize("name", ["amount", "callbackUrl", "successMessage", "allowedSlots", "unit", "description"])
def test_a_field_that_makes_no_other_request(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    original = idempotency._fingerprint
    monkeypatch.setattr(
        idempotency, "_fingerprint", lambda body: original({key: body[key] for key in body if key != name})
    )
    assert violation_of("changed-field", f" {name} ") is not None


def test_a_row_that_is_removed_before_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "_payment_ended", lambda row: row["resolved_at"] is not None or row["held_at"])
    original = retention.Retention.__init__

    def init(self: Any, store: Any, contract: Any, removed: Any, keep: int) -> None:
        original(self, store, contract, removed, keep - (keep == 7))

    monkeypatch.setattr(retention.Retention, "__init__", init)
    assert violation_of("--keep bound 7", most=1) is not None


def test_keys_that_a_reset_revokes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leyden.world.world.KEYS", "keys of nobody")
    assert violation_of("getWebhookSecret secrets keys, then reset") is not None


def test_a_secret_that_stops_to_sign_later_than_shown_and_one_that_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    assert violation_of("getWebhookSecret secrets rotated") is None
    with monkeypatch.context() as patch:
        patch.setattr(deliveries, "stops_at_ms", lambda every, row: row["until_ms"])
        assert violation_of("getWebhookSecret secrets rotated") is not None
    monkeypatch.setattr(RandomStreams, "go_on", lambda self, name, former: None)
    assert violation_of("getWebhookSecret secrets rotated in runs of one seed") is not None


def test_a_replay_of_chosen_deliveries_that_forgets_the_instant(monkeypatch: pytest.MonkeyPatch) -> None:
    original = CallbackControl._replay_listed
    monkeypatch.setattr(CallbackControl, "_replay_listed", lambda self, body, when_ms: original(self, body, None))
    assert violation_of("replayDeliveries replay-filter 50 ids of every 2, at") is not None


def test_a_large_table_that_loses_a_row_in_the_second_step_of_a_compaction(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Compaction.__init__

    def init(self: Any, path: Any, tables: Any) -> None:
        original(self, path, tables)
        pieces = self._pieces
        self._pieces = (piece for number, piece in enumerate(pieces) if number != 1)

    monkeypatch.setattr(Compaction, "__init__", init)
    assert violation_of("compaction large table") is not None


def test_the_first_cases_of_a_setup_have_every_kind() -> None:
    rows = [one for one in all_obligations() if one.setup == "rows" and not one.overlays]
    first = _mixed(rows, (), RandomStreams(3).stream("obligations"))[: len(rows) // 4]
    assert {one.kind for one in first} == {one.kind for one in rows}
    assert {one.place for one in first} == {one.place for one in rows}


def test_each_value_is_sent_once_before_any_is_sent_to_another_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[set[str]] = []

    def noted(case: Any, target: Any) -> Any:
        played.append({step["obligation"] for step in case.steps if "obligation" in step})

    monkeypatch.setattr("leyden.harness.engines.obligations.play", noted)
    config = CampaignConfig(engines=["obligations"], make=InProcess, seed=5)
    assert [*run_obligations(config, InProcess(), None)]
    values = {one.id: (one.kind, one.case) for one in all_obligations() if one.steps}
    assert len({*values.values()}) < len(values) / 3
    first = played[: int(0.7 * len(played))]
    shared = {value for value, count in Counter(values.values()).items() if count > 1}
    assert {values[name] for names in first for name in names} >= shared


@deep("test_each_value_is_sent_once_before_any_is_sent_to_another_operation")
def test_the_parts_of_a_campaign_test_each_case_once(monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[tuple[str, ...]] = []

    def noted(case: Any, target: Any) -> Any:
        played.append(tuple(step["obligation"] for step in case.steps if "obligation" in step))

    monkeypatch.setattr("leyden.harness.engines.obligations.play", noted)
    for number in range(3):
        config = CampaignConfig(engines=["obligations"], make=InProcess, seed=3 * 5 + number, part=(number, 3))
        assert [*run_obligations(config, InProcess(), None)]
    asked = [name for names in played for name in names]
    assert len(asked) == len({*asked}) == sum(1 for one in all_obligations() if one.steps)


def test_a_name_is_decoded_as_the_journal_has_it() -> None:
    from leyden.harness.checks.headers import named_in

    fields = [IgnoredField("a"), IgnoredField("caf\u00e9", "b"), IgnoredField('q"\\', None, "msats")]
    text = ", ".join([*(one.to_item() for one in fields), "more;count=3"])
    assert named_in(text) == [one.to_facts() for one in fields]
