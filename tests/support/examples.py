"""How many examples a Hypothesis property tries in each profile."""

from __future__ import annotations

from typing import Any

from hypothesis import settings

from tests.support.deep import is_deep

# Of a property without a number of its own, in the profiles `suite` and `deep`.
SUITE_EXAMPLES = 12
DEEP_EXAMPLES = 25


def examples(number: int, *, bounded: int | None = None, **options: Any) -> settings:
    """Settings with `number` examples in the profile `deep`, `bounded` or half as many in the profile `suite`, and in
    proportion more in another profile."""
    if not is_deep():
        return settings(max_examples=bounded or max(1, number * SUITE_EXAMPLES // DEEP_EXAMPLES), **options)
    return settings(max_examples=number * settings().max_examples // DEEP_EXAMPLES, **options)
