"""A wrong value of an `x-` key is refused in one line that begins with its place as a JSON pointer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from leyden.__main__ import main
from leyden.server.contract.document.yaml_loader import read_yaml
from leyden.server.contract.load import default_spec
from tests.support.edited_values import DELETE, edited

Document = dict[str, Any]
DELIVERY = "/paths/~1v0~1charges/post/callbacks/chargeUpdated/{$request.body#~1callbackUrl}/x-delivery"
CHARGE = "/components/schemas/Charge/properties/status/x-lifecycle"
STATIC = "/components/schemas/StaticCharge/properties/status/x-lifecycle"
PAYERS = [{"amount": "1000"}, {"amount": "2000", "delay": "1s"}]
REFUSALS: list[tuple[str, Any, str, str]] = [
    # what is changed, its new value, the place that is named, and a part of what follows
    ("/x-payers/1/delay", "-2s", "/x-payers/1/delay", "expected: A duration"),
    ("/x-payers/1/delay", "999999d", "/x-payers/1", "delay='999999d' is out of bounds: give 0 to 366 days"),
    ("/x-payers/1/beforeExpiry", "1s", "/x-payers/1", "delay and beforeExpiry contradict each other: give one"),
    ("/x-payers/1/outcome", "never", "/x-payers/1", "a payer that never pays takes no delay: leave it out"),
    ("/x-payers/1/outcome", "pay", "/x-payers/1/outcome", '"pay" is not one of'),
    ("/x-payers/1/failure", "TIMEOUT", "/x-payers/1", "failure=TIMEOUT has no effect with the outcome settle"),
    ("/x-payers/1/payer", " ", "/x-payers/1", "' ' is not the name of a payer: give a text"),
    ("/x-payers/1/share", 0, "/x-payers/1/share", "above 0, 1 at most"),
    ("/x-payers/1/nonsense", 1, "/x-payers/1", "'nonsense' was unexpected"),
    ("/x-payers/1", {}, "/x-payers/1", "less than 1 property"),
    (f"{DELIVERY}/attempts/1", "99999999w", f"{DELIVERY}/attempts/1", "must be at most 366d"),
    (f"{DELIVERY}/attempts/1", "367d", f"{DELIVERY}/attempts/1", "must be at most 366d"),
    (f"{DELIVERY}/attempts/1", "0.1ms", f"{DELIVERY}/attempts/1", "shorter than a millisecond"),
    (f"{DELIVERY}/attempts/1", -5, f"{DELIVERY}/attempts/1", "expected: A span such as 5s"),
    (f"{DELIVERY}/attempts", [0] * 1001, f"{DELIVERY}/attempts", "does not fit"),
    (f"{DELIVERY}/secretRotation", "999999999w", f"{DELIVERY}/secretRotation", "must be at most 366d"),
    (f"{DELIVERY}/timeout", "999999999w", f"{DELIVERY}/timeout", "must be at most 366d"),
    (f"{DELIVERY}/connectTimeout", "0.1ms", f"{DELIVERY}/connectTimeout", "shorter than a millisecond"),
    (f"{DELIVERY}/retryAfterTimes", 1e308, f"{DELIVERY}/retryAfterTimes", "greater than the maximum of 1000"),
    (f"{DELIVERY}/inFlight", -1, f"{DELIVERY}/inFlight", "less than the minimum of 1"),
    (f"{DELIVERY}/inFlight", "8", f"{DELIVERY}/inFlight", 'not of type "integer"'),
    (f"{DELIVERY}/form", DELETE, DELIVERY, '"form" is a required property'),
    (f"{DELIVERY}/nonsense", 1, DELIVERY, "'nonsense' was unexpected"),
    (f"{DELIVERY}/events/completed", "charge.done", f"{DELIVERY}/events", "an event that this callback cannot name"),
    (f"{CHARGE}/1/when", "before_expired", f"{CHARGE}/1/when", "has no function; did you mean 'before_expiry'?"),
    (f"{CHARGE}/3/effects/1", "notfy", f"{CHARGE}/3/effects/1", "has no function; did you mean 'notify'?"),
    (f"{CHARGE}/3/effects/0", "take_slot", f"{CHARGE}/3/effects/0", "has no function; known here: cancel_invoice"),
    (f"{CHARGE}/3/to", "expire", f"{CHARGE}/3", "'expire' is not in the status enum; did you mean 'expired'?"),
    (f"{CHARGE}/3/trigger", 7, f"{CHARGE}/3/trigger", 'not of type "string"'),
    (f"{CHARGE}/3/from", DELETE, f"{CHARGE}/3", "from is missing; every row has one"),
    (f"{CHARGE}/1", None, f"{CHARGE}/1", "not valid under any"),
    (f"{STATIC}/1/when", "slots_free", f"{STATIC}/1/when", "has no function; did you mean 'slot_free'?"),
    ("/x-limits/bodyBytes", -1, "/x-limits/bodyBytes", "expected: The largest body, in bytes"),
    ("/x-limits/depth", "32", "/x-limits/depth", 'not of type "integer"'),
]


def changed(pointer: str, value: Any) -> Document:
    """The packaged document with two payers, and `value` at a pointer into it."""
    document: Document = read_yaml(default_spec("charges").read_bytes(), "charges.openapi.yaml")
    document["x-payers"] = [dict(payer) for payer in PAYERS]
    edited(document, pointer, value)
    return document


@pytest.mark.parametrize(("pointer", "value", "place", "part"), REFUSALS)
def test_a_wrong_value_is_refused_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], pointer: str, value: Any, place: str, part: str
) -> None:
    spec = tmp_path / "own.yaml"
    spec.write_bytes(orjson.dumps(changed(pointer, value)))
    assert main(["table", "--spec", str(spec)]) == 2
    output, error = capsys.readouterr()
    assert output == ""
    assert error.startswith(f"leyden table: {spec}#{place}: ")
    assert part in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("trigger", ["expiry_reached", "invoice_failed"])
def test_the_triggers_of_a_lifecycle_are_those_that_code_applies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], trigger: str
) -> None:
    spec = tmp_path / "own.yaml"
    text = default_spec("charges").read_text("utf-8")
    spec.write_text(text.replace(f"trigger: {trigger}", "trigger: unheard_of"), "utf-8")
    assert main(["table", "--spec", str(spec)]) == 2
    error = capsys.readouterr().err
    assert f"{spec}#{CHARGE}/" in error
    assert "/trigger: no code applies the trigger 'unheard_of'; known here: created, expiry_reached" in error


def test_a_trigger_that_happens_has_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = changed("/x-limits/depth", 32)
    status = document["components"]["schemas"]["StaticCharge"]["properties"]["status"]
    status["x-lifecycle"] = [row for row in status["x-lifecycle"] if row["trigger"] != "slots_reopened"]
    spec = tmp_path / "own.yaml"
    spec.write_bytes(orjson.dumps(document))
    assert main(["table", "--spec", str(spec)]) == 2
    assert f"{spec}#{STATIC}: no row has the trigger 'slots_reopened', which happens" in capsys.readouterr().err
