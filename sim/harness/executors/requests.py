"""Executors for requests of any form: the model reads the request as the service must, and decides the answer."""

from __future__ import annotations

import re
from typing import Any

from leyden.harness.checks.violations import ContractViolation
from leyden.harness.executors.projects import project_of
from leyden.harness.model.http import SentRequest
from leyden.harness.model.records import Charge
from leyden.harness.session.answers import send
from leyden.harness.session.session import Session, encoded
from leyden.harness.steps import Step, StepImpossible
from leyden.harness.targets.target import PROJECT, SECOND_PROJECT

_PLACEHOLDER = re.compile(r"\{(\w+)(?:\.(\w+))?\}")
_PAGES = 1_100


def request(session: Session, step: Step) -> None:
    """{"do": "request", "method": "GET", "target": "/v0/charges/{c1}", "headers"?, "body"? | "raw"?, "as"?}.

    In the target and the headers `{key}` and `{second}` are the API keys of the projects, `{spare}` the key that
    `spare_key` has created, `{c1}` the id of a resource, `{c1.hash}` a payment hash, `{c1.internalId}` a member,
    `{next}` the cursor of the last page.
    """
    send(session, _sent(session, step))


def pages(session: Session, step: Step) -> None:
    """{"do": "pages", "target": "/v0/charges?limit=2", "headers", "steps"?: [step, ...]}: every page of a list.
    The steps are done after the first page."""
    first = _sent(session, step)
    sent = first
    for number in range(_PAGES):
        response = send(session, sent)
        if number == 0:
            for one in step.get("steps", ()):
                session.do_within(one)
        following = response.json.get("next") if response.status == 200 else None
        if following is None:
            return
        sent = first._replace(target=f"{first.target}{'&' if '?' in first.target else '?'}after={following}")
    raise ContractViolation("lifecycle", "lists", first.target, "an end of the list", f"{_PAGES} pages")


def fill(session: Session, step: Step) -> None:
    """{"do": "fill", "of": "charges" | "statics" | "children", "count": 1000, "as": "x", "static"?, "by"?, "body"?,
    "idempotency_key"?}: create rows, which are compared in the lists, with the members of `body`, each with a key of
    its own if one is given; of "changes": change a
    Static Charge as often, or in turn each of those that a fill with its label has created."""
    of, label = step["of"], step["as"]
    amounts = {"minAmount": "1000", "maxAmount": "2000"} if of == "statics" else {"amount": "1000"}
    path = "/v0/static-charges" if of == "statics" else "/v0/charges"
    key = session.target.keys[project_of(session, step)]
    typed = [("apikey", key), ("Content-Type", "application/json")]
    statics, name = session.model.ledger.static_charges, step.get("static", "")
    changed = (
        [statics[name]] if name in statics else [each for key, each in statics.items() if key.startswith(f"{name}_")]
    )
    if of == "changes" and not changed:
        raise StepImpossible(f"no Static Charge has the label {name}")
    for number in range(step["count"]):
        if of == "children":
            static = session.static(step["static"])
            sent = SentRequest("GET", f"/lnurlp/{static.id}/invoice?amount=1000", (), b"", f"{label}_{number}")
        elif of == "changes":
            static = changed[number % len(changed)]
            body = encoded({"internalId": f"{label} {number}"})
            sent = SentRequest("PATCH", f"/v0/static-charges/{static.id}", typed, body, "")
        else:
            body = encoded({**amounts, "description": f"{number}", **step.get("body", {})})
            keyed = [("Idempotency-Key", f"{step['idempotency_key']}-{number}")] if "idempotency_key" in step else []
            sent = SentRequest("POST", path, [*typed, *keyed], body, f"{label}_{number}")
        send(session, sent)
    session.model.changed.clear()


def _sent(session: Session, step: Step) -> SentRequest:
    def filled(text: str) -> str:
        return _PLACEHOLDER.sub(lambda found: _value(session, found[1], found[2]), text)

    body = step["raw"].encode("latin-1") if "raw" in step else encoded(step.get("body"))
    named = [(name, filled(value)) for name, value in step.get("headers", ())]
    method = step.get("method", "GET")
    if session.target.network:
        # Blanks around a value are not part of it (RFC 9110, 5.5), and the client writes methods in capitals.
        named = [(name, value.strip(" \t")) for name, value in named]
        method = method.upper()
    return SentRequest(method, filled(step["target"]), named, body, step.get("as", ""))


def _value(session: Session, label: str, member: str | None) -> str:
    keys = session.target.keys
    if label == "key":
        return keys[PROJECT]
    if label == "second":
        if not session.target.shared:
            raise StepImpossible("the target has one project")
        return keys[SECOND_PROJECT]
    if label == "spare":
        valid = [key for key, is_valid in session.spare_keys.items() if is_valid]
        if not valid:
            raise StepImpossible("no second API key was created")
        return valid[-1]
    if label == "next":
        if session.cursor is None:
            raise StepImpossible("no page has another one after it")
        return session.cursor
    resource = session.resource(label)
    value: Any = resource.id if member is None else resource.resource().get(member)
    if member == "hash" and isinstance(resource, Charge):
        value = resource.payment_hash
    if value is None:
        raise StepImpossible(f"{label} has no {member or 'id'}")
    return str(value)
