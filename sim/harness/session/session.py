"""A session: one target with the reference model beside it, and the requests that are sent to the target."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import orjson

from leyden.harness.checks import headers
from leyden.harness.checks import responses as checks
from leyden.harness.checks.clauses import DOCUMENT, same_resource
from leyden.harness.checks.violations import ContractViolation
from leyden.harness.model.charges import CoverageItem
from leyden.harness.model.http import CHALLENGE
from leyden.harness.model.ignored import fixed_values, known_names, names_in, slips_of, unused_key
from leyden.harness.model.model import ExpectedResponse, Model
from leyden.harness.model.records import Charge, Delivery, Payment, StaticCharge
from leyden.harness.model.requests import OPERATIONS, Operation
from leyden.harness.model.rules import Interpretation, has_lone_surrogate, instant, iso
from leyden.harness.session.elsewhere import OtherSandboxes
from leyden.harness.session.exchanges import Answered, Exchange, Request
from leyden.harness.steps import Step, StepImpossible
from leyden.harness.targets.control_answers import wrong_form
from leyden.harness.targets.target import PROJECT, SECOND_PROJECT, Response, Target

T = TypeVar("T")
# These are answered before the fields of a request are read, so `Leyden-Ignored` names none.
_BEFORE_FIELDS = frozenset({401, 406, 413, 415, 429})
_JSON = (("Content-Type", "application/json"),)
_CONTROL = ("lifecycle", "control-plane")  # the check and the rule of its answers


class Session:
    """A target from its start, and the model. Everything that checks raises `ContractViolation`.

    `sent` has each request that this sandbox answered, for the journal. `cursors` has the last row of
    the page that each cursor came with, `cursor` is the latest one. `retry_offsets` has the place of each retry in its
    bounds, from -1 to 1. `reached` has the coverage items, `unchecked` names what cannot be checked at this target,
    `recorded` has the status and the media type of each response that a repeated request must get again, by its body.
    `requests` are those of the steps, `exchanges` have their responses too. `delivery_cache` is valid for one step;
    `checked_requests` counts the checked callbacks by receiver.
    """

    def __init__(
        self, target: Target, *, seed: int = 0, start_ms: int = 0, overlays: Sequence[str] = (), disk: bool = False
    ) -> None:
        self.target = target
        target.begin(seed, start_ms, overlays, disk=disk)
        self.disk = disk
        self.start_ms = self.started_at = start_ms  # `started_at`: on the clock of the target
        self.spare_keys: dict[str, bool] = {}  # by the key: whether it is valid
        self.sent: list[Answered] = []
        self.others = OtherSandboxes(target, self.spare_keys, self.sent)
        self.model = self._new_model(Interpretation.of(list(overlays)))
        self.reached: dict[CoverageItem, None] = {}
        self.unchecked: dict[str, None] = {}
        self.problems: dict[str, Any] = {}
        self.node: bytes | None = None
        self.ids: dict[str, object] = {}
        self.hashes: dict[str, Charge] = {}
        self.delivery_cache: dict[str, list[Any]] = {}
        self.checked_requests: dict[str, int] = {}
        self.requests_seen: dict[tuple[str | None, str], str] = {}
        self.texts: dict[str, str] = {}
        self.retry_offsets: list[float] = []
        self.delivery_ids: dict[str, Charge] = {}
        self.cursors: dict[tuple[type, str], Charge | StaticCharge] = {}
        self.cursor: str | None = None
        self.done = 0
        self.recorded: dict[bytes, tuple[int, str]] = {}
        self.requests: list[Request] = []
        self.exchanges: list[Exchange] = []
        self.last: tuple[Request, Response] | None = None
        self._records = False
        self.host: Any = None  # the server that the steps host
        if target.controlled:
            self._read_secrets()
        self.others.find()

    def start_again(self) -> None:
        """Note that the target was reset: a new run begins, with the same secrets."""
        self.reached.update(dict.fromkeys(self.model.reached()))
        former, self.model = self.model, self._new_model(self.model.interpretation)
        self._read_secrets()
        checks.same(
            former.secrets[PROJECT],
            self.model.secrets[PROJECT],
            "callback_contract",
            "control-plane",
            "secret after a reset",
        )
        self.node = self.cursor = self.last = None
        for seen in (self.hashes, self.delivery_cache, self.checked_requests, self.sent, self.requests_seen,
                     self.delivery_ids, self.cursors, self.recorded):  # fmt: skip
            seen.clear()

    def _new_model(self, interpretation: Interpretation) -> Model:
        return Model(interpretation, self.start_ms, self.observe_due_time, self.others.have_name)

    # What steps refer to; each raises `StepImpossible` if there is none of this label

    def charge(self, label: str) -> Charge:
        """The Charge with this label."""
        return _labelled(self.model.ledger.charges, label)

    def static(self, label: str) -> StaticCharge:
        """The Static Charge with this label."""
        return _labelled(self.model.ledger.static_charges, label)

    def resource(self, label: str) -> Charge | StaticCharge:
        """The Charge or Static Charge with this label."""
        return self.model.ledger.charges.get(label) or self.static(label)

    def charges_of(self, project: str) -> list[Charge]:
        """The Charges of a project, oldest first."""
        return [one for one in self.model.ledger.charges.values() if one.project == project]

    def statics_of(self, project: str) -> list[StaticCharge]:
        """The Static Charges of a project, oldest first."""
        return [one for one in self.model.ledger.static_charges.values() if one.project == project]

    def payment(self, label: str) -> Payment:
        """The payment with this label."""
        return _labelled(self.model.ledger.payments, label)

    def do_within(self, step: Step) -> None:
        """Do a step within another one; a session alone does none. Raises `StepImpossible`."""
        raise StepImpossible(step["do"])

    # Requests

    def request(
        self,
        operation: str,
        path: str,
        *,
        key: str | None = PROJECT,
        body: Any = None,
        more: Sequence[tuple[str, str]] = (),
    ) -> Response:
        """Send a request to the charge service. `key` is the name of a project, or any API key, or None."""
        sent = list(more)
        if key is not None:
            sent.append(("apikey", self.target.keys.get(key, key)))
        if body is not None:
            sent += _JSON
        one = OPERATIONS[operation]
        response = self.send(one.method, path, sent, encoded(body))
        self.reached[("response", operation, str(response.status))] = None
        if self.target.controlled:
            fields = body if isinstance(body, dict) else {}
            sent_names = [name for name, _ in sent]
            self._check_headers(one, path.partition("?")[2], fields, sent_names, response)
        elif one.wallet:  # another implementation may send more headers
            origin = response.headers.get("access-control-allow-origin")
            checks.same("*", origin, "lifecycle", "lnurl-pay", f"{operation}: CORS")
        return response

    def _check_headers(
        self, one: Operation, query: str, body: Mapping[str, Any], sent: Sequence[str], response: Response
    ) -> None:
        """The complete set of the headers of a response."""
        status = response.status
        names: dict[str, str | None] = {}
        if one.wallet and status != 413:
            names["access-control-allow-origin"] = "*"
        if status == 401:
            names["www-authenticate"] = CHALLENGE
        if status == 429:
            names["retry-after"] = str(self.model.retry_after_s)
        if "idempotent-replayed" in response.headers:
            names["idempotent-replayed"] = "true"  # whether it is due depends on the earlier requests
        ignored: tuple[str, ...] = ()
        if status not in _BEFORE_FIELDS and not has_lone_surrogate(body):
            ignored = names_in(one, query, body, sent, self.model.interpretation.strict)
        unused = [*(name for name in known_names(one) if name not in body), *unused_key(one, sent)]
        media = "application/json" if status < 400 else "application/problem+json"
        headers.complete(response, one.name, media=media, names=names, ignored=ignored, known=unused,
                         always=fixed_values(one, body), slips=slips_of(one, sent))  # fmt: skip

    def control(self, method: str, path: str, body: Any = None, *, project: str = PROJECT) -> Response:
        """Send a request to the control plane. The body of a success is as its document declares."""
        sent = [("apikey", self.target.keys[project]), *(_JSON if body is not None else ())]
        response = self.send(method, f"/sandbox/v1{path}", sent, encoded(body))
        media = "application/json" if response.status < 400 else "application/problem+json"
        headers.complete(response, f"{method} {path}", media=media, names={})
        wrong = wrong_form(method, f"/sandbox/v1{path}", response)
        if wrong is not None:
            body = f"{wrong}: {response.body[:200].decode('utf-8', 'replace')}"
            raise ContractViolation(*_CONTROL, f"{method} {path}", "a body that its document declares", body)
        return response

    def send(self, method: str, path: str, headers: Sequence[tuple[str, str]], body: bytes) -> Response:
        """Send a request; it is recorded if it belongs to a step and does not only check."""
        request = Request(method, path, tuple(headers), body)
        if self._records:
            self.requests.append(request)
        self.last = (request, Response(0, {}, b""))
        is_own = not self.others.answer(path, headers, self.model.ledger.static_charges.values())
        response = self.target.send(method, path, headers, body)
        self.last = (request, response)
        if is_own:
            self.sent.append(Answered.of(request, response))
        if self._records:
            self.exchanges.append(Exchange(request, response, self.model.now))
        if response.status >= 400:
            self._check_problem(request, response, is_own)
        return response

    def _check_problem(self, request: Request, response: Response, is_own: bool) -> None:
        """Each request has an id of its own, and each code one title [errors]."""
        where = f"{request.method} {request.path[:120]}"
        checks.no_password(response, where)
        body = response.json
        if not isinstance(body, dict) or "request_id" not in body or "idempotent-replayed" in response.headers:
            return
        name, count = str(body["request_id"]), self.others.count(request.headers, is_own)
        if (count, name) in self.requests_seen:
            other = f"{name}, which {self.requests_seen[count, name]} has"
            raise ContractViolation("errors_are_problems", "errors", f"{where}: request_id", "a unique id", other)
        if count is not None:
            self.requests_seen[count, name] = where
        self.same_text(str(body.get("code")), str(body.get("title")), f"{where}: title")

    def same_text(self, key: str, text: str, where: str) -> None:
        """A text that does not depend on the request is the same in every response of a run."""
        checks.same(self.texts.setdefault(key, text), text, "echo", "envelope", where)

    def control_ok(self, method: str, path: str, body: Any = None, *, project: str = PROJECT) -> Any:
        """The JSON of the control plane's response, whose status must be 200."""
        response = self.control(method, path, body, project=project)
        checks.status(response, 200, "lifecycle", "control-plane", f"{method} {path}")
        return response.json

    def control_list(self, path: str) -> list[Any]:
        """Every row of a list of the control plane, page after page. The path has a query."""
        rows, after = list[Any](), ""
        while True:
            page = self.control_ok("GET", f"{path}{after}")
            rows += page["data"]
            if page["next"] is None:
                return rows
            if not page["data"]:
                raise ContractViolation(*_CONTROL, f"GET {path}", "a row, or no next page", page)
            after = f"&after={page['next']}"

    def check_response(self, expected: ExpectedResponse, response: Response, where: str) -> Any:
        """Compare a response with the expected one. Returns the `data` of a success, else None."""
        rule = expected.rule
        replayed = response.headers.get("idempotent-replayed")
        if expected.replays is not None:
            if replayed != "true" or response.body != expected.replays:
                first = expected.replays.decode("utf-8", "replace")
                again = f"{response.body.decode('utf-8', 'replace')} (Idempotent-Replayed: {replayed})"
                raise ContractViolation("echo", rule, f"{where}: replay", first, again)
            first_form = self.recorded.get(expected.replays)
            if first_form is not None:
                checks.same(first_form, _form(response), "echo", rule, f"{where}: status and media type of the replay")
            self.reached[("policy", "idempotency", "replayed")] = None
            return None
        checks.same(None, replayed, "echo", rule, f"{where}: Idempotent-Replayed")
        if expected.status >= 400:
            body = checks.problem(response, expected.status, expected.code, rule, where)
            if expected.status == 400 or self.target.controlled:  # the document promises those of a 400
                checks.pointers(expected.pointers, body, where)
            data = None
        else:
            data = checks.success(response, rule, where)
        if expected.record_body is not None:
            expected.record_body(response.body)
            self.recorded[response.body] = _form(response)
        return data

    def check_record(self, expected: ExpectedResponse, data: Any, where: str) -> None:
        """Compare the body of a success with the record of the model. A new record gets the values that the service
        chose."""
        if expected.status != 200:  # an error, or a replay
            return
        assert expected.record is not None, where
        if expected.record.id is not None:
            same_resource(expected.record.resource(), data, "echo", where)
        elif isinstance(expected.record, Charge):
            self.bind_charge(expected.record, data, where)
        else:
            self.bind_static(expected.record, data, where)

    # Values that the service chooses

    def bind_charge(self, charge: Charge, data: Any, where: str) -> None:
        """Take the id and the invoice of a new Charge from its first response, and check the rest."""
        charge.request = self._bind(charge, data, where)
        same_resource(charge.resource(), data, "echo", where)
        found = checks.invoice(charge, charge.request, self.node, self.hashes, where)
        self.node, charge.payment_hash = found.payee, found.payment_hash.hex()
        self.hashes[charge.payment_hash] = charge

    def bind_static(self, static: StaticCharge, data: Any, where: str) -> None:
        """Take the id and the LNURL of a new Static Charge from its first response, and check the rest."""
        static.link = self._bind(static, data, where)
        same_resource(static.resource(), data, "echo", where)
        checks.lnurl(static, static.link, self.target.base_url, where)

    def _bind(self, resource: Charge | StaticCharge, data: Any, where: str) -> Any:
        if not isinstance(data, dict) or not isinstance(data.get("invoice"), dict):
            place = f"{DOCUMENT}#/components/schemas/{type(resource).__name__}/properties/invoice"
            raise ContractViolation("echo", place, where, "a resource with an invoice", data)
        resource.id = checks.identifier(data.get("id"), self.ids, where)
        self.ids[resource.id], request = resource, data["invoice"].get("request")
        checks.lower_case(request, "invoices" if isinstance(resource, Charge) else "lnurl-pay", where)
        return request

    def _read_secrets(self) -> None:
        for project in self.projects:
            found = self.control_ok("GET", "/webhook-secret", project=project)
            checks.new_secret(found["current"], ())
            self.model.secrets[project] = [(found["current"], None)]

    def observe_due_time(self, delivery: Delivery, number: int, low: int, high: int) -> int:
        """The time of an attempt, which the service chooses; it must be in [low, high]."""
        where = f"callback {delivery.event} of {delivery.charge.label}, attempt {number}"
        bounds = iso(low) if low == high else f"due from {iso(low)} to {iso(high)}"
        records, self._records = self._records, False
        row = self.delivery_row(delivery)
        self._records = records
        sent = row["attempts"][number - 1 : number]
        text = sent[0]["dueAt"] if sent else row["dueAt"]
        due_at = None if text is None else instant(text)
        if due_at is None or not low <= due_at <= high:
            raise ContractViolation(
                "callback_contract", "callback-delivery", where, bounds, text or "no further attempt"
            )
        if low < high:
            self.retry_offsets.append((2 * due_at - low - high) / (high - low))
        return due_at

    # Checks

    def check_resource(self, resource: Charge | StaticCharge) -> None:
        """Read a resource and compare every member."""
        operation, path = read_operation(resource)
        response = self.request(operation, path, key=resource.project)
        where = f"{resource.label} ({operation})"
        data = checks.success(response, "the lifecycle tables", where)
        expected = resource.resource()
        if data != expected:
            status_differs = isinstance(data, dict) and data.get("status") != expected["status"]
            if status_differs:
                checks.same(expected, data, "lifecycle", self.model.last_row(type(resource).__name__), where)
            same_resource(expected, data, "echo", where)

    def delivery_rows(self, charge: Charge) -> list[Any]:
        """The deliveries about a Charge as the control plane shows them, read once in a step."""
        assert charge.id is not None
        rows = self.delivery_cache.get(charge.id)
        if rows is None:
            path = f"/deliveries?bodies=true&chargeId={charge.id}"
            rows = self.delivery_cache[charge.id] = self.control_list(path)
        return rows

    def delivery_row(self, delivery: Delivery) -> dict[str, Any]:
        """The row of one expected delivery."""
        rows = self.delivery_rows(delivery.charge)
        found: list[dict[str, Any]] = [row for row in rows if row["event"] == delivery.event]
        if not found:
            where, events = f"callbacks of {delivery.charge.label}", [row["event"] for row in rows]
            raise ContractViolation("callback_contract", "callback-delivery", where, f"one {delivery.event}", events)
        return found[0]

    @property
    def projects(self) -> tuple[str, ...]:
        """The projects that a run uses. A served Leyden has a separate sandbox for each API key, so there it is one."""
        return (PROJECT, SECOND_PROJECT) if self.target.shared else (PROJECT,)


def _form(response: Response) -> tuple[int, str]:
    """The status and the media type of a response."""
    return response.status, response.headers.get("content-type", "")


def _labelled(records: Mapping[str, T], label: str) -> T:
    if label not in records:
        raise StepImpossible(label)
    return records[label]


def encoded(body: Any) -> bytes:
    """A JSON value as bytes; lone surrogates are escaped. None is no body."""
    try:
        return b"" if body is None else orjson.dumps(body)
    except (TypeError, orjson.JSONEncodeError):
        return json.dumps(body).encode("ascii")


def read_operation(resource: Charge | StaticCharge) -> tuple[str, str]:
    """The operation that reads a resource, and its path."""
    if isinstance(resource, StaticCharge):
        return "getStaticChargeDetails", f"/v0/static-charges/{resource.id}"
    return "getChargeDetails", f"/v0/charges/{resource.id}"
