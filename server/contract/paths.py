"""The paths of a document: which templates are served, and in which order routes are tried."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from leyden.server.contract.json_pointer import child, contract_error

VARIABLE = re.compile(r"\{([^{}]+)\}")
_TEMPLATE = re.compile(r"(?:/(?:[^/{}?#]|\{[A-Za-z_][A-Za-z0-9_]*\})*)+")
# RFC 3986, 3.3: the characters of a segment, without percent-encodings
_OTHER = re.compile(r"[^A-Za-z0-9._~!$&'()*+,;=:@/-]")


def check_paths(paths: Iterable[str], location: str) -> None:
    """Hold the path templates to what a request can reach. `location` is that of `paths`.

    Raises `ContractError` for a template that no request reaches as it is written, or that is the same as another.
    """
    shapes: dict[str, str] = {}
    for path in paths:
        at = child(location, path)
        if not _TEMPLATE.fullmatch(path):
            raise contract_error(at, "a path is /segments and {names}, without query or fragment")
        bare = VARIABLE.sub("", path)
        other = _OTHER.search(bare)
        if other is not None:
            found = "a percent-encoding" if other[0] == "%" else ascii(other[0])
            raise contract_error(
                at, f"{found} in a path is not served; write it in ASCII letters, digits and -._~!$&'()*+,;=:@ alone"
            )
        segments = path.split("/")[1:]
        if "" in segments[:-1]:
            raise contract_error(at, "has an empty segment; write one / between two segments")
        if {".", ".."} & set(segments):
            raise contract_error(at, "has the segment . or .., which clients take out of a URL; write the path without")
        names = VARIABLE.findall(path)
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise contract_error(at, f"has {{{twice[0]}}} twice; give each part a name of its own")
        if "}{" in path:
            raise contract_error(at, "has two names with nothing between them; write a text between them")
        shape = VARIABLE.sub("{}", path)
        if shape in shapes:
            raise contract_error(at, f"is the same path as {shapes[shape]!r}; keep one of them")
        shapes[shape] = path


def path_values(template: str, path: str) -> tuple[str, ...] | None:
    """The texts in the places of a template's names, percent-encoded as in the path; None for a path that does not fit
    the template."""
    found = re.fullmatch("([^/]+)".join(map(re.escape, VARIABLE.split(template)[::2])), path)
    return None if found is None else found.groups()


def specificity(path: str) -> tuple[tuple[int, int], ...]:
    """The key by which routes are sorted: of two templates that fit one request, the more concrete one is first.

    Segment by segment, a text is before a text with a name in it (the one with more text first), and a name is last.
    """
    return tuple(
        (2 if VARIABLE.fullmatch(segment) else 1, -len(VARIABLE.sub("", segment))) if "{" in segment else (0, 0)
        for segment in path.split("/")[1:]
    )
