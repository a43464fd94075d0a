"""Dice: where the next choice comes from: a seeded stream when we walk, Hypothesis when it looks for us."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Protocol, TypeVar

from leyden.world.rng import RandomStreams

T = TypeVar("T")


class Dice(Protocol):
    """One choice among so many."""

    def below(self, bound: int) -> int:
        """A whole number in [0, bound)."""


def pick(dice: Dice, items: Sequence[T]) -> T:
    """One of the items."""
    return items[dice.below(len(items))]


def chance(dice: Dice, one_in: int) -> bool:
    """True once in so many times. Hypothesis, which prefers small numbers, then shrinks towards False."""
    return dice.below(one_in) == one_in - 1


def stream(seed: int) -> Dice:
    """The dice of a seed: the same ones on any machine."""
    return RandomStreams(seed).stream("walk")


class Digits:
    """One number as dice: its hash, read digit by digit, each in the base of its choice.

    Hypothesis draws the number once for a step, which costs it as much as a single choice would. The hash takes away
    its liking for small numbers, which would make nearly every choice the first.
    """

    SPAN = 2**32

    def __init__(self, number: int) -> None:
        self._digits = int.from_bytes(blake2b(number.to_bytes(4, "big")).digest(), "big")

    def below(self, bound: int) -> int:
        """A whole number in [0, bound)."""
        self._digits, digit = divmod(self._digits, bound)
        return digit
