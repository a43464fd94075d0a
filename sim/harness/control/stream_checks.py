"""Checks of the stream of events: it has each request of the list once, and the state after what happens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from leyden.harness.control.host import Host, violation
from leyden.harness.control.state_checks import do

_EVENTS, _CLOCK = "/sandbox/v1/events", "/sandbox/v1/clock"
_REQUESTS = "listRequests"
_PAUSE_S = 0.15  # more than the tenth of a second within which several changes are one event


def check_stream(host: Host, step: Mapping[str, Any]) -> None:
    """{"do": "control_stream", "options"?, "steps", "count"?: id, "then"}: do the steps, open the stream after the
    request with this number, or with no requests of the past, and do the steps of `then`. Each request since then is
    one event, as the list has it, in the order of the list. The first event `changed` comes after those of the past,
    the last one has the state after the steps. The stream ends when the server stops."""
    for one in step["steps"]:
        do(host, one)
    past = [row["id"] for row in host.rows(_REQUESTS)]
    after = step.get("count")
    stream = host.server.open_stream(_EVENTS, () if after is None else (("Last-Event-ID", f"{after}"),))
    stream.wait(0)
    for one in step["then"]:
        do(host, one)
        stream.wait(_PAUSE_S)
    state = {"now": host.read(_CLOCK)["now"], "journal": len(host.read("/sandbox/v1/journal?limit=1000"))}
    response = stream.end()
    if response is None:
        raise violation(f"GET {_EVENTS}", "an end when the server stops", "a stream that goes on")
    if (response.status, response.headers.get("content-type")) != (200, "text/event-stream"):
        raise violation(f"GET {_EVENTS}", "200 text/event-stream", [response.status, dict(response.headers)])
    events = [_event(text) for text in response.body.decode().split("\n\n") if text and not text.startswith(":")]
    host.forget()
    least = max([0, *past]) if after is None else min(after, max([0, *past]))
    rows = [row for row in reversed(host.rows(_REQUESTS)) if row["id"] > least]
    found = [one["data"] for one in events if one["event"] == "request"]
    if found != rows[: len(found)] or len(found) < len(step["then"]):
        raise violation(f"GET {_EVENTS}: requests", rows, found)
    if [int(one["id"]) for one in events if one["event"] == "request"] != [row["id"] for row in found]:
        raise violation(f"GET {_EVENTS}: ids", [row["id"] for row in found], events)
    changed = [place for place, one in enumerate(events) if one["event"] == "changed"]
    earlier = 0 if after is None else sum(number > after for number in past)
    if not changed or changed[0] != earlier:
        raise violation(f"GET {_EVENTS}", f"`changed` after {earlier} requests of the past", changed)
    last = events[changed[-1]]["data"]
    observed = {name: last[name] for name in state}
    if observed != state or len(changed) > 1 + len(step["then"]):
        raise violation(f"GET {_EVENTS}: changed", [state, f"at most {1 + len(step['then'])} times"], events)


def _event(text: str) -> dict[str, Any]:
    """An event by the names of its lines, with its data as a JSON value."""
    found: dict[str, Any] = dict(line.split(": ", 1) for line in text.split("\n"))
    return {**found, "data": orjson.loads(found["data"])}
