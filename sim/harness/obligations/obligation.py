"""One obligation, and the reading of the OpenAPI document that all obligations share."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import quote

from leyden.harness.control.documents import resolved
from leyden.harness.steps import Step
from leyden.world.config import packaged_contract

METHODS = ("get", "post", "patch", "put", "delete", "head", "options")
KEY = ["apikey", "{key}"]
JSON_TYPE = ["Content-Type", "application/json"]


@dataclass(frozen=True, slots=True)
class Obligation:
    """One thing to test: `steps` after the steps of the `setup`, with these overlays.

    `place` says where, such as `createCharge body.amount`, `kind` and `case` which value. `source` is the place in the
    document that declares it, as a JSON pointer, or the list that has it. Without steps it is reported as not tested.
    """

    place: str
    kind: str
    case: str
    source: str
    steps: tuple[Step, ...]
    setup: str = "rows"
    overlays: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """The name of the obligation, which no other has."""
        overlay = f"{'+'.join(self.overlays)}: " if self.overlays else ""
        return f"{overlay}{self.place} {self.kind} {self.case}".rstrip()


class DocumentedOperation(NamedTuple):
    """An operation of the document. `parameters` and the schema of the `body` have no references left."""

    name: str
    method: str
    path: str
    source: str
    secured: bool
    parameters: tuple[Mapping[str, Any], ...]
    body: Mapping[str, Any] | None
    example: Mapping[str, Any]
    document: Mapping[str, Any]


def document_of(overlays: tuple[str, ...] = ()) -> Mapping[str, Any]:
    """The packaged document of the charge service with these overlays."""
    return packaged_contract("charges", overlays).document


@lru_cache(maxsize=16)
def operations_of(overlays: tuple[str, ...] = ()) -> tuple[DocumentedOperation, ...]:
    """The operations of the document, in its order."""
    return tuple(_operations(document_of(overlays)))


def _operations(document: Mapping[str, Any]) -> Iterator[DocumentedOperation]:
    for path, item in document["paths"].items():
        for method in METHODS:
            if method not in item:
                continue
            one = item[method]
            parameters = [
                resolved(document, each) for each in (*item.get("parameters", ()), *one.get("parameters", ()))
            ]
            body, example = None, {}
            if "requestBody" in one:
                media = resolved(document, one["requestBody"])["content"]["application/json"]
                body = resolved(document, media["schema"])
                example = next(iter(resolved(document, each)["value"] for each in media["examples"].values()))
            source = f"#/paths/{path.replace('~', '~0').replace('/', '~1')}/{method}"
            yield DocumentedOperation(
                one["operationId"], method.upper(), path, source, bool(one.get("security")), tuple(parameters), body,
                {name: value for name, value in example.items() if name != "callbackUrl"}, one,
            )  # fmt: skip


# The parts of requests. `{s1}` and the other labels are those of the setup `rows`.

_PARAMETERS = {
    ("getChargeDetails", "id"): "{c1}",
    ("getStaticChargeDetails", "id"): "{s1}",
    ("updateStaticCharge", "id"): "{s1}",
    ("listStaticChargeCharges", "id"): "{s1}",
    ("getPayRequest", "id"): "{s1}",
    ("requestInvoice", "id"): "{s1}",
    ("verifyPayment", "id"): "{s1}",
    ("verifyPayment", "paymentHash"): "{c11.hash}",
    ("getLightningAddress", "user"): "ana",
}


def target_of(one: DocumentedOperation, query: Mapping[str, str] | str = "", **values: str) -> str:
    """The path of an operation with parameters that exist, or with `values`, and a query."""
    path = one.path
    for name in [each["name"] for each in one.parameters if each["in"] == "path"]:
        path = path.replace(f"{{{name}}}", values.get(name) or _PARAMETERS[one.name, name])
    if isinstance(query, Mapping):
        query = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in query.items())
    if one.name == "requestInvoice" and "amount=" not in query:
        query = f"amount=2000&{query}".rstrip("&")
    return f"{path}?{query}" if query else path


def request_of(one: DocumentedOperation, target: str = "", **step: Any) -> Step:
    """A valid request of an operation, changed by the members of `step`."""
    headers = [KEY] if one.secured else []
    made: Any = {"do": "request", "method": one.method, "target": target or target_of(one)}
    if one.body is not None:
        headers = [*headers, JSON_TYPE]
        made["body"] = {} if one.method == "PATCH" else dict(one.example)
        made["as"] = "new"
    if one.name == "requestInvoice":
        made["as"] = "new"
    made = {**made, "headers": headers, **step}
    if "raw" in step:
        made.pop("body", None)
    found: Step = made
    return found


def shown(value: Any) -> str:
    """A value in the name of an obligation."""
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= 48 else f"{text[:30]}...{len(text)}"
