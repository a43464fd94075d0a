"""InFlight: a rollback restores the queue, the worker slots and the disabled endpoints."""

from __future__ import annotations

import orjson

from leyden.server.callbacks.in_flight import InFlight

SHOP = ("static", "http://shop.localhost/")


def one_in_flight_two_queued() -> InFlight:
    in_flight = InFlight()
    in_flight.queue.extend(["b", "c"])
    in_flight.attempts["a"] = 1
    return in_flight


def test_a_rollback_restores_the_queue_in_order_and_what_completed() -> None:
    in_flight = one_in_flight_two_queued()
    in_flight.begin()
    in_flight.complete("a")
    in_flight.acquire()
    in_flight.start("b", 1)
    in_flight.enqueue("d")
    in_flight.acquire()
    in_flight.disable(SHOP)
    in_flight.rollback()
    assert (in_flight.attempts, list(in_flight.queue), in_flight.disabled) == ({"a": 1}, ["b", "c"], set())


def test_after_a_rollback_a_delivery_sent_again_is_in_its_first_attempt() -> None:
    in_flight = one_in_flight_two_queued()
    in_flight.begin()
    in_flight.complete("a")
    in_flight.start("a", 2)
    in_flight.rollback()
    assert in_flight.attempts == {"a": 1}


def test_a_rollback_does_not_undo_an_earlier_commit() -> None:
    in_flight = one_in_flight_two_queued()
    in_flight.begin()
    in_flight.complete("a")
    in_flight.acquire()
    in_flight.disable(SHOP)
    in_flight.commit()
    in_flight.begin()
    in_flight.rollback()
    assert (in_flight.attempts, list(in_flight.queue), in_flight.disabled) == ({}, ["c"], {SHOP})


def test_discard_frees_the_slot_of_that_attempt_only() -> None:
    in_flight = one_in_flight_two_queued()
    in_flight.discard("a", 2)
    assert in_flight.attempts == {"a": 1}
    in_flight.discard("a", 1)
    assert in_flight.attempts == {}


def test_a_snapshot_with_the_former_names_is_restored() -> None:
    in_flight = InFlight()
    in_flight.restore({"due": ["d2", "d3"], "flying": {"d1": 4}, "closed": [list(SHOP)]})
    assert (list(in_flight.queue), in_flight.attempts, in_flight.disabled) == (["d2", "d3"], {"d1": 4}, {SHOP})


def test_a_snapshot_is_plain_data_independent_of_later_changes() -> None:
    in_flight = one_in_flight_two_queued()
    in_flight.disable(SHOP)
    state = orjson.loads(orjson.dumps(in_flight.snapshot()))
    in_flight.acquire()
    fork = InFlight()
    fork.restore(state)
    assert fork.snapshot() == state
    assert fork.disabled == {SHOP}
