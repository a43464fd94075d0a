"""Checks of refused requests to the control plane: the first mistake of a request decides, and all headers are those
that the documents promise."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from leyden.harness.checks import headers
from leyden.harness.constants import API_KEY
from leyden.harness.control.documents import ControlOperation, control_operations
from leyden.harness.control.host import Host, violation
from leyden.harness.model.http import CHALLENGE
from leyden.harness.steps import StepImpossible
from leyden.harness.targets.target import Headers

# Each mistake in the order of the checks (DECISIONS order-of-checks), with the status and the code of its answer.
MISTAKES: Mapping[str, tuple[int, str]] = {
    "path": (404, "not_found"),
    "method": (405, "method_not_allowed"),
    "options": (204, ""),
    "key": (401, "unauthorized"),
    "content type": (415, "unsupported_media_type"),
    "accept": (406, "not_acceptable"),
    "json": (400, "invalid_request"),
    "query": (400, "invalid_request"),
    "field": (400, "invalid_request"),
}
_METHODS = ("PROPFIND", "PUT", "PATCH", "DELETE", "POST")


def mistakes_of(one: ControlOperation) -> tuple[str, ...]:
    """The mistakes that a request of this operation can have."""
    return tuple(name for name in MISTAKES if name != "content type" or one.has_body)


def check_refused(host: Host, step: Mapping[str, Any]) -> None:
    """Do one step `control_refused`."""
    one = next((each for each in control_operations() if each.name == step["operation"]), None)
    if one is None or not step["mistakes"]:
        raise StepImpossible(step["operation"])
    mistakes = [name for name in MISTAKES if name in step["mistakes"]]
    method, target, sent, body = _request(one, mistakes, step.get("method", one.method))
    response = host.server.send(method, target, sent, body)
    where = f"{method} {target[:80]} with {' and '.join(mistakes)}"
    status, code = MISTAKES[mistakes[0]]
    if response.status != status:
        raise violation(where, f"the status {status}", f"{response.status} {response.body[:200]!r}")
    names: dict[str, str | None] = {}
    if status in {204, 405}:
        names["allow"] = ", ".join(_allowed(one.path))
    if status == 401:
        names["www-authenticate"] = CHALLENGE
    media = None if status == 204 else "application/problem+json"
    headers.complete(response, where, media=media, names=names, omits_body=method == "HEAD")
    if method == "HEAD" or status == 204:
        if response.body:
            raise violation(where, "no body", response.body[:60])
    elif response.json["code"] != code:
        raise violation(where, f"the code {code}", response.json)


def _allowed(path: str) -> list[str]:
    methods = {one.method for one in control_operations() if one.path == path} | {"OPTIONS"}
    return sorted(methods | ({"HEAD"} if "GET" in methods else set()))


def _request(one: ControlOperation, mistakes: list[str], method: str) -> tuple[str, str, Headers, bytes]:
    """A request with these mistakes and no others."""
    body: Any = one.examples[0] if one.examples else {} if one.has_body else None
    if "field" in mistakes:
        body = {**(body or {}), "colour": "blue"}
    text = "" if body is None else json.dumps(body)
    if "json" in mistakes:
        text = f"{text[:-1] or '{'},"
    target = one.example_path
    if "path" in mistakes:
        target = target.replace("/v1", "/v9", 1)
    if "query" in mistakes:
        target += "?colour=blue"
    sent = [("apikey", "nobody" if "key" in mistakes else API_KEY)]
    if text:
        sent.append(("content-type", "text/plain" if "content type" in mistakes else "application/json"))
    if "accept" in mistakes:
        sent.append(("accept", "text/html"))
    if "method" in mistakes:
        method = next(each for each in _METHODS if each not in _allowed(one.path))
    if "options" in mistakes:
        method = "OPTIONS"
    return method, target, tuple(sent), text.encode()
