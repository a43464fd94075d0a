"""The exchange: answers that come together are recorded together, and one that cannot be harms no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from leyden.callbacks.transport import TransportRouter
from leyden.server.errors import StorageUnavailable
from leyden.server.ports import CallbackRequest, CallbackResponse
from tests.support.outbox_helpers import OutboxFixture


class Street:
    """The real network, by hand: what was sent waits until the test lets answers come, all in one breath."""

    def __init__(self) -> None:
        self.sent: list[tuple[CallbackRequest, Callable[[CallbackRequest, CallbackResponse], None]]] = []

    def post(self, post: CallbackRequest, answered: Callable[[CallbackRequest, CallbackResponse], None]) -> None:
        self.sent.append((post, answered))

    def report_within(self, around: Callable[[], AbstractContextManager[None]]) -> None:
        self.around = around

    def receiver_time_s(self, url: str) -> int:
        return 0

    def answer(self, *places: int) -> None:
        with self.around():
            for place in places:
                post, answered = self.sent[place]
                answered(post, CallbackResponse(status=200))


class Scene:
    """An exchange whose turns are counted, and may be refused."""

    def __init__(self) -> None:
        self.turns: list[list[int]] = []
        self.kept: list[int] = []
        self.refuse: set[int] = set()
        self.error: Exception = StorageUnavailable("the disk is full")
        self.street = Street()
        self.exchange = TransportRouter(OutboxFixture().receivers, self.street, self.turn)
        for number in range(5):
            self.exchange.post(CallbackRequest(str(number), 1, "http://127.0.0.1:9/", {}, b"", 1, 1), self.answered)
        self.exchange.commit()

    @contextmanager
    def turn(self) -> Iterator[None]:
        self.turns.append([])
        yield
        if self.refuse & set(self.turns[-1]):
            raise self.error
        self.kept += self.turns[-1]

    def answered(self, post: CallbackRequest, answer: CallbackResponse) -> None:
        self.turns[-1].append(int(post.delivery_id))


def test_what_comes_together_is_recorded_in_one_turn() -> None:
    scene = Scene()
    scene.street.answer(3, 0, 1)
    scene.street.answer(4)
    assert scene.turns == [[3, 0, 1], [4]]
    assert not scene.exchange.has_pending_responses


def test_what_the_disk_refuses_is_kept_whole_and_in_order() -> None:
    scene = Scene()
    scene.refuse = {0}
    scene.street.answer(3, 0, 1)
    assert (scene.kept, scene.exchange.has_pending_responses) == ([], True)
    scene.refuse = set()
    scene.street.answer(4)
    assert (scene.kept, scene.exchange.has_pending_responses) == ([3, 0, 1, 4], False)


def test_a_defect_in_one_answer_keeps_no_other_from_being_recorded() -> None:
    scene = Scene()
    scene.refuse, scene.error = {0}, RuntimeError("a defect")
    with pytest.raises(RuntimeError, match="a defect"):
        scene.street.answer(3, 0, 1)
    assert (scene.kept, scene.exchange.has_pending_responses) == ([3], True)
    scene.exchange.flush_responses()
    assert (scene.kept, scene.exchange.has_pending_responses) == ([3, 1], False)


def test_a_defect_that_shows_only_in_company_is_told_of_when_all_are_recorded() -> None:
    scene = Scene()
    together = scene.exchange._exclusive

    @contextmanager
    def turn() -> Iterator[None]:
        with together():
            yield
            if len(scene.turns[-1]) > 1:
                raise RuntimeError("too many")

    scene.exchange._exclusive = turn
    with pytest.raises(RuntimeError, match="too many"):
        scene.street.answer(3, 0, 1)
    assert (scene.kept, scene.exchange.has_pending_responses) == ([3, 0, 1], False)


@pytest.mark.parametrize("arrival", [(4, 3, 2, 1, 0), (1, 0, 3, 2, 4)])
def test_in_order_an_answer_waits_for_those_before_it(arrival: Any) -> None:
    scene = Scene()
    with scene.exchange.responses_in_order():
        for place in arrival[:3]:
            scene.street.answer(place)
        assert scene.kept == sorted(scene.kept) == list(range(len(scene.kept)))
        scene.street.answer(*arrival[3:])
        assert scene.kept == [0, 1, 2, 3, 4]
