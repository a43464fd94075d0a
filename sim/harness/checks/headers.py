"""The response headers: which the service sends, with which values, and that it sends no others."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from urllib.parse import unquote

from leyden.harness.checks.clauses import ANSWERS
from leyden.harness.checks.violations import ContractViolation, difference
from leyden.harness.targets.target import Response

# Not compared: the HTTP server writes them for the connection or for the message as a whole (RFC 9110, 6.6.1 and 7.6.1;
# RFC 9112, 6), and a run in process has none of them.
TRANSPORT: Mapping[str, str] = {
    "connection": "of the connection",
    "date": "the real time",
    "keep-alive": "of the connection",
    "server": "the name of the HTTP server",
    "transfer-encoding": "of the connection",
}
NOTHING: Mapping[str, str] = MappingProxyType({})
KEY = "Idempotency-Key"
_MAX_NAMED, _MAX_LENGTH = 8, 40  # names in Leyden-Ignored, and characters of each
_STRING = r'%?"(?:[^"\\]|\\.)*"'
_ITEM = re.compile(rf"({_STRING}|more)((?:;[a-z-]+=(?:{_STRING}|[0-9]+))*)(?:, |$)", re.ASCII)
_PARAMETER = re.compile(rf";([a-z-]+)=({_STRING}|[0-9]+)", re.ASCII)


def complete(
    response: Response,
    where: str,
    *,
    media: str | None,
    names: Mapping[str, str | None],
    ignored: Sequence[str] = (),
    known: Sequence[str] = (),
    always: Mapping[str, str] = NOTHING,
    slips: Sequence[str] = (),
    omits_body: bool = False,
) -> None:
    """The headers of a response are `content-type`, `content-length` and those of `names`, with these values (None: any
    text), `leyden-ignored` if names are `ignored`, and no others. `known` are the names that may be meant, `always` the
    fixed values of ignored names, `slips` the ignored headers that mean Idempotency-Key."""
    observed = {name: value for name, value in response.headers.items() if name not in TRANSPORT}
    wanted: dict[str, str | None] = dict(names)
    if media is not None:
        wanted["content-type"] = media
        if "content-length" in observed or "transfer-encoding" not in response.headers:
            wanted["content-length"] = None if omits_body else str(len(response.body))
    if ignored:
        wanted["leyden-ignored"] = None
    if media is None and observed.get("content-length") == "0":
        del observed["content-length"]
    filled = {name: observed.get(name, "(present)") if value is None else value for name, value in wanted.items()}
    if filled != observed:
        wanted_part, found = difference(filled, observed)
        check, rule = ("errors_are_problems" if response.status >= 400 else "lifecycle"), "statuses"
        if response.status < 400 and "content-type" in wanted_part:
            check, rule = "answers_are_declared", ANSWERS
        raise ContractViolation(check, rule, f"{where}: headers", wanted_part, found)
    if ignored:
        _named(observed["leyden-ignored"], ignored, known, always, slips, where)


def present(response: Response, where: str, names: Mapping[str, str | None]) -> None:
    """The headers of a response have those of `names`, with these values (None: any text)."""
    for name, value in names.items():
        observed = response.headers.get(name)
        if observed is None or value not in (None, observed):
            raise ContractViolation("errors_are_problems", "statuses", f"{where}: {name}", value or "present", observed)


def _named(
    text: str, ignored: Sequence[str], known: Sequence[str], always: Mapping[str, str], slips: Sequence[str], where: str
) -> None:
    """The names in `Leyden-Ignored` [request-bodies], in the order of the request, and what was probably meant; the
    text is the one in which RFC 9651 serialises this list."""
    items, at = list[tuple[str, dict[str, str]]](), 0
    while at < len(text) and (found := _ITEM.match(text, at)) is not None:
        items.append((_decoded(found[1]), {name: _decoded(value) for name, value in _PARAMETER.findall(found[2])}))
        at = found.end()
    named = _to_be_named(ignored, known, always, [name for name, _ in items])
    more = len(ignored) - len(named)
    expected: list[str] = [*named, *(["more"] if more else [])]
    observed = [_whole(name, expected[index : index + 1]) for index, (name, _) in enumerate(items)]
    rule, place = "request-bodies", f"{where}: Leyden-Ignored"
    if at < len(text) or observed != expected:
        raise ContractViolation("echo", rule, place, expected, text)
    for whole, (name, parameters) in zip(named, items, strict=False):
        meant = parameters.get("did-you-mean")
        same_letters = [one for one in known if one not in ignored and _letters(one) == _letters(name)]
        if whole in slips and KEY in known:
            same_letters = [KEY]
        if (meant is not None and meant not in known) or (same_letters and meant not in same_letters):
            raise ContractViolation("echo", rule, place, f"did-you-mean={same_letters or known}", text)
        fixed = {name: value for name, value in parameters.items() if name not in {"did-you-mean", "unit"}}
        if "unit" in parameters and meant is None:
            raise ContractViolation("echo", rule, place, "unit only with did-you-mean", text)
        if fixed != ({"always": always[whole]} if whole in always else {}) or (fixed and meant is not None):
            raise ContractViolation("echo", rule, place, f"always={always.get(whole)} or did-you-mean", text)
    shown = [_serialised(name, parameters) for name, parameters in items[: len(named)]]
    serialised = ", ".join([*shown, *([f"more;count={more}"] if more else [])])
    if serialised != text:
        raise ContractViolation("echo", rule, place, serialised, text)


def _serialised(name: str, parameters: Mapping[str, str]) -> str:
    return ";".join((_string(name), *(f"{key}={_string(value)}" for key, value in parameters.items())))


def _string(text: str) -> str:
    """A String of RFC 9651 (4.1.6), or a Display String (4.1.11) for a text that is not printable ASCII."""
    if all(" " <= character <= "~" for character in text):
        return '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'
    plain = [chr(byte) if 0x20 <= byte < 0x7F and byte not in b'%"' else f"%{byte:02x}" for byte in text.encode()]
    return f'%"{"".join(plain)}"'


def named_in(text: str) -> list[dict[str, str]]:
    """The names in a `Leyden-Ignored`, with what was probably meant, as the event journal has them."""
    found, at = [], 0
    while at < len(text) and (item := _ITEM.match(text, at)) is not None and item[1] != "more":
        given = {name: _decoded(value) for name, value in _PARAMETER.findall(item[2])}
        meant = {"didYouMean": given.get("did-you-mean"), "unit": given.get("unit"), "always": given.get("always")}
        found.append({"name": _decoded(item[1]), **{name: value for name, value in meant.items() if value is not None}})
        at = item.end()
    return found


def _to_be_named(
    ignored: Sequence[str], known: Sequence[str], always: Mapping[str, str], observed: Sequence[str]
) -> list[str]:
    """At most eight of the names, in the order of the request: first those that are similar to a known name or have a
    fixed value, then those that are `observed` (they may be similar to a known name, too), then the first of the
    others."""
    if len(ignored) <= _MAX_NAMED:
        return [*ignored]
    letters = {_letters(one) for one in known if one not in ignored}

    def rank(at: int) -> int:
        is_observed = any(_whole(name, [ignored[at]]) == ignored[at] for name in observed)
        return 0 if _letters(ignored[at]) in letters or ignored[at] in always else 1 if is_observed else 2

    return [ignored[at] for at in sorted(sorted(range(len(ignored)), key=rank)[:_MAX_NAMED])]


def _letters(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _whole(name: str, expected: Sequence[str]) -> str:
    """The expected name if the observed one is this name, cut off at 40 characters, with three dots at its end."""
    for one in expected:
        if len(one) > _MAX_LENGTH and name == f"{one[: _MAX_LENGTH - 3]}...":
            return one
    return name


def _decoded(text: str) -> str:
    """The value of a String, a Display String, a Token or an Integer of RFC 9651."""
    if text.startswith("%"):
        return unquote(text[2:-1], errors="replace")
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if text.startswith('"') else text
