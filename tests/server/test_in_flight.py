"""Hands: what a refused commit took in hand is due again, and what it put down is in hand again."""

from __future__ import annotations

import orjson

from leyden.server.callbacks.in_flight import InFlight

SHOP = ("static", "http://shop.localhost/")


def busy() -> InFlight:
    hands = InFlight()
    hands.queue.extend(["b", "c"])
    hands.attempts["a"] = 1
    return hands


def test_a_refused_commit_gives_back_what_it_took_and_takes_back_what_it_gave() -> None:
    hands = busy()
    hands.begin()
    hands.complete("a")
    hands.acquire()
    hands.attempts["b"] = 1
    hands.disable(SHOP)
    # The rows are as they were: the first attempt for a is under way, none for b.
    assert hands.rollback({"a": 1}.get) == ["b"]
    assert (hands.attempts, list(hands.queue), hands.disabled) == ({"a": 1}, ["c"], set())


def test_a_message_answered_and_sent_again_in_a_refused_commit_is_in_its_first_flight_again() -> None:
    hands = busy()
    hands.begin()
    hands.complete("a")
    hands.attempts["a"] = 2
    hands.rollback({"a": 1}.get)
    assert hands.attempts == {"a": 1}


def test_what_was_kept_is_not_taken_back_with_the_next_commit() -> None:
    hands = busy()
    hands.begin()
    hands.complete("a")
    hands.acquire()
    hands.disable(SHOP)
    hands.begin()
    assert hands.rollback({}.get) == []
    assert (hands.attempts, list(hands.queue), hands.disabled) == ({}, ["c"], {SHOP})


def test_only_the_attempt_that_is_in_hand_is_forgotten() -> None:
    hands = busy()
    hands.discard("a", 2)
    assert hands.attempts == {"a": 1}
    hands.discard("a", 1)
    assert hands.attempts == {}


def test_a_snapshot_is_plain_data_and_stands_for_itself() -> None:
    hands = busy()
    hands.disable(SHOP)
    kept = orjson.loads(orjson.dumps(hands.snapshot()))
    hands.acquire()
    twin = InFlight()
    twin.restore(kept)
    assert twin.snapshot() == kept
    assert twin.disabled == {SHOP}
