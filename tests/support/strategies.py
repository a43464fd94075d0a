"""Deeds: what somebody may do to a sandbox, as plain values that Hypothesis makes up and shrinks."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from hypothesis import strategies as st

from leyden import Sandbox
from leyden.callbacks.replies import Reply
from leyden.server.errors import LeydenError
from leyden.world.snapshots import dump_world

Deed = tuple[Any, ...]

URL = "http://shop.localhost/paid"
_places = st.integers(0, 5)
_answers = st.sampled_from([200, 404, 410, 500, "timeout", "reset", Reply(503, delay="2s"), Reply(body="ä", delay=0.5)])

deeds: st.SearchStrategy[Deed] = st.one_of(
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


def do(sandbox: Sandbox, deed: Deed) -> None:
    """Do it; a refusal is as good as anything else."""
    word, *facts = deed
    # By their ids: other luck may give two worlds other charges, but never in another order.
    with suppress(LeydenError, ValueError, LookupError, ZeroDivisionError):
        if word == "create":
            amount, expires_in, url = facts
            optional = {} if url is None else {"callbackUrl": url}
            sandbox.charges.create(amount=amount, description="tea", expiresIn=expires_in, **optional)
        elif word == "static":
            sandbox.static_charges.create(
                minAmount="1000", maxAmount="9000", description="Tips", allowedSlots=facts[0], callbackUrl=URL
            )
        elif word == "pay":
            sandbox.wallet("ana").pay(_nth(sandbox.charges, facts[0]), outcome=facts[1], delay=facts[2])
        elif word == "scan":
            sandbox.wallet("bob").scan(_nth(sandbox.static_charges, facts[0]), amount=facts[1])
        elif word == "fail":
            _nth(sandbox.charges, facts[0]).fail()
        elif word == "slots":
            _nth(sandbox.static_charges, facts[0]).update(allowedSlots=3)
        elif word in ("settle", "cancel"):
            payment = _nth(sandbox.world.payments.rows, facts[0])["id"]
            sandbox.ask("POST", f"/sandbox/v1/payments/{payment}/{word}")
        elif word == "advance":
            sandbox.advance(facts[0])
        elif word == "edge":
            sandbox.advance_to(_nth(sandbox.charges, facts[0]).expires_at, offset=facts[1])
        elif word == "step":
            sandbox.step()
        elif word in ("idle", "next_event"):
            sandbox.run(word)
        elif word == "look":
            look(sandbox)
        elif word == "answers":
            sandbox.receiver("shop").answers(facts[0])
        elif word == "when":
            sandbox.receiver("shop").when(facts[0], attempt=facts[1], count=facts[2])
        elif word == "fault":
            sandbox.faults.add(facts[0], count=2)
        elif word == "clear":
            sandbox.faults.clear()
        elif word == "traffic":
            sandbox.traffic(facts[0], callbackUrl=URL, duration="10s")
        else:
            method, target, body = facts
            headers = {"apikey": "leyden", "content-type": "application/json"}
            sandbox.request(method, target, body, headers)


def look(sandbox: Sandbox) -> list[Any]:
    """Everything that a notebook shows without being asked."""
    shown: list[Any] = [repr(sandbox), sandbox._repr_html_(), sandbox.now, repr(sandbox.faults)]
    for collection in (sandbox.charges, sandbox.static_charges):
        shown += [repr(collection), *(repr(each) + each._repr_html_() + each.status for each in collection)]
    shown += [repr(sandbox.receiver("shop")), repr(sandbox.receiver("shop").inbox)]
    return shown


def state(sandbox: Sandbox) -> dict[str, Any]:
    """All there is to a sandbox, but for its name and for how it was made."""
    return {name: value for name, value in dump_world(sandbox.world).items() if name != "label"}


def _nth(things: Any, place: int) -> Any:
    found = list(things)
    return found[place % len(found)]
