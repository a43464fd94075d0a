"""Mutants that were met in a sample and that no request to the packaged service can notice, each with its reason."""

from __future__ import annotations

from tests.mutation.mutants import Mutant

_TEXT = "only a text for people differs"
_INDEX = "an index makes a query fast, and a query without one has the same rows"
_STREAM = "a stream of the control plane: what it sends is checked in tests/devserver"
_NOT_REPORTED = "the node in process cancels the invoice of a Charge that has ended, so it reports nothing then"
_EDITED = "only an edited document has such a field: tests/server/test_edited_spec.py"

# The module, the function, the original code and the mutated code, and why no answer and no callback can differ.
EQUIVALENT: dict[tuple[str, str, str, str], str] = {
    ("server/http/pipeline.py", "BodyLimitMiddleware.__call__", "self._app(scope, receive, send)",
     "self._app(receive, send)"): "what is no request, such as the start of the server",
    ("server/http/pipeline.py", "_send_events", '"more_body"', '"XXmore_bodyXX"'): _STREAM,
    ("server/http/pipeline.py", "_send_events", '"extensions"', '"EXTENSIONS"'): _STREAM,
    ("server/http/pipeline.py", "BoundOperation.__init__", 'getattr(handler, "recorded", True)',
     'getattr(handler, "recorded", None)'): "every handler has the attribute",
    ("server/http/request_parsing.py", "RequestParser.__init__", '"post"', '"POST"'):
        "every POST of the service takes an Idempotency-Key",
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
    ("server/http/validation.py", "_values_at", '_values_at(item, path[1:], f"{pointer}/{place}")',
     "_values_at(item, path[1:], )"): "no body of the service has an array",
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
    ("server/charges/charges.py", "ChargeService.__init__", '"payment_hash"', '"XXpayment_hashXX"'): _INDEX,
    ("server/charges/charges.py", "ChargeService.__init__", 'store.table("static_charges", key="id")',
     'store.table("static_charges", )'): "`id` is the default",
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
    ("server/callbacks/deliveries.py", "delivery_resource", "True", "False"): "both sequences have one length",
    ("server/callbacks/attempts.py", "_encodable", '"replace"', '"XXreplaceXX"'):
        "only a text of a library has bytes that are no UTF-8",
}  # fmt: skip


def name_of(mutant: Mutant) -> tuple[str, str, str, str]:
    """The module, the function, the original code and the mutated code, each in one line."""
    return mutant.module, mutant.function, " ".join(mutant.was.split()), " ".join(mutant.now.split())


def reason(mutant: Mutant) -> str:
    """Why the mutant cannot be noticed; empty if it can, or if nobody has looked."""
    return EQUIVALENT.get(name_of(mutant), "")
