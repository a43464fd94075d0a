"""Compiles callbacks: the URL, the body and the delivery rules (`x-delivery`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from leyden.server.contract.json_pointer import child, contract_error, quoted, split_pointer, suggestion
from leyden.server.contract.json_schema.schemas import Schemas, properties
from leyden.server.contract.parameters import compile_parameter
from leyden.server.contract.types import ANY_SUCCESS, CallbackRule, DeliveryRule, Parameter
from leyden.server.timestamps import bounded_duration

_EXPRESSION = re.compile(r"\{\$request\.body#(/[^{}]+)\}")
_EVENT_HEADER = "leyden-event"
_LONGEST_DAYS = 366  # of a duration in x-delivery, so that every instant has a year of four digits


def compile_callback(
    name: str,
    expression: str,
    item: Mapping[str, Any],
    operation_id: str,
    request: Mapping[str, Any] | None,
    states: Iterable[str],
    schemas: Schemas,
    location: str,
) -> CallbackRule:
    """The rule of one callback. `request` is the operation's written-out body schema; `states` are those of every
    lifecycle in the document. Raises `ContractError` naming the location and the correction.
    """
    post = item["post"]
    if post.get("security"):
        raise contract_error(
            f"{location}/post/security", "a callback carries a signature and no key; write security: []"
        )
    content = schemas.resolve(post["requestBody"])["content"]
    schema = json_schema(content, f"{location}/post/requestBody")
    rule = schemas.rule(schema, f"{child(f'{location}/post/requestBody/content', next(iter(content)))}/schema")
    received = _received(post["responses"], f"{location}/post/responses")
    delivery = _delivery(item["x-delivery"], received, f"{location}/x-delivery")
    _check_events(delivery, states, post, schemas, location)
    return CallbackRule(
        name=name,
        operation_id=operation_id,
        url_path=_url_at(expression, request, location),
        rule=rule,
        headers=_headers(post, schemas, f"{location}/post/parameters"),
        delivery=delivery,
        media_types=tuple(content),
        location=location,
    )


def _headers(post: Mapping[str, Any], schemas: Schemas, location: str) -> tuple[Parameter, ...]:
    found: list[Parameter] = []
    for index, reference in enumerate(post.get("parameters", ())):
        at = f"{location}/{index}"
        node = schemas.resolve(reference)
        if node["in"] != "header":
            raise contract_error(at, f"{node['name']!r} must be in: header; a callback has no other")
        parameter = compile_parameter(node, schemas, at)
        if any(parameter.key == other.key for other in found):
            raise contract_error(at, f"the header {parameter.name!r} is declared twice; leave one of them out")
        found.append(parameter)
    return tuple(found)


def _received(responses: Mapping[str, Any], location: str) -> frozenset[int]:
    """The statuses of the receiver that end a delivery as received: the 2xx that are declared.

    Raises `ContractError` for a key that is no status, and where 410, which always ends the deliveries to a URL, or
    every 2xx is left out.
    """
    received: set[int] = set()
    for text in responses:
        status = text.upper()
        if status == "2XX":
            received |= ANY_SUCCESS
        elif re.fullmatch("2[0-9]{2}", status):
            received.add(int(status))
        elif status != "DEFAULT" and not re.fullmatch("[3-5](?:[0-9]{2}|XX)", status):
            raise contract_error(
                child(location, text), "is not the status of a final response; write 2XX, 410 or default"
            )
    if not received:
        raise contract_error(location, "no status counts as received; declare '2XX', or each one that does")
    if "410" not in responses:
        raise contract_error(location, "'410' is missing; declare it: it ends all callbacks of a resource to its URL")
    return frozenset(received)


def json_schema(content: Mapping[str, Any], location: str) -> dict[str, Any]:
    """The one schema of a body's media types. Raises `ContractError` unless they are JSON and agree."""
    if not content:
        raise contract_error(f"{location}/content", "names no media type; add application/json, or leave content out")
    for media_type in content:
        if not is_json(media_type):
            raise contract_error(
                child(f"{location}/content", media_type), "only JSON is read and written; use application/json"
            )
    first: dict[str, Any]
    first, *others = (media["schema"] for media in content.values())
    if any(other != first for other in others):
        raise contract_error(f"{location}/content", "the media types have different schemas; give them one")
    return first


def is_json(media_type: str) -> bool:
    """Whether a declared media type is JSON (RFC 6839 for the suffix)."""
    return re.fullmatch(r"application/(?:json|[A-Za-z0-9.-]+\+json)", media_type) is not None


def _url_at(expression: str, request: Mapping[str, Any] | None, location: str) -> tuple[str, ...]:
    found = _EXPRESSION.fullmatch(expression)
    if found is None:
        raise contract_error(
            location, "the expression must be '{$request.body#/...}': where the request's body holds the URL"
        )
    path = tuple(split_pointer(found[1]))
    held: list[Mapping[str, Any]] = [request] if request is not None else []
    for name in path:
        known = {key: parts for schema in held for key, parts in properties(schema).items()}
        if name not in known:
            raise contract_error(location, f"the request body declares no property {name!r}" + suggestion(name, known))
        held = known[name]
    return path


def _check_events(
    delivery: DeliveryRule,
    states: Iterable[str],
    post: Mapping[str, Any],
    schemas: Schemas,
    location: str,
) -> None:
    """Each event belongs to a state, and the body and the header `leyden-event` can have its state and its name. Of a
    state that the body has and no table, the service says that its table or its row is missing."""
    body = schemas.resolve(post["requestBody"])
    media_type, media = next(iter(body["content"].items()))
    at = child(f"{schemas.place(post['requestBody'], f'{location}/post/requestBody')}/content", media_type) + "/schema"
    envelope = delivery.form == "envelope"
    status = ("data", "status") if envelope else ("status",)
    carriers: list[tuple[Any, tuple[str, ...], str]] = [(media["schema"], ("type",), at)] if envelope else []
    for index, reference in enumerate(post.get("parameters", ())):
        parameter = schemas.resolve(reference)
        if parameter["name"].lower() == _EVENT_HEADER:
            where = schemas.place(reference, f"{location}/post/parameters/{index}")
            carriers.append((parameter["schema"], (), f"{where}/schema"))
    reported = {state: schemas.excluded_at(media["schema"], status, state, at) for state in states}
    for state, event in delivery.events.items():
        problem = f"{state!r} is a state that this callback cannot report"
        place = reported.get(state) or schemas.excluded_at(media["schema"], status, state, at)
        if state not in reported and place is not None:
            known = [one for one, place in reported.items() if place is None]
            raise contract_error(f"{location}/x-delivery/events", problem + suggestion(state, known))
        checks = [(state, problem, place)]
        for schema, path, carried_at in carriers:
            place = schemas.excluded_at(schema, path, event, carried_at)
            checks.append((event, f"{event!r} is an event that this callback cannot name", place))
        for value, text, place in checks:
            if place is not None:
                raise contract_error(
                    f"{location}/x-delivery/events",
                    f"{text}: {place} does not allow it; add {value!r} there, or take it out of the events",
                )


def _delivery(value: Mapping[str, Any], received: frozenset[int], location: str) -> DeliveryRule:
    """The delivery rule; `extensions.schema.json` has checked the forms and bounds."""
    return DeliveryRule(
        events=dict(value["events"]),
        form=value["form"],
        delays_ms=tuple(
            _span_ms(delay, f"{location}/attempts/{index}") for index, delay in enumerate(value["attempts"])
        ),
        jitter=value["jitter"],
        retry_after_times=value["retryAfterTimes"],
        connect_timeout_ms=_timeout(value, "connectTimeout", location),
        timeout_ms=_timeout(value, "timeout", location),
        in_flight=int(value["inFlight"]),
        rotation_ms=_span_ms(value["secretRotation"], f"{location}/secretRotation"),
        received=received,
    )


def _timeout(value: Mapping[str, Any], key: str, location: str) -> int:
    span_ms = _span_ms(value[key], f"{location}/{key}")
    if span_ms < 1:
        raise contract_error(f"{location}/{key}", f"{quoted(value[key])} is too short; it must be at least 1ms")
    return span_ms


def _span_ms(value: Any, location: str) -> int:
    try:
        return bounded_duration(value, 0, _LONGEST_DAYS * 86_400_000, f"must be at most {_LONGEST_DAYS}d")
    except ValueError as error:
        raise contract_error(location, f"{quoted(value)}: {error}") from None
