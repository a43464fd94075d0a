"""Checks of a directory at a start: which API keys open it after they were replaced, and a journal whose last line was
cut off by a kill."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from leyden.harness.constants import API_KEY
from leyden.harness.control.host import Host, violation
from leyden.harness.control.state_checks import compare, compare_values, do
from leyden.harness.targets.hosted import ENDS

_KEYS = "/sandbox/v1/api-keys"
# Where the last line is cut: parts of it from its start, characters from its start and from its end.
_PARTS, _FIRST, _LAST = (0.25, 0.5, 0.75), (1, 2, 9, 12, 13, 14), (1, 2, 3)
CUTS = (*(f"part {part}" for part in _PARTS), *(f"first {count}" for count in _FIRST),
        *(f"without {count}" for count in _LAST), "within a character")  # fmt: skip
_CONFLICT = 409


def check_keys(host: Host, step: Mapping[str, Any]) -> None:
    """{"do": "control_keys", "options"?, "steps": [step, ...]}: create and replace API keys, each by a key that is
    valid then, and restart the server, which gets the first key again or the one of the step; after each step every key
    that was replaced is refused and every other one opens the same project."""
    valid = {API_KEY: True}
    charge = host.accepted("POST", "/v0/charges", {"amount": "3000", "description": "whose"})["data"]["id"]
    for number, one in enumerate(step["steps"]):
        where = f"after step {number + 1}"
        if one["do"] == "restart":
            host.server.restart(one["how"], key=one.get("as", API_KEY))
            host.forget()
        else:
            body = host.filled(one.get("body", {}))
            new = host.accepted("POST", one["target"], body)["key"]
            if "replaces" in body:
                valid[body["replaces"]] = False
            valid[new] = True
            host.with_key(next(key for key in reversed(valid) if valid[key]))
        for key, is_valid in valid.items():
            for path in ("/v0/wallet", f"/v0/charges/{charge}", "/sandbox/v1"):
                status = host.server.ask("GET", path, key=key).status
                if status != (200 if is_valid else 401):
                    raise violation(f"GET {path} with {key} {where}", 200 if is_valid else 401, status)
            response = host.ask("POST", _KEYS, {"key": key})
            if response.status != _CONFLICT:
                raise violation(f"POST {_KEYS} with {key}, which was issued, {where}", _CONFLICT, response.status)


def check_cut(make: Callable[[bool], Host], step: Mapping[str, Any]) -> None:
    """{"do": "control_cut", "kind": one of `CUTS`, "options"?, "steps", "then"}: do the steps at two servers. One of
    them is killed while it writes a line, of which a part is in its journal. It is as the other one when it starts
    again, and after the steps of `then`, each of which is accepted, also after further starts."""
    reference, other = make(False), make(True)
    for one in step["steps"]:
        do(reference, one)
        do(other, one)
    other.server.restart("torn", torn=_cut(other.server.last_line, step["kind"]))
    other.forget()
    where = f"after a kill within a line ({step['kind']})"
    for number, one in enumerate(step["then"]):
        do(reference, one)
        do(other, one)
        if number in (0, len(step["then"]) - 1):
            other.server.restart("kill")
            other.forget()
    compare_values(reference.answers, other.answers, ENDS[0], f"the answers {where}")
    compare(reference, other, ENDS[0], f"{where}, and other changes and starts", filtered=False)


def _cut(line: bytes, kind: str) -> bytes:
    how, _, number = kind.partition(" ")
    if how == "part":
        return line[: int(len(line) * float(number))]
    if how == "first":
        return line[: int(number)]
    if how == "without":
        return line[: -int(number)]
    return line[: next((at for at, byte in enumerate(line) if byte >= 0xF0), len(line) - 4) + 2]
