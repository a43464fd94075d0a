"""Every time and every duration in a request is understood or refused with 400 or 409: no text of one is a defect."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leyden import Sandbox
from leyden.server.timestamps import MAX_INSTANT_MS, parse_duration, parse_iso, to_iso
from leyden.world.config import packaged_contract
from leyden.world.loopback import send_request

KEY = ((b"apikey", b"leyden"), (b"content-type", b"application/json"))

VALID = (
    "2030-01-01T09:00:00Z",
    "2028-02-29T23:59:59.999+14:00",
    "1971-01-01T00:00:00-01:30",
    "0000-02-29T00:00:00Z",
    "2016-12-31T23:59:60Z",
    "9999-12-31T23:59:59-23:59",
    "20300101T090000Z",
    "2030-W01-1T09Z",
    "90s",
    "1h30m",
    "999999999w",
    "2932897d",
    "999999ms",
    "0.001s",
)
ALPHABET = "0123456789TtZzWwsmhd:.,+-/_ \u0661\xdf\0"


@st.composite
def near_valid(draw: st.DrawFn) -> str:
    """A time or a duration with up to three characters replaced, inserted or removed."""
    text = draw(st.sampled_from(VALID))
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(text)))
        text = text[:place] + draw(st.sampled_from([*ALPHABET, ""])) + text[place + draw(st.integers(0, 1)) :]
    return text


# (method, path, body): the value replaces TEXT. A path with TEXT has it in its query.
TEXT = "TEXT"
DELAYED = {"status": 200, "delay": TEXT}
INTERCEPTOR = {"kind": "delay", "node": "shop", "delay": "1s"}
PLACES: tuple[tuple[str, str, Any], ...] = (
    *(
        ("get", f"{path}?{name}={TEXT}", None)
        for path in (
            "/v0/charges",
            "/v0/static-charges",
            "/v0/static-charges/{id}/charges",
            "/sandbox/v1/charges",
            "/sandbox/v1/static-charges",
            "/sandbox/v1/payments",
            "/sandbox/v1/deliveries",
        )
        for name in ("createdAfter", "createdBefore")
    ),
    ("get", f"/sandbox/v1/webhook-secret?at={TEXT}", None),
    ("post", "/sandbox/v1/reset", {"start": TEXT}),
    ("post", "/sandbox/v1/fork", {"ttl": TEXT}),
    ("post", "/sandbox/v1/clock/advance", {"by": TEXT}),
    ("post", "/sandbox/v1/clock/advance", {"to": TEXT}),
    ("post", "/sandbox/v1/network/interceptors", {**INTERCEPTOR, "delay": TEXT}),
    ("post", "/sandbox/v1/network/interceptors", {**INTERCEPTOR, "after": TEXT}),
    ("post", "/sandbox/v1/network/interceptors", {**INTERCEPTOR, "lasting": TEXT}),
    *(
        ("post", path, {name: TEXT})
        for path in ("/sandbox/v1/deliveries/replay", "/sandbox/v1/deliveries/{id}/replay")
        for name in ("at", "delay")
    ),
    ("put", "/sandbox/v1/inboxes/{name}/script", {"rules": [{"say": DELAYED}]}),
    ("put", "/sandbox/v1/inboxes/{name}/script", {"answers": [DELAYED]}),
    ("put", "/sandbox/v1/inboxes/{name}/script", {"always": DELAYED}),
    ("post", "/sandbox/v1/faults", {"kind": "delay", "delay": TEXT}),
    ("post", "/sandbox/v1/service-faults", {"kind": "slow_first_byte", "until": TEXT}),
    ("post", "/sandbox/v1/service-faults", {"kind": "slow_first_byte", "delay": TEXT}),
    ("post", "/sandbox/v1/service-faults", {"kind": "error", "operation": "getWallet", "retryAfter": TEXT}),
    ("post", "/sandbox/v1/payments", {"request": "lnbcrt1", "delay": TEXT}),
    ("post", "/sandbox/v1/payers", {"delay": TEXT}),
    ("post", "/sandbox/v1/payers", {"beforeExpiry": TEXT}),
    ("post", "/sandbox/v1/payers", {"afterExpiry": TEXT}),
)


def times_in(schema: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of the times and durations in a schema."""
    if not isinstance(schema, Mapping):
        return
    if schema.get("format") == "date-time" or "s|m" in schema.get("pattern", ""):
        yield path
    for name, child in schema.get("properties", {}).items():
        yield from times_in(child, (*path, name))
    for child in (schema.get("items"), *schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())):
        yield from times_in(child, path)


def documented() -> set[tuple[str, str, tuple[str, ...]]]:
    found = set()
    for name in ("charges", "sandbox"):
        for operation in packaged_contract(name).operations.values():
            for parameter in operation.parameters:
                found.update(
                    (operation.method, operation.path, (parameter.name,)) for _ in times_in(parameter.rule.schema)
                )
            body = None if operation.body is None else operation.body.rule.schema
            found.update((operation.method, operation.path, path) for path in times_in(body))
    return found


def path_of_text(value: Any, path: tuple[str, ...] = ()) -> tuple[str, ...] | None:
    if value == TEXT:
        return path
    children = (
        value.items()
        if isinstance(value, dict)
        else (("", child) for child in value)
        if isinstance(value, list)
        else ()
    )
    found = (path_of_text(child, (*path, name) if name else path) for name, child in children)
    return next((one for one in found if one is not None), None)


def test_every_time_of_the_documents_is_tried_here() -> None:
    here = {
        (method, path.partition("?")[0], path_of_text(body) or (path.partition("?")[2].partition("=")[0],))
        for method, path, body in PLACES
    }
    assert here == documented()


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(seed=7, network="line:3") as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def with_delivery() -> Iterator[Sandbox]:
    with Sandbox(seed=7) as sandbox:
        sandbox.charges.create(amount="1000", description="Tea", callbackUrl="http://shop.localhost/", expiresIn=1)
        sandbox.run("next_event")
        yield sandbox


@pytest.mark.parametrize("place", PLACES, ids=lambda place: f"{place[1]} {path_of_text(place[2]) or ''}")
def test_a_time_is_understood_or_refused(sandbox: Sandbox, with_delivery: Sandbox, place: tuple[str, str, Any]) -> None:
    method, path, body = place
    if "/deliveries/" in path:
        sandbox = with_delivery
        known = sandbox.deliveries.id.iloc[0]
    else:
        known = sandbox.static_charges.create(minAmount="1000", maxAmount="9000", description="Tips").id
    target = path.replace("{id}", known).replace("{name}", "shop")

    @given(near_valid())
    @example("2030-01-01T09:00:0/Z")
    @example("2+26-11-23T00:00:00Z")
    @example("999999999w")
    def check(text: str) -> None:
        sent = b"" if body is None else orjson.dumps(body).replace(orjson.dumps(TEXT), orjson.dumps(text))
        answer = send_request(sandbox.app, method.upper(), target.replace(TEXT, quote(text)), KEY, sent)
        assert answer.status in {200, 400, 409}, (text, answer.body)
        if answer.status == 400:
            assert orjson.loads(answer.body)["errors"][0]["pointer"]

    check()


@given(near_valid() | st.text(max_size=30))
def test_the_parsers_return_a_value_of_the_calendar_or_raise_value_error(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert parse_iso(to_iso(parse_iso(text))) == parse_iso(text)
    with contextlib.suppress(ValueError):
        assert 0 <= parse_iso(text, clamp=True) <= MAX_INSTANT_MS
    with contextlib.suppress(ValueError):
        assert abs(parse_duration(text)) <= MAX_INSTANT_MS


@pytest.mark.parametrize(
    ("text", "mended"), [("2030-01-02", "2030-01-02T00:00:00Z"), ("2030-W01-1", "2029-12-31T00:00:00Z")]
)
def test_a_date_without_a_time_gets_a_correction_that_works(text: str, mended: str) -> None:
    with pytest.raises(ValueError, match=f"is a date without a time: write both, for example {mended}$"):
        parse_iso(text)
    assert parse_iso(mended)
