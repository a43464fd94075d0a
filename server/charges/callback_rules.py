"""Checks that code sends what the document's callbacks promise to a receiver."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from leyden.server.callbacks.deliveries import HEADER_NAMES
from leyden.server.contract.json_pointer import child, contract_error, suggestion
from leyden.server.contract.types import CallbackRule, Contract

# The operations whose callbacks are sent, each about the states of Charges, and the field of their bodies with the URL.
_SENDERS = ("createCharge", "createStaticCharge")
_URL_FIELD = ("callbackUrl",)
_MEDIA_TYPE = "application/json"
_NOTIFY = "notify"


def check_callbacks(contract: Contract, handlers: Mapping[str, Callable[..., Any]]) -> None:
    """Raise `ContractError` for a callback, or a part of one, that no code sends. A callback of an operation that is
    answered with its example is an example too."""
    rules: list[CallbackRule] = []
    for name, operation in contract.operations.items():
        if getattr(handlers[name], "mock", False):
            continue
        for number, rule in enumerate(operation.callbacks):
            at = rule.location.rpartition("/")[0]
            if name not in _SENDERS:
                raise contract_error(at, f"no code sends a callback of {name}; those of {_names()} are sent")
            if number:
                other = operation.callbacks[0].name
                raise contract_error(at, f"one callback of {name} is sent, and {other} is one; leave one of them out")
            _check_rule(contract, rule)
            rules.append(rule)
            if rule.delivery.rotation_ms != rules[0].delivery.rotation_ms:
                raise contract_error(
                    f"{rule.location}/x-delivery/secretRotation",
                    f"one secret signs all callbacks of a project; write the same as in {rules[0].name}",
                )


def _names() -> str:
    return " and ".join(_SENDERS)


def _check_rule(contract: Contract, rule: CallbackRule) -> None:
    at = rule.location
    if rule.url_path != _URL_FIELD:
        given = "/".join(rule.url_path)
        raise contract_error(
            at, f"the URL is read from callbackUrl, not {given}; write '{{$request.body#/callbackUrl}}'"
        )
    if _MEDIA_TYPE not in rule.media_types:
        content = f"{at}/post/requestBody/content"
        raise contract_error(
            child(content, rule.media_types[0]), f"the body is sent as {_MEDIA_TYPE}; declare this media type"
        )
    for index, header in enumerate(rule.headers):
        if header.key not in HEADER_NAMES:
            raise contract_error(
                f"{at}/post/parameters/{index}",
                f"no code sends the header {header.name!r}; leave it out" + suggestion(header.key, HEADER_NAMES),
            )
    table = contract.lifecycle("Charge")
    for state in rule.delivery.events:
        if not any(row.to == state and _NOTIFY in row.effects for row in table.rows):
            raise contract_error(
                child(f"{at}/x-delivery/events", state),
                f"no row of {table.location} that leads to {state!r} has the effect {_NOTIFY}; add it there, or take"
                " the event out",
            )
