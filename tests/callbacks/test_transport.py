"""TransportRouter: responses that arrive together are recorded in one transaction; a failed one affects no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from typing import Any

import pytest

from leyden.callbacks.transport import TransportRouter
from leyden.server.errors import StorageUnavailable
from leyden.server.ports import CallbackRequest, CallbackResponse
from tests.support.outbox_helpers import OutboxFixture

_OK = CallbackResponse(status=200)


class ManualTransport:
    """A transport that keeps requests until the test answers some of them at once."""

    def __init__(self) -> None:
        self.sent: list[tuple[CallbackRequest, Callable[[CallbackRequest, CallbackResponse], None]]] = []

    def post(self, post: CallbackRequest, answered: Callable[[CallbackRequest, CallbackResponse], None]) -> None:
        self.sent.append((post, answered))

    def report_within(self, around: Callable[[], AbstractContextManager[None]]) -> None:
        self.around = around

    def receiver_time_s(self, url: str) -> int:
        return 0

    def blocked_note(self, url: str) -> str:
        return ""

    def answer(self, *indexes: int, response: CallbackResponse = _OK) -> None:
        with self.around():
            for index in indexes:
                post, answered = self.sent[index]
                answered(post, response)


class RouterFixture:
    """A TransportRouter whose transactions are recorded and may fail."""

    def __init__(self) -> None:
        self.transactions: list[list[int]] = []
        self.committed: list[int] = []
        self.failing: set[int] = set()
        self.notes: dict[int, str] = {}
        self.error: Exception = StorageUnavailable("the disk is full")
        self.transport = ManualTransport()
        self.router = TransportRouter(OutboxFixture().receivers, self.transport, self.transaction)
        for number in range(5):
            self.router.post(CallbackRequest(str(number), 1, "http://127.0.0.1:9/", {}, b"", 1, 1), self.answered)
        self.router.commit()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self.transactions.append([])
        yield
        if self.failing & set(self.transactions[-1]):
            raise self.error
        self.committed += self.transactions[-1]

    def answered(self, post: CallbackRequest, answer: CallbackResponse) -> None:
        self.transactions[-1].append(int(post.delivery_id))
        self.notes[int(post.delivery_id)] = answer.note


def test_responses_that_arrive_together_are_recorded_in_one_transaction() -> None:
    fixture = RouterFixture()
    fixture.transport.answer(3, 0, 1)
    fixture.transport.answer(4)
    assert fixture.transactions == [[3, 0, 1], [4]]
    assert not fixture.router.has_pending_responses


def test_responses_beyond_a_slice_of_work_wait_for_the_next() -> None:
    fixture, steps = RouterFixture(), count(1)
    fixture.router._slice_end = lambda: lambda: next(steps) % 2 == 0
    fixture.transport.answer(3, 0, 1)
    assert (fixture.transactions, fixture.router.has_pending_responses) == ([[3, 0]], True)
    fixture.router.flush_responses(lambda: True)  # a slice that is over records one
    fixture.transport.answer(4)
    assert (fixture.transactions, fixture.router.has_pending_responses) == ([[3, 0], [1], [4]], False)


def test_a_defect_does_not_stop_the_responses_of_later_slices() -> None:
    fixture = RouterFixture()
    fixture.router._slice_end = lambda: lambda: True
    fixture.failing, fixture.error = {3}, RuntimeError("a defect")
    with pytest.raises(RuntimeError, match="a defect"):
        fixture.transport.answer(3, 0, 1)
    for recorded in ([0], [0, 1]):
        fixture.router.flush_responses(lambda: True)
        assert fixture.committed == recorded


def test_only_a_receiver_that_got_a_request_may_have_caused_the_wait() -> None:
    fixture = RouterFixture()
    fixture.router.wait_begins(is_copy=True, stops_loop=False)
    for index, note in enumerate(("no complete answer within 1 s", "no connection within 1 s", "the name x has no")):
        fixture.transport.answer(index, response=CallbackResponse(error="timeout", note=note))
    hint = "if the receiver asked for it, it must answer first"
    assert [fixture.notes[index].endswith(hint) for index in range(3)] == [True, False, False]


def test_responses_of_a_failed_commit_are_kept_in_order() -> None:
    fixture = RouterFixture()
    fixture.failing = {0}
    fixture.transport.answer(3, 0, 1)
    assert (fixture.committed, fixture.router.has_pending_responses) == ([], True)
    fixture.failing = set()
    fixture.transport.answer(4)
    assert (fixture.committed, fixture.router.has_pending_responses) == ([3, 0, 1, 4], False)


def test_a_defect_in_one_response_does_not_stop_the_others() -> None:
    fixture = RouterFixture()
    fixture.failing, fixture.error = {0}, RuntimeError("a defect")
    with pytest.raises(RuntimeError, match="a defect"):
        fixture.transport.answer(3, 0, 1)
    assert (fixture.committed, fixture.router.has_pending_responses) == ([3], True)
    fixture.router.flush_responses()
    assert (fixture.committed, fixture.router.has_pending_responses) == ([3, 1], False)


def test_a_defect_of_a_batch_is_raised_after_each_response_was_recorded() -> None:
    fixture = RouterFixture()
    exclusive = fixture.router._exclusive

    @contextmanager
    def transaction() -> Iterator[None]:
        with exclusive():
            yield
            if len(fixture.transactions[-1]) > 1:
                raise RuntimeError("too many")

    fixture.router._exclusive = transaction
    with pytest.raises(RuntimeError, match="too many"):
        fixture.transport.answer(3, 0, 1)
    assert (fixture.committed, fixture.router.has_pending_responses) == ([3, 0, 1], False)


@pytest.mark.parametrize("arrival", [(4, 3, 2, 1, 0), (1, 0, 3, 2, 4)])
def test_with_responses_in_order_a_response_waits_for_earlier_ones(arrival: Any) -> None:
    fixture = RouterFixture()
    with fixture.router.responses_in_order():
        for index in arrival[:3]:
            fixture.transport.answer(index)
        assert fixture.committed == sorted(fixture.committed) == list(range(len(fixture.committed)))
        fixture.transport.answer(*arrival[3:])
        assert fixture.committed == [0, 1, 2, 3, 4]
