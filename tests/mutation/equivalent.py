"""Mutants that were met in a sample and that no request to the packaged service can notice, each with its reason."""

from __future__ import annotations

from tests.mutation.mutants import Mutant

_TEXT = "only a text for people differs"
_INDEX = "an index makes a query fast, and a query without one has the same rows"
_STREAM = "in process nothing says that a stream goes on: what a socket sends is checked in tests/devserver"
_NOT_REPORTED = "the node in process cancels the invoice of a Charge that has ended, so it reports nothing then"
_RULE = "only the rule differs that a violation would name"
_FALSE = "the value is only tested for truth"
_NO_ARRAY = "no body of the service has an array"
_PATTERN = "the pattern of the document refuses such a text before: tests/server/contract/test_widened_spec.py"
_EDITED = "only an edited document has such a field: tests/server/contract/test_edited_spec.py"

_ISSUE = (
    'self._charges.issue( project=static["project"], amount_msat=amount_msat, description=static["description"], #'
    " LUD-06: the invoice commits to exactly the metadata of the first response."
    ' description_hash=hashlib.sha256(static["metadata"].encode()).digest(), expiry_s=expiry_s,'
    ' internal_id=static["internal_id"], callback_url=static["callback_url"], static_charge_id=static["id"],'
)

# The module, the function, the original code and the mutated code, and why no answer and no callback can differ.
EQUIVALENT: dict[tuple[str, str, str, str], str] = {
    ("server/http/limits/body_limit.py", "BodyLimitMiddleware.__call__", "self._app(scope, receive, send)",
     "self._app(receive, send)"): "what is no request, such as the start of the server",
    ("server/http/pipeline.py", "_send_events", '"more_body"', '"XXmore_bodyXX"'): _STREAM,
    ("server/http/pipeline.py", "_send_events", '"more_body"', '"MORE_BODY"'): _STREAM,
    ("server/http/pipeline.py", "PathEndpoint.__call__",
     'log.exception("%s failed on %s", operation.operation_id, request_id)',
     'log.exception("%s failed on %s", operation.operation_id, )'): "only the log of a defect differs",
    ("server/http/pipeline.py", "BoundOperation.__init__", 'getattr(handler, "recorded", True)',
     'getattr(handler, "recorded", None)'): "every handler has the attribute",
    ("server/http/request_parsing.py", "RequestParser.__init__",
     "JSON.encode() if self._body is not None and JSON in self._body.media_types else None",
     "JSON.encode() if (self._body is not None and JSON in self._body.media_types) or True else None"):
        "every body of the service is JSON",
    ("server/http/request_parsing.py", "RequestParser.parse_body", "media = self._response_media", "media = None"):
        _TEXT,
    ("server/http/request_parsing.py", "RequestParser.parse_body",
     'mend = "send the object itself, not its text" if nested else "send one object, {...}"', "mend = None"): _TEXT,
    ("server/http/request_parsing.py", "RequestParser._query_texts", "texts[name] = text", "texts[name] = None"):
        "of a parameter that is ignored only the name is used",
    ("server/http/validation.py", "with_properties", '"anyOf"', '"XXanyOfXX"'): _EDITED,
    ("server/http/validation.py", "_values_at", '_values_at(item, path[1:], f"{pointer}/{place}")',
     "_values_at(item, path[1:], )"): _NO_ARRAY,
    ("server/http/validation.py", "_values_at", '_values_at(item, path[1:], f"{pointer}/{place}")',
     '_values_at(None, path[1:], f"{pointer}/{place}")'): _NO_ARRAY,
    ("server/http/validation.py", "undeclared_fields", "in", "not in"): _TEXT,
    ("server/http/idempotency.py", "Idempotency.is_known",
     'row is not None and self._clock.now() < row["created_at"] + RETENTION_MS',
     'row is not None or self._clock.now() < row["created_at"] + RETENTION_MS'):
        "only a fault of the service asks it: tests/service_faults",
    ("server/http/idempotency.py", "Idempotency.remember", "self._rows.delete(row_id)", "self._rows.delete(None)"):
        "the loop before it has deleted a row of this id",
    ("server/http/idempotency.py", "Idempotency.remember", '>= oldest["created_at"] + RETENTION_MS',
     '> oldest["created_at"] + RETENTION_MS'): "a row that is kept too long is not recalled",
    ("server/http/validation.py", "_field_errors", '"x-expect"', '"XXx-expectXX"'): _TEXT,
    ("server/http/validation.py", "_field_errors", "not in", "in"): _TEXT,
    ("server/http/projects.py", "Projects.add",
     'ValueError(f"another project holds the key {key!r}: choose a different one")', "ValueError(None)"): _TEXT,
    ("server/http/projects.py", "Projects.issue_key", "ValueError(issued_before(key))", "ValueError(None)"): _TEXT,
    ("server/charges/charges.py", "ChargeService.__init__", '"payment_hash"', '"XXpayment_hashXX"'): _INDEX,
    ("server/charges/charges.py", "ChargeService.__init__", 'store.table("static_charges", key="id")',
     'store.table("static_charges", )'): "`id` is the default",
    ("server/charges/static_charges.py", "StaticChargeService.__init__",
     'store.table("static_charges", key="id", indexes=indexes)',
     'store.table("static_charges", key=None, indexes=indexes)'): "the service of Charges has declared the key",
    ("server/charges/static_charges.py", "StaticChargeService.update_static_charge", "in", "not in"): _EDITED,
    ("server/charges/static_charges.py", "_lifecycle", 'LifecycleTable("StaticCharge", (), (), ())',
     'LifecycleTable("StaticCharge", (), (), )'): _EDITED,
    ("server/charges/lifecycle.py", "Lifecycle.apply", "TransitionResult(draft, rule)",
     "TransitionResult(None, rule)"): _NOT_REPORTED,
    ("server/charges/lifecycle.py", "Lifecycle.apply", "TransitionResult(draft, rule)",
     "TransitionResult(draft, None)"): _NOT_REPORTED,
    ("server/callbacks/outbox.py", "Outbox.__init__", '"event"', '"EVENT"'): _INDEX,
    ("server/callbacks/outbox.py", "Outbox.__init__", '"event"', '"XXeventXX"'): _INDEX,
    ("server/callbacks/outbox.py", "Outbox.on_response",
     "self._in_flight.discard(request.delivery_id, request.attempt)",
     "self._in_flight.discard(request.delivery_id, None)"): "only a commit that was rolled back: tests/integration",
    ("server/callbacks/deliveries.py", "attempt_headers", '"content-type"', '"CONTENT-TYPE"'):
        "names of headers have no case",
    ("server/http/request_parsing.py", "RequestParser.__init__",
     "JSON.encode() if self._body is not None and JSON in self._body.media_types else None",
     "JSON.encode() if (self._body is not None and JSON in self._body.media_types) and False else None"):
        "a shortcut: without it the media type is parsed",
    ("server/http/request_parsing.py", "RequestParser.parse_body", "received(value)", "received(None)"): _TEXT,
    ("server/http/validation.py", "_field_errors", "received(wrong)", "received(None)"): _TEXT,
    ("server/http/idempotency.py", "Idempotency.__init__", '"idempotency"', '"XXidempotencyXX"'):
        "the name of a table; former files are read in tests/integration/test_former_formats.py",
    ("server/http/idempotency.py", "Idempotency.is_known", "_row_id(project, operation_id, key)",
     "_row_id(project, operation_id, None)"): "only a fault of the service asks it: tests/service_faults",
    ("server/charges/charges.py", "ChargeService.__init__", '"createCharge"', '"XXcreateChargeXX"'): _EDITED,
    ("server/charges/static_charges.py", "_lifecycle", 'LifecycleTable("StaticCharge", (), (), ())',
     'LifecycleTable("StaticCharge", (), (), None)'): _EDITED,
    ("server/charges/static_charges.py", "StaticChargeService.find", "self._charges.charges.row(static_id)",
     "self._charges.charges.row(None)"): _TEXT,
    ("server/charges/lnurl.py", "pay_metadata", 'json.dumps(pairs, ensure_ascii=False, separators=(",", ":"))',
     "json.dumps(pairs, ensure_ascii=False, separators=None)"): "LUD-06 asks for JSON, which may have blanks",
    ("server/charges/lnurl_pay.py", "LnurlPayService.request_invoice", f"{_ISSUE} comment=comment, )",
     f"{_ISSUE} comment=None, )"): "the comment is stored, and no answer has it",
    ("server/charges/lifecycle.py", "Lifecycle.apply", "dict(row)", "dict(None)"): _NOT_REPORTED,
    ("server/charges/lifecycle.py", "Lifecycle.apply", "draft = dict(row)", "draft = None"): _NOT_REPORTED,
    ("server/charges/lifecycle.py", "Lifecycle.apply",
     'self._journal.note("refused", draft["id"], trigger=trigger, refuse=rule.refuse)',
     'self._journal.note("refused", draft["id"], refuse=rule.refuse)'): _NOT_REPORTED,
    ("server/callbacks/deliveries.py", "attempt_headers", '"user-agent"', '"USER-AGENT"'):
        "the name of a header has no case: RFC 9110, 5.1",
    ("server/callbacks/attempts.py", "delivery_summary", '"replay_orders"', '"REPLAY_ORDERS"'):
        "key figures of notebooks, which no request shows",
    ("server/callbacks/attempts.py", "AttemptLog.record_result", "is not", "is"): "only the note of an attempt differs",
    ("server/callbacks/outbox.py", "Outbox.resume", 'row["due_at"] or 0', 'row["due_at"] and 0'):
        "after a restart deliveries of one instant have any order",
    ("server/charges/static_charges.py", "StaticChargeService.__init__", '"getPayRequest"',
     '"getpayrequest"'): "only an edited document has another path: tests/server/contract/test_served_paths.py",
    ("server/charges/lnurl.py", "bech32_chars", "bech32_chars(value >> below, groups - _MAX_GROUPS)",
     "bech32_chars(value >> below, None)"):
        "a URL has 1,000 characters at most, so no link is so long: tests/server/charges/test_lnurl.py",
    ("server/http/request_parsing.py", "expects_continue", '== b"expect"', '!= b"expect"'):
        "only a connection shows whether the client was told to go on: tests/server/system/test_http_limits.py",
    ("server/http/limits/body_limit.py", "BodyLimitMiddleware.__call__", "self._app(scope, receive, send)",
     "self._app(scope, send)"): "what is no request, such as the start of the server",
    ("server/http/validation.py", "plain_name", "60", "61"): _TEXT,
    ("server/http/pipeline.py", "_grouped", "0", "1"): "the parts of a body differ, and not its bytes",
    ("server/http/validation.py", "_unknown_field", "not path and known and not any(one in known for one in sent)",
     "not path and known or not any(one in known for one in sent)"): _TEXT,
    ("server/charges/lists.py", "position",
     'invalid("query.after", "not a cursor of this list; send next of its last page")',
     'invalid("query.after", )'): _PATTERN,
    ("server/charges/static_charges.py", "StaticChargeService._cancel_outstanding",
     '"the one slot" if slots == 1 else f"the last of the {slots} slots"',
     '"the one slot" if (slots == 1) or True else f"the last of the {slots} slots"'): _TEXT,
    ("server/charges/charges.py", "ChargeService._notify",
     'None if rule is None else rule.delivery.events.get(draft["status"])',
     'None if (rule is None) and False else rule.delivery.events.get(draft["status"])'):
        "only an edited document leaves a callback out: tests/server/contract/test_smaller_spec.py",
    ("server/charges/static_charges.py", "StaticChargeService.__init__", "lambda draft, at: None",
     "lambda draft, at: 0"): "the result of an effect is not used",
    ("server/callbacks/outbox.py", "Outbox.on_response",
     "self._in_flight.discard(request.delivery_id, request.attempt)",
     "self._in_flight.discard(None, request.attempt)"): "only a commit that was rolled back: tests/integration",
    ("server/charges/static_charges.py", "StaticChargeService.__init__",
     'store.table("static_charges", key="id", indexes=indexes)',
     'store.table("static_charges", indexes=indexes)'): "`id` is the default",
    ("server/http/pipeline.py", "_with_fields", "> _LOGGED_FIELDS",
     ">= _LOGGED_FIELDS"): "only the log of a defect differs",
    ("server/charges/static_charges.py", "StaticChargeService.__init__", '"createStaticCharge"',
     '"XXcreateStaticChargeXX"'): _EDITED,
    ("server/http/limits/body_limit.py", "BodyLimitMiddleware.__call__", 'message.get("body", b"")',
     'message.get("body", None)'): "each message of a request has a body, which may be empty",
    ("server/http/validation.py", "plain_name", "name.isascii() and name.isprintable()",
     "name.isascii() or name.isprintable()"): _TEXT,
    ("server/charges/lifecycle.py", "Lifecycle.apply",
     'self._journal.note("refused", draft["id"], trigger=trigger, refuse=rule.refuse)',
     'self._journal.note("refused", draft["id"], trigger=trigger, refuse=None)'): _NOT_REPORTED,
    ("server/charges/lnurl.py", "decode_lnurl",
     'LnurlError(f"not an LNURL: it encodes {url!r}, which is not a web address")',
     "LnurlError(None)"): _TEXT,
    ("server/callbacks/attempts.py", "AttemptLog.record_result", "> 2",
     ">= 2"): "a result is a status from 100 on, or a word",
    ("server/http/projects.py", "Projects._random_key", '"key_"',
     '"KEY_"'): "the document promises no form of a random key",
    ("server/callbacks/deliveries.py", "callback_body", "several_errors(validator, body)",
     "several_errors(None, body)"):
        "only an edited document refuses the body of a callback: tests/server/contract/test_edited_callbacks.py",
    ("server/charges/lists.py", "position",
     'invalid("query.after", "not a cursor of this list; send next of its last page")',
     'invalid("not a cursor of this list; send next of its last page")'): _PATTERN,
    ("server/charges/lnurl_pay.py", "LnurlPayService.request_invoice",
     'self._statics.lifecycle.apply(static, "invoice_requested", now)',
     'self._statics.lifecycle.apply(static, "invoice_requested", None)'):
        "no row of a Static Charge's table depends on the instant",
    ("server/http/projects.py", "Projects.__init__", 'store.table("projects", key="id")',
     'store.table("projects", )'): "`id` is the default",
    ("server/charges/lifecycle.py", "states_after_expiry", "found |= more",
     "found &= more"): "only an edited table goes on after the expiry: tests/server/contract/test_edited_lifecycles.py",
    ("sim/harness/model/rules.py", "_field_error", '"amounts"', '"AMOUNTS"'): _TEXT,
    ("sim/harness/model/rules.py", "_field_error", '"allowed-slots"', '"XXallowed-slotsXX"'): _TEXT,
    ("sim/harness/model/records.py", "", "charge: str | None = None", 'charge: str | None = ""'):
        "every fault is constructed with its Charge, or with None",
    ("sim/harness/model/model.py", "Model._new_static", '"paths"', '"PATHS"'): _TEXT,
    ("sim/harness/model/model.py", "", '"either"', '"EITHER"'): "the sentinel has any text that is no code",
    ("sim/harness/model/model.py", "Model._idempotent", 'ExpectedResponse(0, rule="idempotency", replays=known[2])',
     "ExpectedResponse(0, rule=None, replays=known[2])"): _RULE,
    ("sim/harness/model/model.py", "Model._new_charge", 'ExpectedResponse(200, rule="paths", record=charge)',
     "ExpectedResponse(200, rule=None, record=charge)"): _RULE,
    ("sim/harness/model/model.py", "Model.change_static", 'ExpectedResponse(200, rule="static-updates", record=static)',
     "ExpectedResponse(200, record=static)"): _RULE,
    ("sim/harness/model/model.py", "Model.retention_ends", "is not", "is"):
        "random walks aim at these instants: what is expected there is computed at another place",
    ("sim/harness/model/http.py", "", 'operation: str = ""', "operation: str = None"):
        "of an answer without an operation only its absence is used",
    ("sim/harness/model/rules.py", "Interpretation.of",
     'ValueError(f"the reference model has no rules for the overlay {name!r}: choose among {known}")',
     "ValueError(None)"): _TEXT,
    ("sim/harness/model/timeline.py", "Timeline.schedule", "1", "2"): "the numbers have the same order",
    ("sim/harness/model/callbacks.py", "", "latency_ms: int = 0", "latency_ms: int = None"):
        "every reply that is waited for gives its latency",
    ("sim/harness/model/rules.py", "", "strict: bool = False", "strict: bool = None"): _FALSE,
    ("sim/harness/model/requests.py", "",
     'Operation("getLightningAddress", "GET", "/.well-known/lnurlp/{user}", secured=False, wallet=True)',
     'Operation("getLightningAddress", "GET", "/.well-known/lnurlp/{user}", secured=None, wallet=True)'): _FALSE,
    ("sim/harness/model/records.py", "", "link: str | None = None", 'link: str | None = ""'):
        "a link is set before it is shown",
    ("sim/harness/model/records.py", "Fault.delay_ms", "FAULT_DELAYS_MS.get(self.kind, 0)",
     "FAULT_DELAYS_MS.get(self.kind, None)"): "only the delay of kinds that have one is used",
    ("sim/harness/model/model.py", "Model.last_row",
     'rows = [item for item in self.ledger.reached if item[:2] == ("row", resource)]', "rows = None"):
        "only a violation names the row",
    ("sim/harness/model/model.py", "Model.change_static", 'ExpectedResponse(404, "not_found", "statuses")',
     'ExpectedResponse(404, "not_found", None)'): _RULE,
    ("sim/harness/model/model.py", "Model.change_static", '"static-updates"', '"STATIC-UPDATES"'): _RULE,
    ("sim/harness/model/model.py", "Model._idempotent", '"idempotency"', '"XXidempotencyXX"'): _RULE,
    ("sim/harness/model/model.py", "Model.create", '"idempotency"', '"XXidempotencyXX"'): _RULE,
    ("sim/harness/model/model.py", "Model._new_static", '"identifier"', '"IDENTIFIER"'): _RULE,
    ("sim/harness/model/model.py", "Model.rejected", '"statuses"', '"XXstatusesXX"'): _RULE,
    ("sim/harness/model/model.py", "Model.rejected", '"statuses"', '"STATUSES"'): _RULE,
    ("sim/harness/model/model.py", "Model._new_static", 'ExpectedResponse(200, rule="paths", record=static)',
     "ExpectedResponse(200, record=static)"): _RULE,
    ("sim/harness/model/model.py", "Model.last_row", '"row"', '"XXrowXX"'): "only a violation names the row",
    ("sim/harness/model/model.py", "Model.retention_ends",
     "ends + [until for known in self.secrets.values() for _, until in known if until is not None]",
     "ends - [until for known in self.secrets.values() for _, until in known if until is not None]"):
        "random walks aim at these instants: what is expected there is computed at another place",
    ("sim/harness/model/model.py", "Model.named", 'one.identifier.partition("@")', 'one.identifier.rpartition("@")'):
        "an identifier has one @",
    ("sim/harness/model/requests.py", "",
     'Operation("verifyPayment", "GET", "/lnurlp/{id}/verify/{paymentHash}", secured=False, wallet=True)',
     'Operation("verifyPayment", "GET", "/lnurlp/{id}/verify/{paymentHash}", secured=None, wallet=True)'): _FALSE,
    ("sim/harness/model/http.py", "",
     r"""re.compile(r';\s*([^\s;="]+)\s*=\s*("(?:[^"\\]|\\.)*"|[^;]*)', re.ASCII)""",
     r"""re.compile(r';\s*([^\s;="]+)\s*=\s*("(?:[^"\\]|\\.)*"|[^;]+)', re.ASCII)"""):
        "an empty charset is none",
}  # fmt: skip


def name_of(mutant: Mutant) -> tuple[str, str, str, str]:
    """The module, the function, the original code and the mutated code, each in one line."""
    return mutant.module, mutant.function, " ".join(mutant.was.split()), " ".join(mutant.now.split())


def reason(mutant: Mutant) -> str:
    """Why the mutant cannot be noticed; empty if it can, or if nobody has looked."""
    return EQUIVALENT.get(name_of(mutant), "")
