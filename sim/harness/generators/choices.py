"""The source of all choices: a seeded random stream, or numbers that Hypothesis draws."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Protocol, TypeVar

T = TypeVar("T")


class Choices(Protocol):
    """A source of random numbers."""

    def below(self, bound: int) -> int:
        """A whole number in [0, bound)."""


def pick(choices: Choices, items: Sequence[T]) -> T:
    """One of the items."""
    return items[choices.below(len(items))]


def one_in(choices: Choices, number: int) -> bool:
    """True with probability 1/number. Hypothesis prefers small numbers, so it shrinks towards False."""
    return choices.below(number) == number - 1


class HashedChoices:
    """The digits of one number's hash, each in the base that is asked for.

    Hypothesis draws the number once for a step, which costs it as much as a single choice would. The hash removes its
    preference for small numbers, which would make nearly every choice the first.
    """

    SPAN = 2**32

    def __init__(self, number: int) -> None:
        self._digits = int.from_bytes(blake2b(number.to_bytes(4, "big")).digest(), "big")

    def below(self, bound: int) -> int:
        """A whole number in [0, bound)."""
        self._digits, digit = divmod(self._digits, bound)
        return digit
