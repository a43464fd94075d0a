"""Answers: a request is sent, and its whole answer is compared with that of the model."""

from __future__ import annotations

from typing import Any

from leyden.harness.checks import headers
from leyden.harness.checks import responses as checks
from leyden.harness.checks.clauses import same_resource
from leyden.harness.checks.violations import ContractViolation
from leyden.harness.model.http import (
    CHALLENGE,
    LIMITED,
    ExpectedAnswer,
    HttpModel,
    Page,
    SentRequest,
    WalletAnswer,
    match_path,
)
from leyden.harness.model.model import ExpectedResponse
from leyden.harness.model.records import Charge, StaticCharge
from leyden.harness.model.requests import OPERATIONS
from leyden.harness.session.session import Session
from leyden.harness.session.wallet import bind_child, expected_invoice, expected_pay_request, expected_proof
from leyden.harness.targets.target import PROJECT, Response

_WITH_EFFECT = frozenset({"requestInvoice"})


def send(session: Session, sent: SentRequest) -> Response:
    """Send a request and compare its whole answer with that of the model."""
    _read_metadata(session, sent)
    expected = _http_model(session).answer(sent)
    response = session.send(sent.method, sent.target, sent.headers, sent.body)
    where = f"{sent.method} {sent.target[:120]}"
    _compare(session, sent, expected, response, where)
    repeats = expected.operation not in _WITH_EFFECT and expected.code != LIMITED
    if sent.method == "HEAD" and repeats and session.target.controlled:
        again = session.send("GET", sent.target, sent.headers, sent.body)
        _same_head(response, again, where)
    return response


def _read_metadata(session: Session, sent: SentRequest) -> None:
    """Before an invoice is requested the wallet reads the metadata of which it has the hash (LUD-06)."""
    parameters = match_path(OPERATIONS["requestInvoice"], sent.target.partition("?")[0])
    static = session.ids.get("" if parameters is None else parameters["id"])
    if isinstance(static, StaticCharge) and static.metadata is None and session.model.ledger.can_issue_invoice(static):
        where = f"pay request of {static.label}"
        body = checks.wallet_response(session.request("getPayRequest", f"/lnurlp/{static.id}", key=None), False, where)
        checks.same(expected_pay_request(session, static, body, where), body, "echo", "lnurl-pay", where)


def _http_model(session: Session) -> HttpModel:
    """The model of the requests of a session."""
    projects = {session.target.keys[name]: name for name in session.projects}
    projects |= {key: PROJECT for key, is_valid in session.spare_keys.items() if is_valid}

    def by_id(text: str) -> Charge | StaticCharge | None:
        found = session.ids.get(text)
        return found if isinstance(found, Charge | StaticCharge) else None

    return HttpModel(session.model, projects, by_id, session.cursors)


def _same_head(response: Response, again: Response, where: str) -> None:
    """HEAD has the status and the headers of GET, and no body (RFC 9110, 9.3.2)."""
    ignored = headers.TRANSPORT
    expected, observed = (
        {name: value for name, value in one.headers.items() if name not in ignored} for one in (again, response)
    )
    if again.status >= 400:  # the id of a request is in the body of a problem, and may be longer than that before
        numbers = {str(len(again.body)), str(len(again.body) - 1)}
        if observed.get("content-length") in numbers:
            observed["content-length"] = expected["content-length"]
    observed.setdefault("content-length", expected.get("content-length", ""))  # HEAD may leave it out
    checks.same({"status": again.status, **expected}, {"status": response.status, **observed}, "lifecycle",
                "statuses", f"{where}: the headers of GET")  # fmt: skip


def _compare(session: Session, sent: SentRequest, expected: ExpectedAnswer, response: Response, where: str) -> None:
    """The status, the headers and the body of a response are those of the expected answer."""
    value = expected.value
    if expected.operation:
        session.reached[("response", expected.operation, str(response.status))] = None
    replays = isinstance(value, ExpectedResponse) and value.replays is not None
    status = response.status if replays else expected.status
    rule = value.rule if isinstance(value, ExpectedResponse) and value.rule else "statuses"
    checks.status(response, status, "errors_are_problems" if status >= 400 else "lifecycle", rule, where)
    _compare_headers(session, sent, expected, response, where)
    if sent.method == "HEAD":
        if response.body:
            raise ContractViolation("lifecycle", "statuses", where, "no body", response.body[:60])
        _head(session, sent, expected)
        return
    if isinstance(value, ExpectedResponse):
        data = session.check_response(value, response, where)
        if status == 200:
            session.same_text(expected.operation, response.json["message"], f"{where}: message")
        session.check_record(value, data, where)
    elif status >= 400:
        body = checks.problem(response, status, expected.code, rule, where)
        if status == 400 or session.target.controlled:
            checks.pointers(expected.pointers, body, where)
    elif status == 200 and isinstance(value, Page | int) and not session.target.controlled:
        checks.success(response, rule, f"list {where}" if isinstance(value, Page) else where)  # others use it, too
    elif status == 200:
        _compare_value(session, value, response, where, expected.operation)


def _compare_headers(
    session: Session, sent: SentRequest, expected: ExpectedAnswer, response: Response, where: str
) -> None:
    """Check the complete set of response headers. Another implementation may send more."""
    status = response.status
    names: dict[str, str | None] = {}
    if expected.cors:
        names["access-control-allow-origin"] = "*"
    if expected.allow:
        names["allow"] = ", ".join(expected.allow)
    if status == 204 and expected.cors:
        names |= {"access-control-allow-headers": "*", "access-control-allow-methods": ", ".join(expected.allow)}
    if status == 401:
        names["www-authenticate"] = CHALLENGE if session.target.controlled else None
    if status == 429:
        names["retry-after"] = str(session.model.retry_after_s) if session.target.controlled else None
    if isinstance(expected.value, ExpectedResponse) and expected.value.replays is not None:
        names["idempotent-replayed"] = "true"
    if not session.target.controlled:
        headers.present(response, where, names)
        return
    media = None if status == 204 else "application/json" if status < 400 else "application/problem+json"
    headers.complete(
        response, where, media=media, names=names, ignored=expected.ignored,
        known=expected.unused, always=expected.always, slips=expected.slips, omits_body=sent.method == "HEAD",
    )  # fmt: skip


def _head(session: Session, sent: SentRequest, expected: ExpectedAnswer) -> None:
    """The effect of a HEAD: a new invoice is bound to its Charge."""
    if isinstance(expected.value, WalletAnswer) and expected.value.charge is not None:
        bind_child(session, expected.value.charge, sent.target)


def _compare_value(session: Session, value: Any, response: Response, where: str, operation: str) -> None:
    match value:
        case WalletAnswer():
            body = checks.wallet_response(response, value.static is None, where)
            if body is None or value.static is None:
                return
            if value.charge is not None:
                bind_child(session, value.charge, where)
                wanted = expected_invoice(session, value.charge)
            elif value.verified is not None:
                wanted = expected_proof(value.verified, body, where)
            else:
                wanted = expected_pay_request(session, value.static, body, where)
            checks.same(wanted, body, "echo", "lnurl-pay", where)
        case Page():
            data = checks.success(response, "lists", f"list {where}")
            _compare_page(session, value, data, response.json["next"], where)
            if value.after:
                session.reached["policy", "cursors", operation] = None
        case Charge() | StaticCharge():
            same_resource(value.resource(), checks.success(response, "paths", where), "echo", where)
            session.same_text(type(value).__name__, response.json["message"], f"{where}: message")
        case int():
            data = checks.success(response, "wallet", where)
            checks.same({"unit": "msats", "balance": str(value)}, data, "lifecycle", "wallet", where)


def _compare_page(session: Session, page: Page, data: Any, following: Any, where: str) -> None:
    wanted = [one.resource() for one in page.rows]
    if data != wanted:
        observed = [one.get("id") if isinstance(one, dict) else one for one in data] if isinstance(data, list) else data
        checks.same([one["id"] for one in wanted], observed, "lifecycle", "lists", where)
        for one, other in zip(wanted, data, strict=True):
            same_resource(one, other, "echo", where)
    if not isinstance(following, str | None) or (following is not None) != page.more:
        expected = "a cursor" if page.more else None
        raise ContractViolation("lifecycle", "lists", f"{where}: next", expected, following)
    session.cursor = following
    if following is not None:
        name = (type(page.rows[-1]), following)  # the rows of one type are counted together
        known = session.cursors.get(name, page.rows[-1])
        checks.same(known.id, page.rows[-1].id, "lifecycle", "lists", f"{where}: a cursor of its own for each row")
        session.cursors[name] = page.rows[-1]
