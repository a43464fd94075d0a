"""HTTP requests: which answer any request must get, from its method, target, headers and bytes.

Written from the documents and the entries [statuses], [lists], [lnurl-pay], [idempotency] and [request-bodies] of
DECISIONS.md. A request passes the checks in this order: size, path, method, API key, rate limit, media type, Accept,
JSON, path parameters, query and headers, body.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote

from leyden.harness.model.dates import instant_of
from leyden.harness.model.ignored import (
    BODIES,
    QUERY,
    STATES,
    fixed_values,
    ignored_names,
    known_names,
    slips_of,
    unused_key,
)
from leyden.harness.model.json_texts import parse_json
from leyden.harness.model.model import ExpectedResponse, Model
from leyden.harness.model.records import Charge, StaticCharge
from leyden.harness.model.requests import JSON_TYPE, OPERATIONS, Operation
from leyden.harness.model.rules import BODY_LIMIT, MAX_INTERNAL_ID, is_idempotency_key, pointer

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_LIMIT = re.compile(r"-?[0-9]{1,18}")
_CURSOR, _STATIC_CURSOR = re.compile(r"000[01][0-9a-f]{12}"), re.compile(r"000[02][0-9a-f]{12}")
_PARAMETER = re.compile(r';\s*([^\s;="]+)\s*=\s*("(?:[^"\\]|\\.)*"|[^;]*)', re.ASCII)
_QUOTED = re.compile(r'"(.*)"', re.DOTALL)
MAX_PAGE, DEFAULT_PAGE = 1_000, 100  # [lists]
LIMITED = "too_many_requests"
CHALLENGE = 'ApiKey header="apikey"'  # of a 401 [statuses]
MAX_ERRORS = 20  # names of fields
_WHOLE_BODY = frozenset({""})


Resource = Charge | StaticCharge


class SentRequest(NamedTuple):
    """A request as it is sent; `label` is that of what it creates."""

    method: str
    target: str
    headers: Sequence[tuple[str, str]]
    body: bytes
    label: str = ""

    def header(self, name: str) -> str | None:
        """The value of a header; repeated ones are joined with a comma (RFC 9110, 5.3), and blanks around each are no
        part of it (5.5). None if it is absent."""
        values = [value.strip(" \t") for one, value in self.headers if one.lower() == name]
        return ", ".join(values) if values else None


@dataclass(slots=True)
class ExpectedAnswer:
    """The answer that a request must get.

    `operation` is empty without one. `pointers` are the places that an error names.
    `allow` is the header of a 204 or 405. `cors`: any origin may read it [lnurl-pay]. `ignored` are the names in
    `Leyden-Ignored`, `unused` the known names that the request does not have, one of which may be meant, `always` the
    fixed values of ignored names, `slips` the headers that mean Idempotency-Key. `value` is what a 200 shows: an
    `ExpectedResponse`, a resource, a `Page`, a balance, a `WalletAnswer`.
    """

    status: int
    code: str = ""
    operation: str = ""
    pointers: frozenset[str] = frozenset()
    allow: tuple[str, ...] = ()
    cors: bool = False
    ignored: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    always: Mapping[str, str] = field(default_factory=dict)
    slips: tuple[str, ...] = ()
    value: Any = None


class Page(NamedTuple):
    """One page of a list, newest first, whether there is another, and whether it comes after a cursor."""

    rows: list[Resource]
    more: bool
    after: bool


class WalletAnswer(NamedTuple):
    """The expected answer to a wallet: `charge` is a new invoice, `verified` the Charge of a payment hash. `static`
    None: ERROR."""

    static: StaticCharge | None = None
    charge: Charge | None = None
    verified: Charge | None = None


class HttpModel:
    """Answers of the model to requests. `projects` has the project of each valid API key, `by_id` each resource,
    `cursors` the last row of the page that each cursor came with."""

    def __init__(
        self,
        model: Model,
        projects: Mapping[str, str],
        by_id: Callable[[str], Resource | None],
        cursors: Mapping[tuple[type, str], Resource],
    ) -> None:
        self._model = model
        self._projects = projects
        self._by_id = by_id
        self._cursors = cursors

    def answer(self, request: SentRequest) -> ExpectedAnswer:
        """The answer to a request, which the model does."""
        raw_path, _, query = request.target.partition("?")
        path = unquote(raw_path)
        if len(request.body) > BODY_LIMIT:
            return ExpectedAnswer(413, "payload_too_large")
        matches = [
            (one, parameters) for one in OPERATIONS.values() if (parameters := match_path(one, path)) is not None
        ]
        if not matches:
            return ExpectedAnswer(404, "not_found")
        answer = self._at_path(matches, query, request)
        answer.cors = any(one.wallet for one, _ in matches)
        return answer

    def _at_path(
        self, matches: Sequence[tuple[Operation, dict[str, str]]], query: str, request: SentRequest
    ) -> ExpectedAnswer:
        allow = allowed_methods([one for one, _ in matches])
        method = "GET" if request.method == "HEAD" else request.method
        found = next(((one, parameters) for one, parameters in matches if one.method == method), None)
        if found is None:
            if request.method == "OPTIONS":
                return ExpectedAnswer(204, allow=allow)
            return ExpectedAnswer(405, "method_not_allowed", allow=allow)
        answer = self._operation(*found, query, request)
        answer.operation = found[0].name
        if answer.status >= 400 and found[0].wallet and answer.status not in {406, 413}:
            return replace(answer, status=200, value=WalletAnswer())
        return answer

    def _operation(
        self, one: Operation, parameters: Mapping[str, str], query: str, request: SentRequest
    ) -> ExpectedAnswer:
        project = ""
        if one.secured:
            known = self._projects.get(request.header("apikey") or "")
            if known is None:
                return ExpectedAnswer(401, "unauthorized")
            project = known
        if self._model.limited(one.name) is not None:
            return ExpectedAnswer(429, LIMITED)
        if one.has_body and not is_json_type(request.header("content-type") or ""):
            return ExpectedAnswer(415, "unsupported_media_type")
        accept = request.header("accept")
        if accept and not accepts_json(accept):
            return ExpectedAnswer(406, "not_acceptable")
        strict = self._is_strict(one)
        body = parse_json(request.body) if request.body.strip() else None
        if one.has_body and not isinstance(body, dict):
            return ExpectedAnswer(400, "invalid_request", pointers=_WHOLE_BODY)
        if not one.has_body and strict and request.body.strip() and body != {}:
            names = [*body][:MAX_ERRORS] if isinstance(body, dict) else ()
            pointers = frozenset(pointer(name) for name in names)
            return ExpectedAnswer(400, "invalid_request", pointers=pointers or _WHOLE_BODY)
        if one.secured and "id" in parameters and not _UUID.fullmatch(parameters["id"]):
            return ExpectedAnswer(404, "not_found")
        fields: dict[str, Any] = body if isinstance(body, dict) else {}
        return self._checked(one, parameters, query, request, fields, project)

    def _checked(
        self, one: Operation, parameters: Mapping[str, str], query: str, request: SentRequest, fields: dict[str, Any],
        project: str,
    ) -> ExpectedAnswer:  # fmt: skip
        values, pointers, unknown = self._query(one, query)
        key = request.header("idempotency-key")
        if key is not None and one.method == "POST" and not is_idempotency_key(key):
            pointers.append("header.idempotency-key")
        headers = [name for name, _ in request.headers]
        ignored = (*unknown, *ignored_names(one, fields, self._is_strict(one), headers))
        unused = (
            *(name for name in known_names(one) if name not in values and name not in fields),
            *unused_key(one, headers),
        )
        if pointers:
            answer = ExpectedAnswer(400, "invalid_request", pointers=frozenset(pointers))
        else:
            answer = self._done(one, parameters, values, fields, key, project, request.label)
        answer.ignored, answer.unused = ignored, unused
        answer.always, answer.slips = fixed_values(one, fields), slips_of(one, headers)
        return answer

    def _is_strict(self, one: Operation) -> bool:
        """Whether unknown fields are refused; wallets may send what they like [lnurl-pay]."""
        return self._model.interpretation.strict and not one.wallet

    def _query(self, one: Operation, query: str) -> tuple[dict[str, str], list[str], list[str]]:
        """The declared parameters, the places of errors, and the names that a wallet's operation ignores."""
        values: dict[str, str] = {}
        pointers: list[str] = []
        unknown: dict[str, None] = {}
        known = QUERY.get(one.name, ())
        try:
            pairs = parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=100)
        except ValueError:
            return {}, [] if one.wallet and not known else ["query"], []
        for name, text in pairs:
            if name in known and name not in values:
                values[name] = text
            elif name not in known and one.wallet:
                unknown[name] = None
            else:
                pointers.append(f"query.{name[:60]}")
        if one.name in STATES:
            pointers += [f"query.{name}" for name, text in values.items() if not _is_valid_filter(one.name, name, text)]
        return values, pointers, [*unknown]

    def _done(
        self, one: Operation, parameters: Mapping[str, str], values: Mapping[str, str], fields: dict[str, Any],
        key: str | None, project: str, label: str,
    ) -> ExpectedAnswer:  # fmt: skip
        model = self._model
        resource = self._by_id(parameters.get("id", ""))
        match one.name:
            case "createCharge" | "createStaticCharge":
                return _of(model.create(BODIES[one.name], label, project, fields, key))
            case "updateStaticCharge":
                rejected = model.rejected("changes", fields)
                if rejected is not None:
                    return _of(rejected)
                if not isinstance(resource, StaticCharge):
                    return ExpectedAnswer(404, "not_found")
                return _of(model.change_static(resource, project, fields))
            case "getWallet":
                return ExpectedAnswer(200, value=model.ledger.balances[project])
            case "getChargeDetails" | "getStaticChargeDetails":
                kind = Charge if one.name == "getChargeDetails" else StaticCharge
                if not isinstance(resource, kind) or resource.project != project:
                    return ExpectedAnswer(404, "not_found")
                return ExpectedAnswer(200, value=resource)
            case name if name in STATES:
                return self._list(name, resource, values, project)
            case _:
                return ExpectedAnswer(200, value=self._wallet(one.name, parameters, values, resource, label))

    def _list(self, name: str, parent: Resource | None, values: Mapping[str, str], project: str) -> ExpectedAnswer:
        rows: list[Resource] = [*self._model.ledger.charges.values()]
        if name == "listStaticCharges":
            rows = [*self._model.ledger.static_charges.values()]
        elif name == "listStaticChargeCharges":
            if not isinstance(parent, StaticCharge) or parent.project != project:
                return ExpectedAnswer(404, "not_found")
            rows = [*parent.children]
        rows = [one for one in rows if one.project == project and one.id is not None]
        if "after" in values:
            kind = StaticCharge if name == "listStaticCharges" else Charge
            last = self._cursors.get((kind, values["after"]))
            if last is None or last not in rows:
                return ExpectedAnswer(200)  # which page a text has that no page came with is not determined
            rows = rows[: rows.index(last)]
        if "status" in values:
            rows = [one for one in rows if one.status == values["status"]]
        if "internalId" in values:
            rows = [one for one in rows if one.internal_id == values["internalId"]]
        if "createdAfter" in values:
            since = instant_of(values["createdAfter"])
            rows = [one for one in rows if since is not None and one.created_at >= since]
        if "createdBefore" in values:
            until = instant_of(values["createdBefore"])
            rows = [one for one in rows if until is not None and one.created_at < until]
        limit = int(values.get("limit", DEFAULT_PAGE))
        return ExpectedAnswer(200, value=Page(rows[::-1][:limit], len(rows) > limit, "after" in values))

    def _wallet(
        self, name: str, parameters: Mapping[str, str], values: Mapping[str, str], resource: Resource | None,
        label: str,
    ) -> WalletAnswer | None:  # fmt: skip
        model = self._model
        static = model.named(parameters["user"]) if name == "getLightningAddress" else resource
        if not isinstance(static, StaticCharge):
            is_elsewhere = name == "getLightningAddress" and model.name_elsewhere(parameters["user"])
            return None if is_elsewhere else WalletAnswer()
        if name == "verifyPayment":
            wanted = parameters["paymentHash"]
            charge = next((one for one in static.children if one.payment_hash == wanted), None)
            return WalletAnswer(static if charge is not None else None, verified=charge)
        if name == "requestInvoice":
            charge = model.request_invoice(label, static, values.get("amount"), values.get("comment", ""), False)
            return WalletAnswer(static if charge is not None else None, charge=charge)
        return WalletAnswer(static if model.ledger.can_issue_invoice(static) else None)


def _of(expected: ExpectedResponse) -> ExpectedAnswer:
    return ExpectedAnswer(expected.status, expected.code, pointers=expected.pointers, value=expected)


def match_path(one: Operation, path: str) -> dict[str, str] | None:
    """The path parameters if the path is that of the operation, else None."""
    wanted, found = one.path.split("/"), path.split("/")
    if len(wanted) != len(found):
        return None
    parameters: dict[str, str] = {}
    for template, text in zip(wanted, found, strict=True):
        if template.startswith("{") and text:
            parameters[template[1:-1]] = text
        elif template != text:
            return None
    return parameters


def allowed_methods(operations: Sequence[Operation]) -> tuple[str, ...]:
    """The methods of a path, for the header Allow: HEAD comes with GET (RFC 9110, 9.1)."""
    methods = {one.method for one in operations} | {"OPTIONS"}
    return tuple(sorted(methods | ({"HEAD"} if "GET" in methods else set())))


def is_json_type(text: str) -> bool:
    """Whether a Content-Type is JSON in UTF-8 (RFC 9110, 8.3.1; RFC 8259, 8.1)."""
    media, _, rest = text.partition(";")
    charsets = [_QUOTED.sub(r"\1", value.strip()).lower() for name, value in _PARAMETER.findall(f";{rest}")
                if name.lower() == "charset"]  # fmt: skip
    return media.strip().lower() == JSON_TYPE and all(one in {"", "utf-8"} for one in charsets)


def accepts_json(accept: str) -> bool:
    """Whether an Accept header allows JSON: the most specific range decides (RFC 9110, 12.5.1)."""
    best, allowed = 0, False
    for part in accept.lower().split(","):
        media, *parameters = [piece.strip() for piece in part.split(";")]
        rank = {"*/*": 1, "application/*": 2, JSON_TYPE: 3}.get(media, 0)
        quality = next((one[2:] for one in parameters if one.startswith("q=")), "1")
        if rank > best:
            best, allowed = rank, quality.strip("0.") != ""
    return allowed


def _is_valid_filter(operation: str, name: str, text: str) -> bool:
    match name:
        case "limit":
            return bool(_LIMIT.fullmatch(text)) and 1 <= int(text) <= MAX_PAGE
        case "after":
            wanted = _STATIC_CURSOR if operation == "listStaticCharges" else _CURSOR
            return bool(wanted.fullmatch(text))
        case "status":
            return text in STATES[operation]
        case "internalId":
            return len(text) <= MAX_INTERNAL_ID
        case _:
            return instant_of(text) is not None
