"""Spelling: the known name that a misspelt one probably means."""

from __future__ import annotations

from collections.abc import Iterable

_SEPARATORS = str.maketrans("", "", "_-. ")
_MIN_SIMILARITY = 0.65
_MIN_PREFIX = 3
_MAX_LENGTH = 60  # the comparison takes quadratic time


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known name that is most similar to `word`, or None when no name is similar enough.

    Capitals, underscores, hyphens, dots and spaces do not count: `callback_url` means `callbackUrl`. A name that begins
    with the other one is similar. Equal similarities are decided by the alphabet.
    """
    if len(word) > _MAX_LENGTH:
        return None
    bare = {_bare(name): name for name in sorted(known, reverse=True)}
    wanted = _bare(word)
    if wanted in bare:
        return bare[wanted]
    from difflib import get_close_matches  # most processes never misspell anything

    near = get_close_matches(wanted, sorted(bare), 1, _MIN_SIMILARITY)
    if not near and len(wanted) >= _MIN_PREFIX:
        near = [one for one in sorted(bare) if one.startswith(wanted) or wanted.startswith(one)][:1]
    return bare[near[0]] if near else None


def _bare(name: str) -> str:
    return name.translate(_SEPARATORS).lower()
