"""Drawings show the events, and no external text can break them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leyden import Sandbox
from leyden.lab.drawings import (
    Drawing,
    DrawingError,
    lifecycle,
    network,
    qr,
    schedule,
    sequence,
    timeline,
)
from leyden.lab.drawings.charge_events import charge_events
from leyden.lab.drawings.networks import compact
from leyden.lab.drawings.svg import COLOURS, sat
from leyden.lab.drawings.text_metrics import PLAIN, TextRun, clean, clip, mermaid_text, text_width, wrap_runs
from tests.support.examples import examples

SVG = "{http://www.w3.org/2000/svg}"
START = "2030-01-01T09:00:00Z"
HOSTILE = (
    '<script>alert(1)</script>]]> <b onload=x> \u202edrawkcab\u202c \x00\x1b \n alone\r end; #quote" `x` %% '
    "👩\u200d👩\u200d👧🎉 אבג ﷽ Z\u0337\u0327\u0322\u0321algo &amp;"
)
# What strangers write, and what they write when they are no friends.
texts = st.text(max_size=200) | st.text(
    st.sampled_from("<>\"'&`;#%{}[]()|$\\end \n\r\u202e\u2067\x00é漢👩\u200d"), max_size=120
)


def sold(
    description: str = "Coffee", payer: str = "ana", answers: tuple[int | str, ...] = (), *, expires_in: int = 300
) -> tuple[Sandbox, str]:
    """A Charge that was paid after twelve seconds, whose callback gets these responses."""
    sandbox = Sandbox(seed=7, start=START)
    sandbox.receiver("shop").answers(list(answers))
    url = "http://shop.localhost/paid?a='&b=1"
    charge = sandbox.charges.create(amount="250000", description=description, expiresIn=expires_in, callbackUrl=url)
    sandbox.wallet(payer).pay(charge, delay="12s")
    sandbox.run()
    return sandbox, charge.id


def fresh() -> tuple[Sandbox, str]:
    sandbox = Sandbox(seed=7, start=START)
    return sandbox, sandbox.charges.create(amount="250000", description="Coffee", expiresIn=300).id


def crowded() -> tuple[Sandbox, str]:
    """A Charge with many failed payments."""
    sandbox = Sandbox(seed=7, start="2030-01-01T23:59:00Z")
    url = "http://shop.localhost/paid"
    charge = sandbox.charges.create(amount="250000", description="Late", expiresIn=60, callbackUrl=url)
    sandbox.wallet("bob").pay(charge, delay="60s")
    sandbox.wallet("ana").pay(charge, delay="10s", outcome="hold")
    for name in ("cy", "dee", "eve", "fay"):
        sandbox.wallet(name).pay(charge, delay="5s", outcome="underpay")
    sandbox.run()
    return sandbox, charge.id


def travelled(shape: str, *payers: str, seed: int = 7, amount: str = "2000000") -> tuple[Sandbox, str]:
    sandbox = Sandbox(seed=seed, start=START, network=shape)
    charge = sandbox.charges.create(amount=amount, description="TV", expiresIn=300)
    for payer in payers:
        sandbox.wallet(payer).pay(charge)
    sandbox.run("5m")
    return sandbox, charge.id


def everything(sandbox: Sandbox, charge_id: str) -> dict[str, Drawing]:
    world = sandbox.world
    return {
        "timeline": timeline(world, charge_id),
        "sequence": sequence(world, charge_id),
        "lifecycle of one": lifecycle(world, "Charge", charge_id),
        "lifecycle of all": lifecycle(world, "Charge"),
        "static lifecycle": lifecycle(world, "StaticCharge"),
        "network": network(world),
        "schedule": schedule(world),
        "qr": qr(world.service.charges.charges.existing(charge_id)["request"]),
    }


# What may stand in a picture

ELEMENTS = {"svg", "g", "defs", "marker", "title", "desc", "text", "tspan", "rect", "line", "path", "circle"}


def assert_tame(drawing: Drawing) -> None:
    """Well-formed XML of known elements, without scripts, links or invisible characters."""
    for form in (drawing.svg, drawing.svg_with_background, drawing._repr_html_()):
        for element in ElementTree.fromstring(form).iter():
            assert element.tag.removeprefix(SVG) in ELEMENTS | {"div"}, element.tag
            for name, value in element.attrib.items():
                assert not name.lower().startswith("on")
                assert "href" not in name
                assert name != "src"
                assert "url(" not in value or re.fullmatch(r"url\(#diagram-[A-Za-z]+(-taken)?-head\)", value), value
                if name == "style":
                    assert value in {"max-width:100%;height:auto", "overflow-x:auto;max-width:100%"}
    for form in (drawing.svg, drawing.mermaid or "", drawing.text):
        unseen = {letter for letter in form if unicodedata.category(letter) in {"Cc", "Cf", "Cs", "Co", "Cn"}}
        assert unseen <= {"\n", "\u200d"}


def written(
    svg: ElementTree.Element, x: float = 0.0, y: float = 0.0
) -> Iterator[tuple[str, float, float, float, float]]:
    """Every line of text as (text, left, top, right, bottom), with the width of the widest usual font."""
    for child in svg:
        if child.tag == f"{SVG}svg":
            yield from written(child, x + float(child.attrib["x"]), y + float(child.attrib["y"]))
        elif child.tag == f"{SVG}text":
            spans = list(child.iter(f"{SVG}tspan"))
            size = float(child.attrib.get("font-size", "11"))
            if spans and "x" in spans[0].attrib:  # the lifecycle's labels, a line each
                lines = [([span], float(span.attrib["x"]), float(span.attrib["y"])) for span in spans]
            else:
                lines = [(spans, float(child.attrib["x"]), float(child.attrib["y"]))]
            for parts, left, foot in lines:
                mono = "class" in child.attrib or "font-family" in child.attrib
                wide = sum(
                    text_width(
                        part.text or "",
                        size,
                        bold=part.attrib.get("font-weight") == "600",
                        mono=mono or "font-family" in part.attrib,
                    )
                    for part in parts
                )
                wide = wide or text_width(child.text or "", size)
                left -= {"start": 0.0, "middle": wide / 2, "end": wide}[child.attrib.get("text-anchor", "start")]
                text = "".join(part.text or "" for part in parts)
                yield text, x + left, y + foot - 0.72 * size, x + left + wide, y + foot + 0.2 * size
        else:
            yield from written(child, x, y)


def assert_legible(drawing: Drawing) -> None:
    """No two lines of text overlap, and none is outside the drawing."""
    svg = ElementTree.fromstring(drawing.svg)
    width, height = float(svg.attrib["width"]), float(svg.attrib["height"])
    lines = list(written(svg))
    for text, left, top, right, bottom in lines:
        assert min(left, top, width + 1 - right, height - bottom) >= 0, (text, left, top, right, bottom)
    for one, other in combinations(lines, 2):
        apart = one[3] <= other[1] or other[3] <= one[1] or one[4] <= other[2] or other[4] <= one[2]
        assert apart, (one, other)


WORLDS: dict[str, Callable[[], tuple[Sandbox, str]]] = {
    "sold": sold,
    "fresh": fresh,
    "crowded": crowded,
    "spent": lambda: sold(answers=(500, "timeout", 503, "reset", 500, 404, 500, 500, 500, 500)),
    "long": lambda: sold("Lightning " * 63 + "endofdesc", "a payer with a very long name, twice over"),
    "hostile": lambda: sold(HOSTILE, HOSTILE),
    "line:2": lambda: travelled("line:2", "ana"),
    "line:20": lambda: travelled("line:20", "ana"),
    "star:12": lambda: travelled("star:12", "ana", HOSTILE),
    "hub:50": lambda: travelled("hub:50", "ana", "bob"),
    "scale-free:400": lambda: travelled("scale-free:400", *(f"payer-{number}" for number in range(20))),
}


@pytest.mark.parametrize("name", WORLDS)
def test_every_drawing_of_every_world_is_safe_and_legible(name: str) -> None:
    for drawing in everything(*WORLDS[name]()).values():
        assert_tame(drawing)
        assert_legible(drawing)


@examples(25, bounded=8)
@given(description=texts, payer=texts, later=texts)
def test_no_external_text_breaks_a_drawing(description: str, payer: str, later: str) -> None:
    sandbox = Sandbox(seed=7, start=START)
    url = "http://shop.localhost/paid"
    charge = sandbox.world.service.charges.issue(
        project="default", amount_msat=1_000, description=description.encode("utf-8", "replace").decode()[:639],
        expiry_s=60, callback_url=url,
    )  # fmt: skip
    with sandbox.world.exclusive():
        sandbox.world.payments.pay(charge["request"], payer=payer or "x", scheduled=True)
        sandbox.world.payments.pay(charge["request"], payer=later or "y", delay_ms=90_000)
    sandbox.receiver("shop").answers([500])
    sandbox.advance("2s")
    for drawing in everything(sandbox, charge["id"]).values():
        assert_tame(drawing)
        assert_legible(drawing)


@pytest.mark.parametrize("name", ["sold", "crowded", "scale-free:400"])
def test_the_same_world_gives_the_same_bytes(name: str) -> None:
    one, other = everything(*WORLDS[name]()), everything(*WORLDS[name]())
    assert one == other


@pytest.mark.parametrize("name", ["fresh", "crowded", "scale-free:400"])
def test_drawing_changes_nothing(name: str) -> None:
    sandbox, charge_id = WORLDS[name]()
    before = sandbox.world.journal.hash, sandbox.world.clock.snapshot(), sandbox.world.streams.snapshot()
    everything(sandbox, charge_id)
    assert before == (sandbox.world.journal.hash, sandbox.world.clock.snapshot(), sandbox.world.streams.snapshot())


@pytest.mark.parametrize("colour", [colour for tone, colour in COLOURS.items() if tone != PLAIN])
def test_every_colour_has_contrast_on_white_and_on_near_black(colour: str) -> None:
    def light(code: str) -> float:
        parts = [int(code[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for paper in ("#ffffff", "#1e1e1e", "#111111"):
        bright, dark = sorted((light(colour), light(paper)), reverse=True)
        assert (bright + 0.05) / (dark + 0.05) >= 3


# The timeline and the sequence


def test_a_timeline_says_that_a_payment_is_in_flight() -> None:
    with Sandbox(5, network="scale-free:60") as sb:
        sb.traffic("20/min", count=150, amount="lognorm(20000000,1)")
        sb.run("1h")
        [charge_id] = sb.payments[sb.payments.status == "in_flight"].charge_id
        charge = sb.charges[charge_id]
        assert charge.timeline().text.splitlines()[-1].endswith("now, and a payment is in flight --")
        assert "next event of the network" in sb.schedule().text
        sb.run()
        assert charge.timeline().text.splitlines()[-1].endswith("now, and nothing is scheduled --")


def test_a_timeline_shows_a_sale_from_the_charge_to_the_callback() -> None:
    sandbox, charge_id = sold(answers=(500, 200))
    shown = [line.strip() for line in timeline(sandbox.world, charge_id).text.splitlines()][1:]
    assert shown == [
        "09:00:00.000  service   creates the Charge → pending  250 sat, expires at 09:05:00.000 · “Coffee”",
        f"node      issues the invoice  {sandbox.charges[charge_id].request[:17]}…",
        "payer     ana will pay 250 sat  in 12 s",
        "+ 12 s",
        "09:00:12.000  payer     ana pays 250 sat",
        "node      ana's HTLC arrives  250 sat",
        "service   invoice settled  received 250 sat",
        "service   completed  by payment_settled",
        "payer     ana's HTLC: preimage  returned",
        "payer     ana: SUCCEEDED  paid 250 sat",
        "callback  callback 1 → 500  charge.completed to http://shop.localhost/paid?a='&b=1",
        "+ 4 s 490 ms",
        "09:00:16.490  callback  callback 2 → 200 · delivered",
        "09:00:16.490  -- now, and nothing is scheduled --",
    ]


def test_events_of_one_instant_are_ordered_by_cause_and_effect() -> None:
    sandbox, charge_id = crowded()
    last = [
        step.text for step in charge_events(sandbox.world, charge_id).events if step.at == sandbox.world.clock.now()
    ]
    assert last == [
        "bob pays 250 sat",
        "bob's HTLC arrives",
        "bob's HTLC: the node says incorrect_or_unknown_payment_details",
        "bob: INCORRECT_PAYMENT_DETAILS",
        "invoice closed",
        "ana's HTLC: the node says incorrect_or_unknown_payment_details",
        "ana: INCORRECT_PAYMENT_DETAILS",
        "expired",
        "callback 1",
    ]


def test_a_payment_started_in_the_instant_of_the_expiry_comes_after_it() -> None:
    sandbox, charge_id = fresh()
    charge = sandbox.charges[charge_id]
    sandbox.advance_to(charge.expires_at)
    sandbox.wallet("bob").pay(charge)
    sandbox.run()
    last = [
        step.text for step in charge_events(sandbox.world, charge_id).events if step.at == sandbox.world.clock.now()
    ]
    assert last == [
        "invoice closed",
        "expired",
        "bob pays 250 sat",
        "bob's HTLC arrives",
        "bob's HTLC: the node says incorrect_or_unknown_payment_details",
        "bob: INCORRECT_PAYMENT_DETAILS",
    ]


@pytest.mark.parametrize("network", ["direct", "line:4"])
@pytest.mark.parametrize("outcome", ["settle", "fail"])
def test_a_delayed_payment_is_scheduled_first_and_starts_later(network: str, outcome: str) -> None:
    sandbox = Sandbox(seed=1, network=network, conditions=None if network == "direct" else "ideal")
    charge = sandbox.charges.create(amount="1000", description="tea")
    payment, start = sandbox.wallet("ana").pay(charge, delay="30s", outcome=outcome), sandbox.world.clock.now()

    def payer_lines() -> list[str]:
        drawn = charge_events(sandbox.world, charge.id).events
        return [f"{(step.at - start) // 1_000} {step.text}" for step in drawn if "ana " in step.text]

    def journal() -> list[tuple[str, int]]:
        found = list(sandbox.world.journal.entries(subject=payment.id))[:2]
        return [(entry.kind, entry.at_ms - start) for entry in found]

    sandbox.run("10s")
    assert payer_lines() == ["0 ana will pay 1 sat"]
    assert journal() == [("payment_scheduled", 0)]
    sandbox.run("21s")
    assert payer_lines() == ["0 ana will pay 1 sat", "30 ana pays 1 sat"]
    assert journal() == [("payment_scheduled", 0), ("payment_started", 30_000)]
    [row] = sandbox.payments.to_dict("records")
    assert (row["starts_at"] - row["created_at"]).total_seconds() == 30
    again = Sandbox.from_snapshot(sandbox.snapshot())
    assert again.journal_hash == sandbox.journal_hash


def test_three_days_and_two_milliseconds_fit_in_one_drawing() -> None:
    sandbox, charge_id = WORLDS["spent"]()
    drawing = timeline(sandbox.world, charge_id)
    assert sandbox.world.clock.now() - charge_events(sandbox.world, charge_id).events[0].at > 60 * 3_600_000
    assert float(ElementTree.fromstring(drawing.svg).attrib["height"]) < 1_400
    assert [int(found) for found in re.findall(r"callback (\d+) →", drawing.text)] == [1, 3, 4, 5, 6, 7, 8, 9, 10]
    assert "callback 2: timeout  after 15 s" in drawing.text
    assert "exhausted after 10 attempts" in drawing.text


def arrows(sandbox: Sandbox, charge_id: str) -> list[str]:
    """The messages between the service and the receiver in the sequence diagram, each as `--> text` or `<-- text`."""
    lines = sequence(sandbox.world, charge_id).text.splitlines()[1:]
    found = (re.search(r"service (-->|<--) (?:shop|127[.]0[.]0[.]1)  +(.*)", line) for line in lines)
    return [f"{match[1]} {match[2].split('  ')[0]}" for match in found if match is not None]


@pytest.mark.parametrize(
    ("answer", "drawn"),
    [
        (200, ["--> callback 1", "<-- 200 · delivered"]),
        ("timeout", ["--> callback 1 sent"]),
        ("refused", ["--> callback 1: refused"]),
        ("unresolved", []),
        ("reset", ["--> callback 1", "<-- reset"]),
        ("tls", ["--> callback 1: tls"]),
    ],
)
def test_an_arrow_is_what_was_sent_or_came_back(answer: int | str, drawn: list[str]) -> None:
    sandbox = Sandbox(seed=7, start=START)
    sandbox.receiver("shop").answers([answer])
    charge = sandbox.charges.create(amount="250000", description="Tea", callbackUrl="http://shop.localhost/paid")
    sandbox.wallet("ana").pay(charge)
    sandbox.advance("16s")
    assert arrows(sandbox, charge.id)[: len(drawn)] == drawn
    assert [line for line in arrows(sandbox, charge.id)[len(drawn) :] if "callback 1" in line] == []
    assert "callback 1" in timeline(sandbox.world, charge.id).text
    if not drawn:
        assert "service   callback 1: unresolved" in timeline(sandbox.world, charge.id).text


def test_an_attempt_that_was_never_sent_is_no_arrow() -> None:
    sandbox = Sandbox(seed=7, start=START)
    sandbox.faults.add("drop")
    charge = sandbox.charges.create(amount="250000", description="Tea", callbackUrl="http://shop.localhost/paid")
    sandbox.wallet("ana").pay(charge)
    sandbox.advance("2s")
    assert arrows(sandbox, charge.id) == []
    assert "callback 1 is dropped by a fault" in timeline(sandbox.world, charge.id).text
    assert re.search(r"09:00:15[.]000  service +callback 1 times out", timeline(sandbox.world, charge.id).text)
    assert re.search(r"dropped +09:00:00[.]000", schedule(sandbox.world).text)
    sandbox.advance("15s")
    assert "callback 1: timeout  after 15 s" in timeline(sandbox.world, charge.id).text
    assert [line for line in arrows(sandbox, charge.id) if "callback 1" in line] == []
    blocked = sandbox.charges.create(amount="250000", description="Tea", callbackUrl="http://127.0.0.1:1080/paid")
    sandbox.wallet("ana").pay(blocked)
    sandbox.run()
    assert arrows(sandbox, blocked.id) == []
    assert re.search(r"callback 1: blocked  (?!· blocked)", timeline(sandbox.world, blocked.id).text)


def test_a_blocked_message_has_no_copy_and_a_later_copy_is_scheduled() -> None:
    sandbox = Sandbox(seed=7, start=START)
    sandbox.faults.add("simultaneous")
    blocked = sandbox.charges.create(amount="250000", description="Tea", callbackUrl="http://127.0.0.1:1080/paid")
    sandbox.wallet("ana").pay(blocked)
    sandbox.run()
    assert arrows(sandbox, blocked.id) == []
    assert "copy" not in timeline(sandbox.world, blocked.id).text
    sandbox.receiver("shop").answers([200, "refused"])
    refused = sandbox.charges.create(amount="250000", description="Tea", callbackUrl="http://shop.localhost/paid")
    sandbox.wallet("ana").pay(refused)
    sandbox.run()
    shown = timeline(sandbox.world, refused.id).text
    assert "copy: refused" in shown
    assert "had no effect on callback 1" in shown
    sandbox.faults.add("redeliver", delay="1h")
    later = sandbox.charges.create(amount="250000", description="Tea", callbackUrl="http://shop.localhost/paid")
    sandbox.wallet("ana").pay(later)
    sandbox.advance("1m")
    assert re.search("copy is due +by a fault", timeline(sandbox.world, later.id).text)
    assert "nothing is scheduled" not in timeline(sandbox.world, later.id).text


@pytest.mark.parametrize(
    ("latency", "fault", "wait"),
    [
        ("10s", {}, "09:00:10.000  service   shop responds to callback 1"),
        ("20s", {}, "09:00:15.000  service   callback 1 times out"),
        ("", {"kind": "drop"}, "09:00:15.000  service   callback 1 times out"),
        ("", {"kind": "redeliver", "delay": "30s"}, "09:00:30.000  callback  copy is due"),
    ],
)
def test_what_an_attempt_waits_for_is_the_same_in_the_timeline_and_the_schedule(
    latency: str, fault: dict[str, str], wait: str
) -> None:
    sandbox = Sandbox(seed=7, start=START)
    if latency:
        sandbox.receiver("shop").behaves(latency=latency)
    if fault:
        sandbox.faults.add(**fault)
    charge = sandbox.charges.create(amount="250000", description="Tea", callbackUrl="http://shop.localhost/paid")
    sandbox.wallet("ana").pay(charge)
    sandbox.advance("5s")
    for drawing in (charge.timeline(), sandbox.schedule()):
        assert drawing.text.count(wait) == 1
        assert "a fault applies" not in drawing.text
    assert "-- now --" in charge.timeline().text


@pytest.mark.parametrize("kind", ["duplicate", "simultaneous", "duplicate_new_id"])
def test_the_copy_of_a_fault_is_an_arrow_of_its_own(kind: str) -> None:
    sandbox = Sandbox(seed=7, start=START)
    sandbox.faults.add(kind)
    charge = sandbox.charges.create(amount="250000", description="Tea", callbackUrl="http://shop.localhost/paid")
    sandbox.wallet("ana").pay(charge)
    sandbox.run()
    posts = len(sandbox.receiver("shop").inbox)
    assert posts == 2
    assert sum(line.startswith("--> ") for line in arrows(sandbox, charge.id)) == posts
    assert "--> copy sent" in arrows(sandbox, charge.id)
    assert re.search("shop --> service +copy: 200", sequence(sandbox.world, charge.id).text)


def test_a_new_charge_shows_that_it_will_expire() -> None:
    sandbox, charge_id = fresh()
    assert timeline(sandbox.world, charge_id).text.splitlines()[-3:] == [
        "09:00:00.000  -- now --",
        "              + 5 min",
        "09:05:00.000  service   expires  if it is not paid before",
    ]


def test_scheduled_events_are_hollow_and_below_the_present() -> None:
    sandbox, charge_id = fresh()
    sandbox.wallet("ana").pay(sandbox.charges[charge_id], delay="1m")
    svg = ElementTree.fromstring(timeline(sandbox.world, charge_id).svg)
    now = next(top for text, _, top, _, _ in written(svg) if text == "now")
    hollow = [float(c.attrib["cy"]) for c in svg.iter(f"{SVG}circle") if c.attrib["fill"] == "none"]
    assert len(hollow) == 3  # the payment, the end of its payer's patience, the expiry
    assert min(hollow) > now


def test_a_long_timeline_says_how_many_events_are_left_out() -> None:
    sandbox, charge_id = WORLDS["scale-free:400"]()
    story = charge_events(sandbox.world, charge_id)
    assert story.omitted > 0
    for drawing in (timeline(sandbox.world, charge_id), sequence(sandbox.world, charge_id)):
        assert f"{story.omitted} events" in drawing.text
        assert f"{story.omitted} events are left out here" in "".join(ElementTree.fromstring(drawing.svg).itertext())


def test_a_sequence_has_a_line_for_every_participant() -> None:
    sandbox, charge_id = crowded()
    drawing = sequence(sandbox.world, charge_id)
    assert drawing.mermaid is not None
    named = re.findall(r"(?:actor|participant) p\d+ as (.*)", drawing.mermaid)
    # Four columns for payers at most: the fourth is everybody else's.
    assert named == ["bob", "ana", "cy", "others", "node", "service", "your program", "shop"]


def through_a_hub(outcome: str = "settle") -> tuple[Sandbox, str]:
    """A network of three nodes in a row, with enough on either side."""
    from leyden.lightning.topology.graph import from_edges

    row = from_edges([("ana", "hub", 1_000_000), ("hub", "shop", 1_000_000)])
    sandbox = Sandbox(seed=7, start=START, network=row)
    charge = sandbox.charges.create(amount="1000", description="TV", expiresIn=300)
    sandbox.wallet("ana").pay(charge, outcome=outcome)
    sandbox.advance("20s")
    return sandbox, charge.id


def test_a_payment_over_the_network_is_in_the_lane_of_its_hops() -> None:
    sandbox, charge_id = through_a_hub()
    shown = timeline(sandbox.world, charge_id).text
    assert "hops      ana's HTLC sent  1 sat via hub → shop, fee 1 sat" in shown
    assert "node      ana's HTLC arrives" in shown
    assert "payer     ana: SUCCEEDED" in shown


def test_a_fault_and_a_replay_are_events() -> None:
    sandbox = Sandbox(seed=7, start=START)
    charge = sandbox.charges.create(amount="1000", description="x", callbackUrl="http://shop.localhost/")
    sandbox.faults.add("duplicate", charge=charge)
    sandbox.wallet("ana").pay(charge)
    sandbox.advance("1s")
    delivery = sandbox.world.service.outbox.deliveries(charge.id)[0]["id"]
    sandbox.ask("POST", f"/sandbox/v1/deliveries/{delivery}/replay")
    sandbox.advance("1s")
    shown = timeline(sandbox.world, charge.id).text
    assert "fault: duplicate  applies to callback 1" in shown
    assert shown.index("replay  the message is sent again") < shown.index("callback 2 → 200")


@pytest.mark.parametrize("draw", [timeline, sequence])
def test_an_unknown_id_is_refused_with_what_to_draw_instead(draw: Callable[..., Drawing]) -> None:
    sandbox = Sandbox(seed=7)
    with pytest.raises(DrawingError, match="no Charge 'nobody' in this world"):
        draw(sandbox.world, "nobody")
    tips = sandbox.static_charges.create(minAmount="1000", maxAmount="5000", description="Tips")
    with pytest.raises(DrawingError, match=r"is a Static Charge.*wait for its first payer"):
        draw(sandbox.world, tips.id)
    sandbox.wallet("ana").scan(tips, amount=2_000)
    with pytest.raises(DrawingError, match=f"the newest is {tips.charges[0].id}"):
        draw(sandbox.world, tips.id)
    assert "asks for an invoice → pending" in timeline(sandbox.world, tips.charges[0].id).text


# The lifecycle


def test_a_lifecycle_marks_the_transitions_of_one_charge() -> None:
    sandbox, charge_id = sold()
    drawing = lifecycle(sandbox.world, "Charge", charge_id)
    assert "  pending --payment_settled--> completed  09:00:12.000" in drawing.text.splitlines()
    svg = ElementTree.fromstring(drawing.svg)
    marked = [
        "".join(group.itertext())
        for group in svg.iter(f"{SVG}g")
        if any(path.attrib.get("marker-end", "").endswith("-taken-head)") for path in group.findall(f"{SVG}path"))
    ]
    assert marked == ["payment_settled [before_expiry] · 09:00:12.000"]


def test_a_lifecycle_of_all_counts_the_transitions() -> None:
    sandbox = Sandbox(seed=7, start=START)
    for place in range(5):
        charge = sandbox.charges.create(amount="1000", description="x", expiresIn=60)
        if place < 3:
            sandbox.wallet("ana").pay(charge)
    sandbox.run()
    sandbox.charges.create(amount="1000", description="x")
    shown = lifecycle(sandbox.world, "Charge").text.splitlines()
    assert shown[0] == "6 Charges"
    assert "  pending --payment_settled--> completed  3 ×" in shown
    assert "  pending --expiry_reached--> expired  2 ×" in shown
    assert "  pending: 1 now" in shown


def test_a_lifecycle_shows_a_static_charge_disabled_and_reopened() -> None:
    sandbox = Sandbox(seed=7, start=START)
    tips = sandbox.static_charges.create(minAmount="1000", maxAmount="5000", description="Tips", allowedSlots=1)
    sandbox.wallet("ana").scan(tips, amount=2_000)
    sandbox.advance("1s")
    tips.update(allowedSlots=2)
    shown = lifecycle(sandbox.world, "StaticCharge", tips.id).text
    assert "active --slots_filled--> disabled  09:00:00.000" in shown
    assert "disabled --slots_reopened--> active  09:00:01.000" in shown


def test_a_reopened_world_draws_from_its_rows(tmp_path: Path) -> None:
    with Sandbox(seed=7, start=START, data=tmp_path) as sandbox:
        charge = sandbox.charges.create(amount="1000", description="x", expiresIn=60)
        sandbox.wallet("ana").pay(charge, delay="5s")
        tips = sandbox.static_charges.create(minAmount="1000", maxAmount="5000", description="Tips")
        sandbox.advance("10s")
        before = timeline(sandbox.world, charge.id)
    note = "the journal no longer has what happened before 2030-01-01T09:00:10.000Z: earlier refused transitions are"
    with Sandbox(data=tmp_path) as again:
        assert timeline(again.world, charge.id).text.startswith(f"{before.text}\n{'':14}{note} not shown")
        assert "completed  09:00:05.000" in lifecycle(again.world, "Charge", charge.id).text
        assert "the journal no longer has" in lifecycle(again.world, "StaticCharge", tips.id).text
        assert "no longer has the transitions of 1 of them" in lifecycle(again.world, "StaticCharge").text


@pytest.mark.parametrize("url", ["http://shop.localhost/paid", "http://127.0.0.1:1080/paid"])
def test_the_faults_the_copies_and_the_replays_are_in_the_timeline_of_a_reopened_world(
    tmp_path: Path, url: str
) -> None:
    with Sandbox(seed=7, start=START, data=tmp_path) as sandbox:
        charge, other = [
            sandbox.charges.create(amount="1000", description="x", expiresIn=60, callbackUrl=url) for _ in range(2)
        ]
        sandbox.faults.add("delay", charge=charge, attempt=1, delay="1m")
        for kind in ("drop", "duplicate", "redeliver", "simultaneous"):
            sandbox.faults.add(kind, charge=charge)
        sandbox.faults.add("reorder", charge=other, delay="10s")
        sandbox.receiver("shop").answers([500, 503, "timeout"])
        sandbox.wallet("ana").pay(charge, delay="5s")
        sandbox.advance("1d")
        for delivery in sandbox.ask("GET", f"/sandbox/v1/deliveries?chargeId={charge.id}")["data"]:
            sandbox.ask("POST", f"/sandbox/v1/deliveries/{delivery['id']}/replay")
            sandbox.advance("2d")
        ids, before = (charge.id, other.id), [timeline(sandbox.world, one).text for one in (charge.id, other.id)]
    for kind in ("fault: delay", "fault: drop", "by the fault duplicate", "replay "):
        assert kind in before[0] or "127.0.0.1" in url, kind
    assert ("fault: reorder" in before[1], "copy sent" in before[0]) == (True, "shop" in url)
    with Sandbox(data=tmp_path) as again:
        drawn = [timeline(again.world, one).text.rpartition("\n") for one in ids]
        assert [text for text, _, _ in drawn] == before
        assert all("the journal no longer has what happened before" in note for _, _, note in drawn)


def test_every_drawing_of_a_charge_says_that_the_journal_lacks_its_beginning(tmp_path: Path) -> None:
    """In a copy, too. The Charges that were created since have nothing to say."""
    with Sandbox(seed=7, start=START, data=tmp_path / "kept", network="line:3,ideal") as sandbox:
        charge_id = sandbox.charges.create(amount="1000", description="x", expiresIn=60).id
        sandbox.advance("10s")
        drawn = [timeline, sequence, lambda world, one: lifecycle(world, "Charge", one)]
        lost = "the journal no longer has what happened before"
        for draw in drawn:
            assert lost not in draw(sandbox.world, charge_id).text
    with Sandbox(data=tmp_path / "kept") as again, again.fork("copy") as copy:
        later = again.charges.create(amount="1000", description="x").id
        for draw, kinds in zip(drawn, ["force closes and ", "force closes and ", ""], strict=True):
            note = f"{lost} 2030-01-01T09:00:10.000Z: earlier {kinds}refused transitions are not shown"
            for world in (again.world, copy.world):
                shown = draw(world, charge_id)
                assert (note in shown.text, "no longer has" in shown.svg) == (True, True)
            assert lost not in draw(again.world, later).text


def test_a_charge_that_is_paid_after_a_reopening_shows_its_whole_life(tmp_path: Path) -> None:
    with Sandbox(seed=7, start=START, data=tmp_path) as sandbox:
        charge_id = sandbox.charges.create(amount="1000", description="x", expiresIn=60).id
        tips = sandbox.static_charges.create(minAmount="1000", maxAmount="5000", description="Tips", allowedSlots=1)
    with Sandbox(data=tmp_path) as again:
        again.wallet("ana").pay(again.charges[charge_id], delay="5s")
        again.wallet("bob").scan(again.static_charges[tips.id], amount=2_000)
        again.advance("10s")
        assert "completed  by payment_settled" in timeline(again.world, charge_id).text
        whole = lifecycle(again.world, "Charge", charge_id).text
        assert "pending --payment_settled--> completed  09:00:05.000" in whole
        assert "the journal no longer has" in lifecycle(again.world, "StaticCharge", tips.id).text
        assert "no longer has the transitions of 1 of them" in lifecycle(again.world, "Charge").text


def test_a_lifecycle_without_resources_says_so() -> None:
    world = Sandbox(seed=7).world
    assert lifecycle(world, "Charge").text.startswith("No Charges yet")
    with pytest.raises(DrawingError, match="one for Charge and StaticCharge"):
        lifecycle(world, "Wallet")
    with pytest.raises(DrawingError, match="no Charge 'nobody'"):
        lifecycle(world, "Charge", "nobody")


# The network


def test_a_channel_is_filled_by_the_balance_towards_the_shop() -> None:
    sandbox, _ = travelled("line:2")
    channel = sandbox.network["shop"].channels[0]
    svg = ElementTree.fromstring(network(sandbox.world).svg)
    tube = next(group for group in svg.iter(f"{SVG}g") if (group.findtext(f"{SVG}title") or "").startswith("n0 to n1"))
    whole, filled = (float(line.attrib["x2"]) - float(line.attrib["x1"]) for line in tube.findall(f"{SVG}line"))
    assert filled / whole == pytest.approx(channel["remote_msat"] / channel["capacity_msat"], abs=0.01)


def test_a_drained_shop_has_empty_channels() -> None:
    sandbox, _ = travelled("star:12")
    sandbox.network["shop"].drain(inbound=1.0)
    assert "0 sat inbound" in network(sandbox.world).text


def test_a_closed_channel_is_not_drawn() -> None:
    sandbox, _ = travelled("line:3", "ana")
    [channel] = sandbox.network["shop"].channels
    assert "3 nodes, 2 channels" in network(sandbox.world).text
    sandbox.network.close_channel(channel["channel"])
    alone = network(sandbox.world)
    assert alone.text.startswith("3 nodes, 1 channel; the shop is at n2: 0 sat inbound, 0 sat outbound")
    assert "left out: 2 nodes and 1 channel" in alone.text
    assert "without a route to the shop" in alone.text
    assert "n0 to n1" not in alone.svg


def test_what_is_in_flight_is_shown() -> None:
    sandbox, charge_id = through_a_hub("hold")
    assert "500k of 1.0M sat, 2 in flight" in network(sandbox.world).text
    assert "hops      ana's HTLC sent" in timeline(sandbox.world, charge_id).text


@pytest.mark.parametrize("shape", ["line:20", "star:40", "hub:50", "scale-free:400"])
def test_a_large_network_says_what_it_leaves_out(shape: str) -> None:
    sandbox, _ = travelled(shape, "ana")
    drawing = network(sandbox.world)
    shown = set(re.findall(r"\bn\d+\b", drawing.mermaid or ""))
    nodes = len(sandbox.world.engine.graph.names)  # type: ignore[union-attr]
    assert len(shown) <= 24
    assert f"left out: {nodes - len(shown):,} node" in drawing.text


def test_a_network_drawing_names_a_fork_and_explains_its_bows_and_dashes() -> None:
    sandbox = Sandbox(seed=7, network="hub:20")
    drawn = network(sandbox.world).svg
    assert "a thin bow is a channel between nodes of equal distance to the shop" in drawn
    bows = re.findall(r'd="M([0-9.]+) [0-9.]+ Q(-?[0-9.]+)', drawn)
    assert bows
    assert all((float(side) + float(control)) / 2 > 0 for side, control in bows)
    assert "a dashed box is a node that is offline" in drawn  # n15
    late = network(sandbox.fork("a <late> fork").world)
    assert late.text.startswith("a <late> fork: 20 nodes")
    assert "a &lt;late&gt; fork: 20 nodes" in late.svg
    plain = network(Sandbox(seed=7, network="line:3").world).svg
    assert "a thin bow" not in plain
    assert "dashed box" not in plain


def test_without_a_network_the_drawing_says_that_payments_are_direct() -> None:
    sandbox, _ = sold()
    assert network(sandbox.world).text.startswith("Payments are direct")
    assert "ana --> node" in network(sandbox.world).text
    assert "any payer --> node" in network(Sandbox(seed=1).world).text


@pytest.mark.parametrize(
    ("msat", "shown"),
    [
        (0, "0"),
        (999_400, "999"),
        (9_999_000, "9,999"),
        (10_000_000, "10k"),
        (999_499_000, "999k"),
        (999_500_000, "1.0M"),
    ],
)
def test_amounts_in_a_network_drawing_are_rounded(msat: int, shown: str) -> None:
    assert compact(msat) == shown


@pytest.mark.parametrize(("msat", "shown"), [(1, "0.001 sat"), (1_000, "1 sat"), (1_234_500, "1,234.5 sat")])
def test_amounts_in_a_timeline_are_exact(msat: int, shown: str) -> None:
    assert sat(msat) == shown


# QR codes


def modules(drawing: Drawing) -> set[tuple[int, int]]:
    """The dark modules of a drawing, as (row, column)."""
    svg = ElementTree.fromstring(drawing.svg)
    path = next(path.attrib["d"] for path in svg.iter(f"{SVG}path"))
    runs = re.findall(r"M(\d+) (\d+)h(\d+)v1h-\d+z", path)
    return {(int(y), int(x) + step) for x, y, wide in runs for step in range(int(wide))}


def expected(text: str) -> set[tuple[int, int]]:
    segno = pytest.importorskip("segno")
    matrix = segno.make_qr(text, boost_error=False).matrix
    return {(y, x) for y, row in enumerate(matrix) for x, dark in enumerate(row) if dark}


def test_a_payment_request_is_encoded_in_capitals_and_smaller() -> None:
    sandbox, charge_id = fresh()
    request = sandbox.charges[charge_id].request
    assert modules(qr(request)) == expected(request.upper())
    assert modules(qr(f"lightning:{request}")) == expected(f"LIGHTNING:{request.upper()}")
    assert max(modules(qr(request))) < max(expected(request))


def test_any_other_text_is_encoded_unchanged() -> None:
    for text in ("https://shop.example/Pay", "lnMixedCase", "ln with spaces"):
        assert modules(qr(text)) == expected(text)


def test_the_terminal_shows_the_same_modules() -> None:
    drawing = qr("hello")
    lines = drawing.text.splitlines()[:-1]
    halves = {"█": (False, False), "▀": (False, True), "▄": (True, False), " ": (True, True)}
    dark = {
        (2 * row + half - 2, column - 2)
        for row, line in enumerate(lines)
        for column, glyph in enumerate(line)
        for half in (0, 1)
        if halves[glyph][half]
    }
    assert dark == modules(drawing)


def test_an_impossible_qr_code_is_refused() -> None:
    with pytest.raises(DrawingError, match="nothing to draw"):
        qr("")
    assert modules(qr("x" * 2_953))
    with pytest.raises(DrawingError, match=r"at most 2,953 bytes, not the 2954"):
        qr("x" * 2_954)


# The schedule


def test_a_schedule_without_events_says_so() -> None:
    assert (
        schedule(Sandbox(seed=1, start=START).world).text == "Nothing is scheduled\n09:00:00.000  -- now, 2030-01-01 --"
    )


def test_a_schedule_shows_each_event_and_every_attempt_of_a_message() -> None:
    sandbox = Sandbox(seed=7, start=START)
    sandbox.receiver("shop").answers([500, "timeout"])
    charge = sandbox.charges.create(amount="1000", description="tea", callbackUrl="http://shop.localhost/")
    sandbox.static_charges.create(minAmount="1000", maxAmount="5000", description="Tips", expiresIn=86_400)
    sandbox.wallet("ana").pay(charge)
    sandbox.advance("1m")
    sandbox.wallet("bob").pay(sandbox.charges.create(amount="2000", description="cake"), delay="2m")
    shown = schedule(sandbox.world).text
    assert shown.startswith("5 scheduled events")
    order = ["bob pays  2 sat", "bob gives up", "callback 3", "Charge expires  2 sat · “cake”", "Static Charge expires"]
    assert [shown.index(words) for words in order] == sorted(shown.index(words) for words in order)
    tries = shown.splitlines()[-1].partition(": ")[2].split(" | ")
    assert len(tries) == 10
    assert tries[0] == "500 09:00:00.000"
    assert tries[1].startswith("timeout ")
    assert "due 09:0" in tries[2]
    assert tries[3:5] == ["+ 30 min later ±20 %", "+ 2 h later ±20 %"]


def test_a_schedule_shows_until_when_the_node_waits_for_missing_parts() -> None:
    sandbox, charge_id = fresh()
    sandbox.wallet("ana").pay(sandbox.charges[charge_id], outcome="incomplete")
    sandbox.advance("3s")
    assert "the node stops waiting for the missing parts  they are returned" in schedule(sandbox.world).text


def test_a_long_schedule_says_how_much_is_left_out() -> None:
    sandbox = Sandbox(seed=7, start=START)
    for place in range(40):
        url = f"http://shop{place}.localhost/"
        sandbox.receiver(f"shop{place}").answers([500] * 3)
        sandbox.charges.create(amount="1000", description="tea", expiresIn=60, callbackUrl=url)
    sandbox.advance("2m")
    drawing = schedule(sandbox.world)
    assert drawing.text.startswith("40 scheduled events")
    assert "20 later events are left out" in drawing.text
    assert "35 more messages are left out" in drawing.text
    assert_legible(drawing)


def test_a_replayed_message_starts_its_schedule_again() -> None:
    sandbox, charge_id = sold(answers=(500,) * 10)
    sandbox.receiver("shop").answers([500])
    delivery = sandbox.world.service.outbox.deliveries(charge_id)[0]["id"]
    sandbox.ask("POST", f"/sandbox/v1/deliveries/{delivery}/replay")
    sandbox.advance("1s")
    tries = schedule(sandbox.world).text.splitlines()[-1].partition(": ")[2].split(" | ")
    assert len(tries) == 10
    assert tries[0].startswith("500 ")
    assert "due" in tries[1]


# Forms


def test_a_drawing_is_saved_as_svg_with_a_background_or_as_mermaid(tmp_path: Path) -> None:
    drawing = timeline(*_of(sold()))
    saved = drawing.save(tmp_path / "sale.svg").read_text(encoding="utf-8")
    assert ElementTree.fromstring(saved)[0].attrib["fill"] == "#ffffff"
    assert drawing.save(str(tmp_path / "sale.mmd")).read_text(encoding="utf-8") == f"{drawing.mermaid}\n"
    with pytest.raises(DrawingError, match=r"sale\.png: a drawing is written as \.svg or as \.mmd"):
        drawing.save(tmp_path / "sale.png")
    with pytest.raises(DrawingError, match=r"code\.mmd: this drawing has no Mermaid form"):
        qr("hello").save(tmp_path / "code.mmd")


def test_a_notebook_shows_html_and_a_terminal_text() -> None:
    drawing = timeline(*_of(fresh()))
    bundle = drawing._repr_mimebundle_()
    assert list(bundle) == ["text/html", "image/svg+xml", "text/plain"]
    assert "currentColor" in bundle["text/html"]
    assert "#ffffff" not in bundle["text/html"]
    assert bundle["text/plain"] == repr(drawing) == drawing.text
    assert list(drawing._repr_mimebundle_(include={"text/plain"})) == ["text/plain"]
    assert "text/html" not in drawing._repr_mimebundle_(exclude={"text/html"})


def _of(pair: tuple[Sandbox, str]) -> tuple[object, str]:
    return pair[0].world, pair[1]


# Letters


@given(texts)
def test_a_clean_text_is_one_line_of_visible_characters(text: str) -> None:
    shown = clean(text)
    assert clean(shown) == shown
    assert not {
        letter for letter in shown if unicodedata.category(letter) in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    } - {"\u200d"}
    ElementTree.fromstring(f"<t>{shown.replace('&', '&amp;').replace('<', '&lt;')}</t>")


def test_an_invisible_character_is_shown_by_its_code_point() -> None:
    assert clean("a\u202eb\x00c\nd\te") == "a‹U+202E›b‹U+0000›c↵d e"
    assert clean("e" + "\u0301" * 30) == "e\u0301\u0301"
    assert len(clean("x" * 5_000)) == 4_001


@given(texts, st.floats(30, 600), st.integers(1, 3))
def test_a_text_is_wrapped_into_lines_that_fit_and_loses_only_its_end(text: str, room: float, most: int) -> None:
    lines = wrap_runs([TextRun("so: ", bold=True), TextRun(text)], room, 12, most)
    assert len(lines) <= most
    for line in lines:
        *before, last = line
        wide = sum(text_width(run.text, 12, bold=run.bold) for run in before)
        assert wide + text_width(last.text.rstrip(), 12, bold=last.bold) <= room
    kept = "".join(run.text for line in lines for run in line)
    assert kept == clean(f"so: {text}") or f"so: {clean(text)}".startswith(kept.rstrip().removesuffix("…").rstrip())


@given(texts, st.floats(20, 400))
def test_a_clipped_text_fits(text: str, room: float) -> None:
    shown = clip(clean(text), room, 12)
    assert text_width(shown, 12) <= room or shown == "…"


@given(texts)
def test_a_text_in_mermaid_is_never_syntax(text: str) -> None:
    escaped = mermaid_text(text)
    assert "\n" not in escaped
    plain = re.sub(r"#\d+;", "", escaped)
    assert not set(plain) & set('"`;#<>{}[]|%$@&~*^\\')
    assert not re.search(r"\bend\b", escaped, re.IGNORECASE)


@pytest.mark.parametrize("egress", ["none", "loopback", "public"])
def test_a_schedule_has_no_attempts_after_one_that_is_blocked(egress: str) -> None:
    rules = {"none": "egress-none", "loopback": "loopback-only", "public": "private-network"}
    sandbox = Sandbox(seed=7, start=START, egress=egress)
    url = "http://203.0.113.1/paid" if egress == "loopback" else "http://127.0.0.1:9999/paid"
    charge = sandbox.charges.create(amount="1000", description="x", expiresIn=60, callbackUrl=url)
    sandbox.faults.add("delay", delay="1h")
    sandbox.advance("2m")
    shown = schedule(sandbox.world).text
    assert f"due 10:01:00.000 | then blocked {rules[egress]}\n" in f"{shown}\n"
    assert f"callback 1 is blocked  charge.expired to {url.split('/')[2].split(':')[0]}: {rules[egress]}" in shown
    assert "later" not in shown
    assert (
        f"callback 1 is due and is blocked  charge.expired: {rules[egress]}" in timeline(sandbox.world, charge.id).text
    )
    waited = sandbox.ask("POST", "/sandbox/v1/deliveries/wait", {"chargeId": charge.id, "timeout": 0})
    assert "will be blocked, which ends it: " + rules[egress] in waited["note"]
    waited = sandbox.ask("POST", "/sandbox/v1/deliveries/wait", {"status": "blocked", "timeout": 0})
    assert "is due at 2030-01-01T10:01:00.000Z and the clock is paused: advance the clock" in waited["note"]


def test_every_drawing_says_the_date_of_later_days() -> None:
    sandbox = Sandbox(seed=7)
    sandbox.receiver("shop").always(503)
    url = "http://shop.localhost/paid"
    charge = sandbox.charges.create(amount="1000", description="tea", callbackUrl=url, expiresIn=200_000)
    sandbox.advance("30h")
    sandbox.wallet("ana").pay(charge)
    sandbox.advance("40h")
    timeline, sequence, lifecycle = charge.timeline(), charge.sequence(), charge.lifecycle()
    for text in (timeline.text, sequence.text):
        lines = text.splitlines()
        dates = [lines.index(date) for date in ("2030-01-02", "2030-01-03")]
        times = [line[:12] for line in lines[1:] if line[:2].isdigit() and line[2] == ":"]
        assert times[0] == "00:00:00.000"
        for place in dates:
            before = [line[:12] for line in lines[:place] if line[2:3] == ":"][-1]
            after = next(line[:12] for line in lines[place:] if line[2:3] == ":")
            assert after < before or before == "00:00:00.000", "the date stands where a day begins"
    for form in (timeline.mermaid, sequence.mermaid, timeline.svg, sequence.svg):
        assert "2030-01-02" in form
        assert "2030-01-03" in form
    assert "01-02 06:00:00" in lifecycle.text
    sent = sandbox.schedule().text.partition("pending")[2] or sandbox.schedule().text
    assert "01-02 06:00:00" in sent
