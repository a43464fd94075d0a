"""Checks of a request that is repeated with its Idempotency-Key: there is one resource of it, or after a reset a new
one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leyden.harness.control.filters import CHARGES, STATICS
from leyden.harness.control.host import Host, violation
from leyden.harness.control.state_checks import COPY, do

REPEATED = ("same", "new", "another", "refused")
_CONFLICT = 409


def check_repeated(host: Host, step: Mapping[str, Any]) -> None:
    """{"do": "control_repeated", "steps", "refused": [request], "check": one of `REPEATED`, "how"?: "fork"}: do
    the steps, of which one is the request, copy the sandbox, and send the request again. Its answer is about the
    resource that there was before, or about a new one where none is left, or about another one beside those that there
    were; and there is one of it. With "refused" the answer is 409, and there is no more than before."""
    for one in step["steps"]:
        do(host, one)
    if "how" in step:
        host = COPY[step["how"]](host)
    before = _ids(host)
    [again] = step["refused"]
    host.answers.pop(again["as"], None)
    if step["check"] == "refused":
        refused: Any = {**again, "status": _CONFLICT}
        do(host, refused)
        if _ids(host) != before:
            raise violation(f"{again['method']} {again['target']} refused with its key", before, _ids(host))
        return
    do(host, again)
    [answer] = host.answers[again["as"]]
    host.forget()
    after = _ids(host)
    where = f"{again['method']} {again['target']} again with its key"
    found = answer["data"]["id"]
    if step["check"] == "same":
        if before != after or before != [found]:
            raise violation(where, f"the first resource, {before}", [found, after])
    elif step["check"] == "another":
        if found in before or sorted(after) != sorted([*before, found]):
            raise violation(where, f"another resource beside {before}", [found, after])
    elif before or after != [found]:
        raise violation(where, "a new resource, because none is left", [found, before, after])


def _ids(host: Host) -> list[str]:
    return [row["id"] for name in (CHARGES, STATICS) for row in host.rows(name)]
