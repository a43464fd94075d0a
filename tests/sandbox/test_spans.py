"""Spans of time: every argument, field and option reads the same texts, and its refusal shows what is accepted."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from leyden import Sandbox
from leyden.arguments import option_span_ms
from leyden.callbacks.replies import Reply
from leyden.commands.served.fields import span_s, whole_seconds
from leyden.devserver.argument_types import callback_timeout, time_limit_s
from leyden.errors import ApiError, ArgumentError, InterceptError
from leyden.harness.options import seconds_of_option
from leyden.server.contract.document.yaml_loader import read_yaml
from leyden.server.contract.load import default_spec
from tests.support.deep import sampled

FORMS = 'or a span such as "90s", "1.5h" or "1h30m" (ms, s, m, h, d, w)'
SHORT = "is shorter than a millisecond, the unit of time: give at least '1ms'"
NETWORK = "star:6"


def charge(sandbox: Sandbox) -> Any:
    return sandbox.charges.create(amount="1000", description="tea")


PYTHON: dict[str, Callable[[Sandbox, Any], Any]] = {
    "advance": lambda sandbox, span: sandbox.advance(span),
    "advance_to": lambda sandbox, span: sandbox.advance_to("2031-01-01T00:00:00Z", offset=span),
    "run": lambda sandbox, span: sandbox.run(span),
    "pay": lambda sandbox, span: sandbox.wallet("ana").pay(charge(sandbox), delay=span),
    "fault": lambda sandbox, span: sandbox.faults.add("delay", delay=span),
    "service fault": lambda sandbox, span: sandbox.service_faults.add("slow_body", delay=span),
    "every": lambda sandbox, span: sandbox.every(span, lambda _: None),
    "reply": lambda sandbox, span: sandbox.receiver("shop").answers([Reply(delay=span)]),
    "payer": lambda sandbox, span: sandbox.payers.add(delay=span),
    "interceptor": lambda sandbox, span: sandbox.network.intercept("delay", delay=span),
}
CONTROL: dict[str, Callable[[Any], tuple[str, str, Any]]] = {
    "advance": lambda span: ("POST", "clock/advance", {"by": span}),
    "pay": lambda span: ("POST", "payments", {"request": "lnbcrt1", "delay": span}),
    "fault": lambda span: ("POST", "faults", {"kind": "delay", "delay": span}),
    "service fault": lambda span: ("POST", "service-faults", {"kind": "slow_body", "delay": span}),
    "payer": lambda span: ("POST", "payers", {"delay": span}),
    "script": lambda span: ("PUT", "inboxes/shop/script", {"answers": [{"delay": span}]}),
    "interceptor": lambda span: ("POST", "network/interceptors", {"kind": "delay", "node": "shop", "delay": span}),
}


@pytest.fixture(scope="module")
def routed() -> Sandbox:
    return Sandbox(seed=7, network=NETWORK)


def ask(sandbox: Sandbox, order: tuple[str, str, Any]) -> Any:
    method, path, body = order
    return sandbox.ask(method, f"/sandbox/v1/{path}", body)


@pytest.mark.parametrize("span", sampled(["1.5h", "0.5s", "1h30m", "1500.5ms", "0.25h10s", 2, 0.5], 2))
def test_every_argument_and_field_reads_the_same_spans(routed: Sandbox, span: str | float) -> None:
    for name, give in PYTHON.items():
        if name != "interceptor":
            give(routed, span)
    routed.network.intercept("delay", node="shop", delay=span)
    for order in CONTROL.values():
        ask(routed, order(span))


@pytest.mark.parametrize("span", ["soon", "5min", "1h 30m", "1,5h", ""])
def test_every_refusal_of_a_span_shows_what_is_accepted(routed: Sandbox, span: str) -> None:
    for give in PYTHON.values():
        with pytest.raises((ArgumentError, InterceptError)) as refused:
            give(routed, span)
        assert f"is not a duration: give seconds, {FORMS}" in str(refused.value)
    for order in CONTROL.values():
        with pytest.raises(ApiError) as rejected:
            ask(routed, order(span))
        assert rejected.value.status == 400
        assert FORMS in str(rejected.value)
        assert f'write "{span}"' not in str(rejected.value), "what was refused is no correction"


@pytest.mark.parametrize("span", ["0.4ms", "0.0001s", 0.0004, "0.6ms", 0.0006, "0.999ms"])
def test_a_span_of_less_than_a_millisecond_is_refused_everywhere(routed: Sandbox, span: str | float) -> None:
    for give in PYTHON.values():
        with pytest.raises((ArgumentError, InterceptError), match=SHORT):
            give(routed, span)
    before = routed.now
    for order in CONTROL.values():
        with pytest.raises(ApiError, match="is shorter than a millisecond") as refused:
            ask(routed, order(span))
        assert refused.value.status in {400, 409}
    assert routed.now == before


def test_a_span_that_a_rule_cannot_have_is_refused_with_its_bounds(sandbox: Sandbox) -> None:
    for name in ("fault", "service fault", "payer"):
        least = "0" if name == "payer" else "1 ms"
        for span in ("53w", "400d", "2932896d", "2932897d", "999999999w"):
            with pytest.raises(ApiError, match=rf"409.*delay='{span}' is out of bounds: give {least} to 366 days"):
                ask(sandbox, CONTROL[name](span))
        for span in (f"{least}s" if least == "0" else "1ms", "366d"):
            ask(sandbox, CONTROL[name](span))
    with pytest.raises(ApiError, match=r"400.*is too long"):
        ask(sandbox, CONTROL["pay"]("999999999w"))
    assert sandbox.ask("GET", "/sandbox/v1/payments")["data"] == []


@pytest.mark.parametrize("span", ["0s", "53w", "99999d", "2932896d", "999999999w"])
def test_a_refusal_names_bounds_that_are_accepted(routed: Sandbox, span: str) -> None:
    """Of every argument and every field but those of the clock, which moves."""
    moves = {"advance", "advance_to", "run"}
    ways: list[Callable[[Any], Any]] = [partial(give, routed) for name, give in PYTHON.items() if name not in moves]
    ways += [partial(_order, routed, order) for name, order in CONTROL.items() if name not in moves]
    kinds = (("faults", "future_timestamp"), ("faults", "reorder"), ("service-faults", "past_date"))
    ways += [partial(_order, routed, partial(_delay_of, path, kind)) for path, kind in kinds]
    ways += [time_limit_s(20), callback_timeout]
    refusals = []
    for give in ways:
        try:
            give(span)
        except (ArgumentError, InterceptError, ApiError, argparse.ArgumentTypeError) as error:
            refusals.append((give, str(error).replace(span, "")))
    assert refusals
    for give, text in refusals:
        bounds = re.findall(r"\b(\d+) ?(ms|s|d|w|days|seconds)\b", text)
        assert bounds or span == "0s", text
        for number, unit in bounds:
            give(f"{number}{unit if unit == 'ms' else unit[0]}")


def _order(sandbox: Sandbox, order: Callable[[Any], tuple[str, str, Any]], span: Any) -> Any:
    return ask(sandbox, order(span))


def _delay_of(path: str, kind: str, span: Any) -> tuple[str, str, Any]:
    return "POST", path, {"kind": kind, "delay": span}


def test_every_option_reads_the_same_spans() -> None:
    for text, span_ms in (("1.5h", 5_400_000), ("90", 90_000), ("0.5", 500), ("1h30m", 5_400_000), ("2500ms", 2_500)):
        assert option_span_ms(text) == span_ms
        assert span_s(text) == span_ms / 1_000
        assert seconds_of_option(text) == span_ms / 1_000
    assert (callback_timeout("0.5"), callback_timeout("1.5s")) == (500, 1_500)
    assert (time_limit_s(600)("1.5m"), time_limit_s(600)("90")) == (90, 90)
    assert (whole_seconds("10m"), whole_seconds("600"), whole_seconds("1.5s"), whole_seconds("x")) == (
        600, 600, "1.5s", "x",
    )  # fmt: skip
    for read in (span_s, callback_timeout, time_limit_s(600), seconds_of_option):
        for text in ("soon", "5min", "", "²", "1."):
            with pytest.raises(argparse.ArgumentTypeError) as refused:
                read(text)
            assert str(refused.value).endswith(f"is not a duration: give seconds, {FORMS}")


SECONDS = {
    "pay": 31_557_600_000, "fault": 31_622_400, "service fault": 31_622_400, "payer": 31_622_400,
    "script": 31_557_600_000, "interceptor": 1_209_600,
}  # fmt: skip


@pytest.mark.parametrize("name", SECONDS)
def test_a_span_over_http_has_one_bound_which_the_refusal_names(routed: Sandbox, name: str) -> None:
    longest = SECONDS[name]
    for span in (longest, f"{longest // 86_400}d"):
        method, path, body = CONTROL[name](span)
        if name == "pay":
            body["request"] = charge(routed).request
        ask(routed, (method, path, body))
    with pytest.raises(ApiError) as refused:
        ask(routed, CONTROL[name](longest + 1))
    if name == "interceptor":  # the schema's bound is that of other delays
        assert "at most 14d" in str(refused.value)
    else:
        assert refused.value.status == 400
        assert re.search(rf"\b{longest} \(", str(refused.value))
    with pytest.raises(ApiError, match=r"366 ?d|365250d|14d"):
        ask(routed, CONTROL[name](f"{longest // 86_400}d1s"))


def spans_in(node: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """The schemas of numbers of spans in a document, each with the words of its refusal."""
    if isinstance(node, dict):
        forms = node.get("anyOf", [])
        if any("(?:ms|s|m|h|d|w)" in one.get("pattern", "") for one in forms):
            yield next(one for one in forms if one["type"] == "number"), node["x-expect"]
        for each in node.values():
            yield from spans_in(each)
    elif isinstance(node, list):
        for each in node:
            yield from spans_in(each)


def test_every_span_of_the_documents_is_refused_with_its_bound() -> None:
    documents = [read_yaml(default_spec(name).read_bytes(), name) for name in ("sandbox", "server")]
    found = [each for document in documents for each in spans_in(document)]
    assert len(found) == 7
    for number, words in found:
        assert re.search(rf"\b{number['maximum']} \(", words), words


def test_an_advance_or_a_replay_of_more_seconds_than_there_are_is_refused_with_their_number(sandbox: Sandbox) -> None:
    for path, field in (("clock/advance", "by"), ("deliveries/replay", "delay")):
        with pytest.raises(ApiError, match=rf"400.*/{field}: expected seconds from 0 to 32503679999 [(]"):
            sandbox.ask("POST", f"/sandbox/v1/{path}", {field: 32_503_680_000})
    sandbox.ask("POST", "/sandbox/v1/clock/advance", {"by": 32_503_679_999})
    assert str(sandbox.now) == "2999-12-31T23:59:59.000Z"
