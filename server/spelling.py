"""Spelling: the known name or path that a misspelt one probably means."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from heapq import nlargest
from posixpath import commonprefix

_VERSION = re.compile(r"v[0-9]+")
_SHARED = re.compile(r".*[_\-. ]")
_SEPARATORS = str.maketrans("", "", "_-. ")
_MIN_SIMILARITY = 0.65
_MIN_PREFIX = 3
_ABBREVIATED = 0.15  # the advantage of a name that begins with the word
_FITTING = 0.05
_MAX_SEGMENTS = 8
_MAX_LENGTH = 60  # the comparison takes quadratic time
_MOST_COMPARED = 32  # names whose letters and their order are compared; of more, those with the most common letters


def closest(word: str, known: Iterable[str], similarity: float = _MIN_SIMILARITY) -> str | None:
    """The known name that is most similar to `word`, or None when no name is similar enough: by `similarity`, up to 1,
    or because one is the start of the other.

    Capitals, underscores, hyphens, dots and spaces do not count: `callback_url` means `callbackUrl`. A name that begins
    with the other one is similar. Where all known names begin with the same words, those are not compared. Equal
    similarities are decided by the alphabet.
    """
    if len(word) > _MAX_LENGTH:
        return None
    bare = {bare_name(name): name for name in sorted(known, reverse=True)}
    wanted = bare_name(word)
    if wanted in bare:
        return bare[wanted]
    shared = _shared_start(bare.values())
    if shared:
        wanted = wanted.removeprefix(shared)
        bare = {name.removeprefix(shared): full for name, full in bare.items()}
    from difflib import get_close_matches  # most processes never misspell anything

    def ratio(one: str) -> float:
        return _ratio(one, wanted)

    names = sorted(bare)
    near = get_close_matches(wanted, _with_common_letters(wanted, names), 1, similarity)
    if near and len(wanted) >= _MIN_PREFIX:
        longer_ones = _with_common_letters(wanted, [one for one in names if one.startswith(wanted)])
        longer = max(longer_ones, key=ratio, default=near[0])
        if ratio(longer) + _ABBREVIATED > ratio(near[0]):
            near = [longer]
    if not near and len(wanted) >= _MIN_PREFIX:
        near = [one for one in names if one.startswith(wanted) or wanted.startswith(one)][:1]
    return bare[near[0]] if near else None


def closest_names(word: str, known: Iterable[str], count: int) -> list[str]:
    """At most `count` of the known names that are similar to `word`, the most similar first. Capitals count."""
    if len(word) > _MAX_LENGTH:
        return []
    from difflib import get_close_matches  # as above

    return get_close_matches(word, _with_common_letters(word, sorted(set(known))), count)


def _with_common_letters(wanted: str, names: list[str]) -> list[str]:
    """The names to compare with `wanted`: all but long ones, unless there are many."""
    names = [name for name in names if len(name) <= 2 * _MAX_LENGTH]
    if len(names) <= _MOST_COMPARED:
        return names
    from difflib import SequenceMatcher

    matcher = SequenceMatcher(b=wanted)

    def common_letters(name: str) -> float:
        matcher.set_seq1(name)
        return matcher.quick_ratio()

    return nlargest(_MOST_COMPARED, names, key=common_letters)


def path_named(path: str, names: Iterable[tuple[str, Iterable[str]]]) -> str | None:
    """The path, of pairs with other names, whose other name stands in `path` after the segments up to the version: for
    `/api/v1/pay` the path `/api/v1/payments` with the name `pay`. None when there is none."""
    wanted = bare_name(path.rstrip("/"))
    for known, others in names:
        parts = known.split("/")
        start = next((at for at, part in enumerate(parts) if _VERSION.fullmatch(part)), 0)
        if "{" not in known and any(bare_name("/".join([*parts[: start + 1], other])) == wanted for other in others):
            return known
    return None


def closest_path(
    path: str, templates: Iterable[str], fits: Callable[[str], bool] = lambda template: True
) -> str | None:
    """The path that is most similar to `path` among those that the templates describe, or None. Of two that are equally
    similar it is the one whose template `fits`.

    `{names}` in a template stand for any text. A slash at the end, a doubled slash, a missing version (`/charges` for
    `/v0/charges`), another first segment and misspelt segments are corrected.
    """
    segments = [segment for segment in path.split("/") if segment]
    if not segments or len(segments) > _MAX_SEGMENTS:
        return None
    best, nearest = 0.0, None
    for template in sorted(templates):
        parts = template.strip("/").split("/")
        fewer = [parts[:at] + parts[at + 1 :] for at, part in enumerate(parts) if _VERSION.fullmatch(part)]
        for own, unmatched, penalty in (
            (segments, parts, 0.0),
            *((segments, missing, 0.3) for missing in fewer),
            (segments[1:], parts[1:], 0.5),
            (segments[1:], parts, 0.5),
        ):
            if len(own) == len(unmatched):
                score = _similarity(own, unmatched) - penalty
                score += _FITTING if score > 0 and fits(template) else 0
                if score > best:
                    best, nearest = score, _filled(parts, unmatched, own)
    return nearest


def _filled(parts: list[str], unmatched: list[str], own: list[str]) -> str:
    """The path of a template, with the texts of `own` for its names."""
    texts = iter([text for text, part in zip(own, unmatched, strict=True) if part.startswith("{")])
    return "/" + "/".join(next(texts) if part.startswith("{") else part for part in parts)


def _similarity(segments: list[str], parts: list[str]) -> float:
    """The sum over the fixed segments of a template, 1 for each equal one, less for a similar one; 0 if any is not."""
    total = 0.0
    for segment, part in zip(segments, parts, strict=True):
        if part.startswith("{") or segment == part:
            total += segment == part
        elif _VERSION.fullmatch(segment) and _VERSION.fullmatch(part):
            total += 0.6
        elif closest(segment, [part]) is None:
            return 0.0
        else:
            total += 0.9 if bare_name(segment) == bare_name(part) else 0.6 + 0.2 * _ratio(segment, part)
    return total


def _ratio(one: str, other: str) -> float:
    from difflib import SequenceMatcher  # as above

    return SequenceMatcher(None, one, other).ratio()


def _shared_start(names: Collection[str]) -> str:
    """The common prefix of several names, up to its last separator: `charge.` for the events."""
    start = _SHARED.match(commonprefix([*names])) if len(names) > 1 else None
    return bare_name(start[0]) if start else ""


def bare_name(name: str) -> str:
    """The letters of a name that count: in lower case, without underscores, hyphens, dots and spaces."""
    return name.translate(_SEPARATORS).lower()
