"""Hands: what a refused commit took in hand is due again, and what it put down is in hand again."""

from __future__ import annotations

import orjson

from leyden.server.callbacks.in_flight import Hands

SHOP = ("static", "http://shop.localhost/")


def busy() -> Hands:
    hands = Hands()
    hands.due.extend(["b", "c"])
    hands.flying["a"] = 1
    return hands


def test_a_refused_commit_gives_back_what_it_took_and_takes_back_what_it_gave() -> None:
    hands = busy()
    hands.begin()
    hands.land("a")
    hands.take()
    hands.flying["b"] = 1
    hands.close(SHOP)
    # The rows are as they were: the first attempt for a is under way, none for b.
    assert hands.take_back({"a": 1}.get) == ["b"]
    assert (hands.flying, list(hands.due), hands.closed) == ({"a": 1}, ["c"], set())


def test_a_message_answered_and_sent_again_in_a_refused_commit_is_in_its_first_flight_again() -> None:
    hands = busy()
    hands.begin()
    hands.land("a")
    hands.flying["a"] = 2
    hands.take_back({"a": 1}.get)
    assert hands.flying == {"a": 1}


def test_what_was_kept_is_not_taken_back_with_the_next_commit() -> None:
    hands = busy()
    hands.begin()
    hands.land("a")
    hands.take()
    hands.close(SHOP)
    hands.begin()
    assert hands.take_back({}.get) == []
    assert (hands.flying, list(hands.due), hands.closed) == ({}, ["c"], {SHOP})


def test_only_the_attempt_that_is_in_hand_is_forgotten() -> None:
    hands = busy()
    hands.forget("a", 2)
    assert hands.flying == {"a": 1}
    hands.forget("a", 1)
    assert hands.flying == {}


def test_a_snapshot_is_plain_data_and_stands_for_itself() -> None:
    hands = busy()
    hands.close(SHOP)
    kept = orjson.loads(orjson.dumps(hands.snapshot()))
    hands.take()
    twin = Hands()
    twin.restore(kept)
    assert twin.snapshot() == kept
    assert twin.closed == {SHOP}
