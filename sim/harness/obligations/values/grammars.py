"""Grammars of the standards for values whose schema names no pattern: their members and near misses are derived."""

from __future__ import annotations

from collections.abc import Iterator

from leyden.harness.obligations.values.patterns import Variant, pattern_variants

_DATE = r"(?:2030|[0-9]{4})-(?:01|0[1-9]|1[0-2])-(?:01|0[1-9]|[12][0-9]|3[01])"
_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:[0-5][0-9]|60)(?:\.[0-9]+)?"
# A date-time (RFC 3339, 5.6).
DATE_TIME = rf"{_DATE}[Tt]{_TIME}(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
# A whole number as the lists take it [lists].
WHOLE_NUMBER = r"[1-9][0-9]{0,2}"
# A media type with a parameter (RFC 9110, 8.3.1), as a token and quoted.
JSON_MEDIA_TYPE = r'application/json[ \t]*;[ \t]*charset=(?:utf-8|"utf-8")'
OTHER_PARAMETER = r'application/json;[ \t]*[!#$%&\'*+.^_`|~A-Za-z0-9-]+=(?:x|"(?:[ !]|\\[ -~])*");charset=utf-8'
# A member of Accept with its weight (RFC 9110, 12.4.2 and 12.5.1).
WEIGHTED = r"(?:application/json|application/\*|\*/\*)[ \t]*;[ \t]*[qQ]=(?:0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)"


def grammar_variants(grammar: str) -> tuple[Variant, ...]:
    """Texts that change one part of a member of a grammar, with the kind of each; members and others."""
    return tuple((kind.replace("pattern:", "grammar:"), text) for kind, text in pattern_variants(grammar))


def header_texts(*grammars: str) -> Iterator[str]:
    """The texts of several grammars that a header may have as its value."""
    for grammar in grammars:
        yield from (text for _, text in pattern_variants(grammar) if is_header_value(text))


def is_header_value(text: str) -> bool:
    """Whether a header may have this value (RFC 9110, 5.5)."""
    return all(character == "\t" or (" " <= character < "\u0100" and character != "\x7f") for character in text)
