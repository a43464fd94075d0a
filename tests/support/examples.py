"""How many examples a Hypothesis property tries in each profile."""

from __future__ import annotations

from typing import Any

from hypothesis import settings

SUITE_EXAMPLES = 25  # of a property without a number of its own, in the profile `suite`


def examples(number: int, **options: Any) -> settings:
    """Settings with `number` examples in the profile `suite`, and in proportion more in the loaded profile."""
    return settings(max_examples=number * settings().max_examples // SUITE_EXAMPLES, **options)
