"""Actions on a sandbox as plain values, which Hypothesis generates and shrinks."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from hypothesis import strategies as st

from leyden import Sandbox
from leyden.callbacks.replies import Reply
from leyden.server.errors import LeydenError
from leyden.world.snapshots.snapshots import dump_world

Action = tuple[Any, ...]

URL = "http://shop.localhost/paid"
_places = st.integers(0, 5)
_answers = st.sampled_from([200, 404, 410, 500, "timeout", "reset", Reply(503, delay="2s"), Reply(body="ä", delay=0.5)])

actions: st.SearchStrategy[Action] = st.one_of(
    st.tuples(
        st.just("create"),
        st.sampled_from(["1000", "250000", "7"]),
        st.sampled_from([1, 60, 600]),
        st.sampled_from([URL, None, "http://other.localhost/"]),
    ),
    st.tuples(st.just("static"), st.sampled_from([None, 1, 2])),
    st.tuples(
        st.just("pay"),
        _places,
        st.sampled_from(["settle", "hold", "wrong_secret", "overpay", "fail"]),
        st.sampled_from([0, "1500ms", "70s"]),
    ),
    st.tuples(st.just("scan"), _places, st.sampled_from([500, 2000])),
    st.tuples(st.sampled_from(["fail", "slots"]), _places),
    st.tuples(st.sampled_from(["settle", "cancel"]), _places),
    st.tuples(st.just("advance"), st.sampled_from([0, 0.001, 59, "1m", "1d"])),
    st.tuples(st.just("edge"), _places, st.sampled_from(["-1s", "0s", "+1s"])),
    st.tuples(st.sampled_from(["step", "idle", "next_event", "look"])),
    st.tuples(st.just("answers"), st.lists(_answers, max_size=3)),
    st.tuples(st.just("when"), _answers, st.sampled_from([None, 1]), st.sampled_from([1, None])),
    st.tuples(st.just("fault"), st.sampled_from(["drop", "duplicate", "bad_signature", "delay", "unheard of"])),
    st.tuples(st.just("clear")),
    st.tuples(st.just("traffic"), st.sampled_from(["every(2s)", "30/min"])),
    st.tuples(
        st.just("raw"),
        st.sampled_from(["GET", "POST", "PUT"]),
        st.sampled_from(["/v0/charges", "/v0/charges?limit=1", "/nowhere", "/sandbox/v1/deliveries/replay"]),
        st.sampled_from([b"", b"{}", b'{"amount": "1000", "description": "\xc3\xa9"}', b"\xff", b'{"a":1,"a":2}']),
    ),
)


def perform(sandbox: Sandbox, action: Action) -> None:
    """Perform an action; errors of the API are ignored."""
    name, *arguments = action
    # By position: other random numbers give other ids, but never another order.
    with suppress(LeydenError, ValueError, LookupError, ZeroDivisionError):
        if name == "create":
            amount, expires_in, url = arguments
            optional = {} if url is None else {"callbackUrl": url}
            sandbox.charges.create(amount=amount, description="tea", expiresIn=expires_in, **optional)
        elif name == "static":
            sandbox.static_charges.create(
                minAmount="1000", maxAmount="9000", description="Tips", allowedSlots=arguments[0], callbackUrl=URL
            )
        elif name == "pay":
            sandbox.wallet("ana").pay(_nth(sandbox.charges, arguments[0]), outcome=arguments[1], delay=arguments[2])
        elif name == "scan":
            sandbox.wallet("bob").scan(_nth(sandbox.static_charges, arguments[0]), amount=arguments[1])
        elif name == "fail":
            _nth(sandbox.charges, arguments[0]).fail()
        elif name == "slots":
            _nth(sandbox.static_charges, arguments[0]).update(allowedSlots=3)
        elif name in ("settle", "cancel"):
            payment = _nth(sandbox.world.payments.rows, arguments[0])["id"]
            sandbox.ask("POST", f"/sandbox/v1/payments/{payment}/{name}")
        elif name == "advance":
            sandbox.advance(arguments[0])
        elif name == "edge":
            sandbox.advance_to(_nth(sandbox.charges, arguments[0]).expires_at, offset=arguments[1])
        elif name == "step":
            sandbox.step()
        elif name in ("idle", "next_event"):
            sandbox.run(name)
        elif name == "look":
            displayed_state(sandbox)
        elif name == "answers":
            sandbox.receiver("shop").answers(arguments[0])
        elif name == "when":
            sandbox.receiver("shop").when(arguments[0], attempt=arguments[1], count=arguments[2])
        elif name == "fault":
            sandbox.faults.add(arguments[0], count=2)
        elif name == "clear":
            sandbox.faults.clear()
        elif name == "traffic":
            sandbox.traffic(arguments[0], callbackUrl=URL, duration="10s")
        else:
            method, target, body = arguments
            headers = {"apikey": "leyden", "content-type": "application/json"}
            sandbox.request(method, target, body, headers)


def displayed_state(sandbox: Sandbox) -> list[Any]:
    """The representations of the sandbox and of its parts that a notebook displays."""
    displayed: list[Any] = [repr(sandbox), sandbox._repr_html_(), sandbox.now, repr(sandbox.faults)]
    for collection in (sandbox.charges, sandbox.static_charges):
        displayed += [repr(collection), *(repr(each) + each._repr_html_() + each.status for each in collection)]
    displayed += [repr(sandbox.receiver("shop")), repr(sandbox.receiver("shop").inbox)]
    return displayed


def full_state(sandbox: Sandbox) -> dict[str, Any]:
    """The whole state of a sandbox, without its label."""
    return {name: value for name, value in dump_world(sandbox.world).items() if name != "label"}


def _nth(things: Any, place: int) -> Any:
    found = list(things)
    return found[place % len(found)]
