"""Rows of the request log as the control plane shows them: decoded and masked when they are read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote_to_bytes

from leyden.devserver.console.console import DEFAULT_KEY
from leyden.devserver.request_log.masking import Mask
from leyden.devserver.request_log.operation_index import OperationIndex
from leyden.server.contract.types import Operation
from leyden.server.system.clock import time_ms_of
from leyden.server.timestamps import to_iso
from leyden.world.components import CONTROL_PATH
from leyden.world.ports import Slices
from leyden.world.request_log import LoggedRequest
from leyden.world.world import World

SERVICE, CONTROL, LNURL = "service", "control", "lnurl"

_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_IS_UUID = re.compile(_UUID)
_CREATED = re.compile(rf'"id":"({_UUID})"'.encode())
_REQUEST_ID = re.compile(rb'"request_id":"([^"\\]+)"\}$')
_CHARGE = re.compile(rf'"chargeId":\s*"({_UUID})"'.encode())
_HASH = re.compile(rb'"paymentHash":"([0-9a-f]{64})"|/verify/([0-9a-f]{64})"')
# Operations whose path has another id than that of a Charge; the response, or else the body, may name the Charge.
_NAMES_CHARGE = frozenset({"getDelivery", "replayDelivery", "addFault"})
_NAMES_HASH = frozenset({"createPayment", "getPayment", "settlePayment", "cancelPayment", "requestInvoice"})
_CREATES = frozenset({"createCharge", "createStaticCharge"})
_OF_CHARGE = re.compile(r".*/(static-)?charges/\{id\}|/lnurlp/\{id\}")


def mask_of(world: World) -> Mask:
    """The mask for what is shown now of this world: with its keys and secrets, and every key of its server."""
    return Mask(*_keys_and_secrets(world), world.service.pipeline.api_key_header.decode(), {DEFAULT_KEY})


def _keys_and_secrets(world: World) -> tuple[list[str], list[str]]:
    projects = world.service.projects
    keys = [row["id"] for row in projects.key_rows()]
    secrets = [secret["secret"] for row in projects.projects for secret in row["webhook_secrets"]]
    return [*keys, *(() if world.server is None else world.server.secret_texts)], secrets


class RequestRows:
    """Shows the rows of one world's request log."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._mask: Mask | None = None
        self._masked: tuple[list[str], list[str]] = ([], [])
        config = world.config
        contracts = [config.contract] if config.control is None else [config.contract, config.control()]
        self._operations = OperationIndex(contracts)
        self.operation_ids = sorted({name for contract in contracts for name in contract.operations})
        self._lnurl = tuple(
            {
                operation.path.partition("{")[0]
                for operation in config.contract.operations.values()
                if operation.errors_as == "lnurl"
            }
        )

    def mask(self) -> Mask:
        """The mask for what is shown now: with every key and secret of the sandbox, and every key of its server."""
        masked = _keys_and_secrets(self.world)
        if self._mask is None or self._masked != masked:
            self._mask, self._masked = mask_of(self.world), masked
        return self._mask

    def summary(self, row: LoggedRequest, mask: Mask) -> dict[str, Any]:
        """A row of the list."""
        operation, charge_id = self._facts(row)
        return {
            "id": row.doc_id,
            "at": to_iso(row.at_ms),
            "receivedAt": to_iso(time_ms_of(row.started_ns)),
            "method": row.method,
            "path": mask.target(_target(row)),
            "operation": operation,
            "source": self.source(row),
            "status": row.status,
            "requestId": _request_id(row),
            "durationMicroseconds": (row.ended_ns - row.started_ns) // 1_000,
            "chargeId": charge_id,
            "serviceFault": None if row.fault is None else dict(zip(("id", "kind", "applied"), row.fault, strict=True)),
            "client": None if row.client is None else mask.text(row.client.decode("latin-1")),
        }

    async def details(self, row: LoggedRequest, mask: Mask, slices: Slices) -> dict[str, Any]:
        """A row with the headers and bodies of the request and of the response. Other requests are answered while they
        are masked."""
        length = _content_length(row.request_headers, row.request_size)
        response = {
            **await _part(row.response_headers, row.response_body, row.response_size, mask, slices),
            "complete": row.is_complete,
        }
        return {
            **self.summary(row, mask),
            "request": await _part(row.request_headers, row.request_body, length, mask, slices),
            "response": None if row.status is None else response,
        }

    def operation(self, row: LoggedRequest) -> str | None:
        """The operationId of what the request was for."""
        return self._facts(row)[0]

    def source(self, row: LoggedRequest) -> str:
        """The interface of the request."""
        if row.path.startswith(CONTROL_PATH):
            return CONTROL
        return LNURL if row.path.startswith(self._lnurl) else SERVICE

    def matches(self, row: LoggedRequest, wanted: Mapping[str, Any]) -> bool:
        """Whether the row matches all of the filters of a list."""
        client, text = wanted.get("client"), wanted.get("text")
        if client is not None and row.client != client.encode("latin-1", "replace"):
            return False
        if wanted.get("method") not in (None, row.method) or not _has_status(row, wanted.get("status")):
            return False
        if wanted.get("source") not in (None, self.source(row)):
            return False
        if "operation" in wanted or "chargeId" in wanted:
            operation, charge_id = self._facts(row)
            if wanted.get("operation") not in (None, operation):
                return False
            if wanted.get("chargeId") not in (None, charge_id, self._static_of(charge_id)):
                return False
        return text is None or _has_text(row, text.lower())

    def _facts(self, row: LoggedRequest) -> tuple[str | None, str | None]:
        operation, parameters = self._operations.find(row.method, row.path)
        charge_id = None if operation is None else self._charge_id(row, operation, parameters)
        return None if operation is None else operation.operation_id, charge_id

    def _charge_id(self, row: LoggedRequest, operation: Operation, parameters: Mapping[str, str]) -> str | None:
        name, service = operation.operation_id, self.world.service
        status, body = row.status, row.response_body
        if row.service_body is not None:  # what the service did counts, not what the client learned of it
            status, body = row.service_status, row.service_body
        if name in _NAMES_HASH:
            found = _HASH.search(body)
            charge_id = None if found is None else self._of_hash((found[1] or found[2]).decode())
            if charge_id is not None:
                return charge_id
        if "paymentHash" in parameters:
            return self._of_hash(parameters["paymentHash"])
        if _OF_CHARGE.match(operation.path):
            return parameters["id"] if _IS_UUID.fullmatch(parameters["id"]) else None
        if name in _CREATES:
            created = _CREATED.search(body)
            return None if created is None or status not in (200, 201) else created[1].decode()
        if name in _NAMES_CHARGE:
            named = _CHARGE.search(body) or _CHARGE.search(row.request_body)
            return None if named is None else named[1].decode()
        if "user" in parameters:
            static = service.static_charges.by_user(parameters["user"])
            return None if static is None else static["id"]
        return None

    def _of_hash(self, payment_hash: str) -> str | None:
        charge = self.world.service.charges.charges.first("payment_hash", payment_hash)
        return None if charge is None else charge["id"]

    def _static_of(self, charge_id: str | None) -> str | None:
        """The Static Charge of a Charge."""
        charge = None if charge_id is None else self.world.service.charges.charges.row(charge_id)
        return None if charge is None else charge["static_charge_id"]


def _request_id(row: LoggedRequest) -> str | None:
    """The `request_id` of the problem with which the request was answered; None for another answer."""
    found = _REQUEST_ID.search(row.response_body)
    if found is None and row.service_body is not None:
        found = _REQUEST_ID.search(row.service_body)
    return None if found is None else found[1].decode("ascii", "replace")


def _target(row: LoggedRequest) -> str:
    """The path below the sandbox's URL and the query, as they were sent."""
    raw = row.raw_path or row.path.encode("latin-1", "replace")
    if unquote_to_bytes(raw) != row.path.encode("utf-8", "surrogateescape"):
        raw = b"/" + raw.split(b"/", 3)[-1]  # /sandboxes/{id}
    return (raw + b"?" + row.query if row.query else raw).decode("latin-1")


async def _part(
    headers: Sequence[tuple[bytes, bytes]], body: bytes, length: int, mask: Mask, slices: Slices
) -> dict[str, Any]:
    shown = []
    for name, value in headers:
        text = name.decode("latin-1")
        shown.append([mask.text(text), mask.header(text, value.decode("latin-1"))])
        if slices.is_over():
            await slices.pause()
    return {
        "headers": shown,
        "body": mask.body(bytes(body).decode("utf-8", "backslashreplace")),
        "size": length,
        "truncated": len(body) < length,
    }


def _content_length(headers: Sequence[tuple[bytes, bytes]], read: int) -> int:
    """The length of a request's body: that which it names, if not all of it was read."""
    named = next((value for name, value in headers if name == b"content-length"), b"")
    return max(read, int(named)) if named.isdigit() and len(named) < 16 else read


def _has_status(row: LoggedRequest, wanted: str | None) -> bool:
    if wanted is None:
        return True
    if wanted == "none" or row.status is None:
        return wanted == "none" and row.status is None
    return wanted in (str(row.status), f"{row.status // 100}xx")


def _has_text(row: LoggedRequest, text: str) -> bool:
    sought = text.encode()
    parts = (row.raw_path, row.query, row.request_body, row.response_body)
    return any(sought in bytes(part).lower() for part in parts) or text in row.path.lower()
