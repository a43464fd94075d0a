"""How many examples a Hypothesis property tries in each profile."""

from __future__ import annotations

from typing import Any

from hypothesis import settings

from tests.support.deep import deep_or

SUITE_EXAMPLES = 25  # of a property without a number of its own, in the profiles `suite` and `deep`


def examples(number: int, *, bounded: int | None = None, **options: Any) -> settings:
    """Settings with `number` examples in the profile `deep`, `bounded` or the same number in the profile `suite`, and
    in proportion more in another profile."""
    chosen = deep_or(bounded=number if bounded is None else bounded, full=number)
    return settings(max_examples=chosen * settings().max_examples // SUITE_EXAMPLES, **options)
