"""The setups of the obligations of the control plane: steps that host a server and fill it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from leyden.harness.control.documents import ControlOperation, control_lists, creation_of
from leyden.harness.steps import Step

START = "2030-01-01T00:00:00Z"
PAUSED = ("--rate", "0", "--seed", "1", "--start", START, "--egress", "none")
_HOOK = "http://shop.inbox.localhost/hook"
# Words that differ in case, and characters that mean something in patterns and in URLs.
_TEXTS = ("Tea", "tea", "te_", "t%a", "a+b c", "a&b=c", "caf\u00e9", 'q"u', "tea 2", "100%")
# Bodies for the rows that a list gets by requests to its path, with `{n}` in them; otherwise the document's examples.
# None of them has an effect on the other rows.
_ROWS: Mapping[str, Any] = {
    "createSnapshot": {"name": "before {n}"},
    "addPayer": {"description": "nobody {n}", "payer": "wallet {n}", "outcome": "never"},
    "addFault": {"kind": "drop", "attempt": 900, "event": "charge.completed"},
    "addServiceFault": {"kind": "error", "operation": "getWallet", "nth": 900_000, "status": 429},
    "addInterceptor": {"kind": "delay", "delay": 1, "node": "n3", "hop": 9},
}
_FEW = 10
_MOST = {"createSnapshot": 18}  # a sandbox has 20 at most


def send(method: str, target: str, body: Any = None, **more: Any) -> Step:
    """A step that sends a request to the server that the case hosts."""
    step: Any = {"do": "send", "method": method, "target": target, **more}
    if body is not None:
        step["body"] = body
    found: Step = step
    return found


def host(steps: tuple[Step, ...], *options: str, disk: bool = False) -> Step:
    """A step that hosts a server and fills it."""
    step: Any = {"do": "host", "options": [*PAUSED, *options], "steps": [*steps]}
    if disk:
        step["disk"] = True
    found: Step = step
    return found


def charge(count: int, label: str, **body: Any) -> Step:
    """Steps that create Charges."""
    fields = {"amount": "2000", "description": "plain {n}", "callbackUrl": _HOOK, "expiresIn": 86_400, **body}
    return send("POST", "/v0/charges", fields, count=count, **{"as": label})


def pay(label: str, count: int, **body: Any) -> Step:
    """Steps that pay the Charges of a label."""
    request = f"{{{label}.n.data.invoice.request}}"
    return send("POST", "/sandbox/v1/payments", {"request": request, **body}, count=count, **{"as": f"p-{label}"})


def advance(by: str) -> Step:
    """Advance the clock."""
    return send("POST", "/sandbox/v1/clock/advance", {"by": by})


def rows(many: int) -> tuple[Step, ...]:
    """Rows of every list of a sandbox with direct payments: about `many` of each, in portions at different instants."""
    steps: list[Step] = []
    for number, text in enumerate(_TEXTS if many > _FEW else _TEXTS[:5]):
        label = {"internalId": text, "description": f"{text} {{n}}"}
        steps += [charge(2, f"c{number}", **label, callbackUrl=f"http://r{number}.inbox.localhost/{number}")]
        steps += [static(1, f"s{number}", **label, successMessage=f"thanks {text}"), advance("700ms")]
    part = many // 3
    invoice = "/lnurlp/{s0.0.data.id}/invoice?amount=2000"
    steps += [
        send("PUT", "/sandbox/v1/inboxes/gone/script", {"always": 410}),
        send("PUT", "/sandbox/v1/inboxes/down/script", {"always": 500}),
        send("GET", invoice, count=5, **{"as": "children"}),
        send("GET", invoice.replace("s0", "s3"), count=part, **{"as": "others"}),
        static(part, "fillers"),
        charge(part, "paid"), advance("1s"), charge(part, "lost"), static(part, "more"),
        pay("paid", part), advance("1s"),
        charge(3, "gone", callbackUrl="http://gone.localhost/"), charge(3, "down", callbackUrl="http://down.localhost/"),
        pay("gone", 3), pay("down", 3), advance("400ms"),
        charge(part, "held", callbackUrl="http://inbox.localhost.example/", internalId="Tea"),
        pay("held", part, outcome="hold"),
        pay("c1", 2), pay("c1", 2), pay("c2", 2, outcome="fail"), pay("c3", 2, outcome="underpay"),
        send("POST", "/sandbox/v1/payments", {"request": "{others.n.pr}"}, count=part),
        send("POST", "/sandbox/v1/payments", {"request": "nonsense {n}"}, count=3),
        pay("c1", 2, amount="1"), pay("c4", 2, amount="1"), pay("c4", 2), pay("c4", 1, amount="1"),
        send("POST", "/sandbox/v1/charges/{lost.n.data.id}/fail", {}, count=part),
        send("POST", "/v0/charges", {"amount": "1"}, status=400, count=2),
        send("GET", "/v0/charges/00000000-0000-4000-8000-000000000000", status=404),
        send("GET", "/v0/wallet", headers=[["Leyden-Client", "agent"]], count=2),
        send("GET", "/v0/wallet", headers=[["Leyden-Client", "Agent 2"]]),
        send("GET", "/v0/static-charges/{s3.0.data.id}"), send("PATCH", "/v0/static-charges/{s4.0.data.id}",
                                                               {"description": "changed"}),
        send("PUT", "/sandbox/v1/inboxes/in-{n}/script", {"answers": [500, 200]}, count=many),
        *_later_rows(), *_lost(),
    ]  # fmt: skip
    return (*steps, *added_rows(many))


def _later_rows() -> tuple[Step, ...]:
    """Static Charges of each status, and later Charges of one that has some, in other states and with another
    internalId."""
    invoice = "/lnurlp/{s3.0.data.id}/invoice?amount=3000"
    return (
        static(2, "ended", expiresIn=1, internalId="tea"),
        static(2, "full", allowedSlots=1, internalId="Tea"),
        send("GET", "/lnurlp/{full.0.data.id}/invoice?amount=2000", **{"as": "last"}),
        send("POST", "/sandbox/v1/payments", {"request": "{last.0.pr}"}),
        send("PATCH", "/v0/static-charges/{s3.0.data.id}", {"internalId": "later"}),
        advance("2s"),
        send("GET", invoice, count=3, **{"as": "later"}),
        send("POST", "/sandbox/v1/payments", {"request": "{later.0.pr}", "amount": "1"}),
        send("POST", "/sandbox/v1/payments", {"request": "{later.0.pr}"}),
        advance("1s"),
    )  # fmt: skip


def _lost() -> Iterator[Step]:
    """Requests that get no response, of several operations and of a client."""
    reads = [["Leyden-Client", "agent"]]
    for number, (method, target, operation) in enumerate(
        (("GET", "/v0/wallet", "getWallet"), ("GET", "/v0/charges", "listCharges"),
         ("GET", "/v0/charges/{c0.0.data.id}", "getChargeDetails"))
    ):  # fmt: skip
        yield send("POST", "/sandbox/v1/service-faults", {"kind": "connection_reset", "operation": operation},
                   **{"as": f"lost{number}"})  # fmt: skip
        yield send(method, target, headers=reads if number else [], status=0)
        yield send("DELETE", f"/sandbox/v1/service-faults/{{lost{number}.0.id}}")


def static(count: int, label: str, **body: Any) -> Step:
    """Steps that create Static Charges."""
    fields = {"minAmount": "1000", "maxAmount": "5000", "description": "link {n}", "callbackUrl": _HOOK, **body}
    return send("POST", "/v0/static-charges", fields, count=count, **{"as": label})


def added_rows(many: int, *, network: bool = False) -> Iterator[Step]:
    """Rows of each list to which an operation adds rows: the lists of the network, or the other lists."""
    for one in control_lists():
        creation = creation_of(one)
        if creation is not None and creation.name != "createPayment" and ("/network/" in creation.path) is network:
            count = min(many, _MOST.get(creation.name, many))
            yield send("POST", creation.path, row_of(creation), count=count, **{"as": creation.name})


def row_of(creation: ControlOperation) -> Any:
    """A body that adds a row."""
    return _ROWS.get(creation.name, creation.examples[0] if creation.examples else {})


def network_rows() -> tuple[Step, ...]:
    """Nodes, interceptors, and a payment with several attempts, in a simulated network."""
    one = "http://shop.inbox.localhost/hook"
    large = {"amount": "400000000", "description": "large", "callbackUrl": one}
    return (
        *added_rows(120, network=True),
        send("POST", "/v0/charges", large, **{"as": "large"}),
        send("POST", "/sandbox/v1/payments", {"request": "{large.0.data.invoice.request}", "payer": "Ana"},
             **{"as": "routed"}),
        charge(20, "small"), pay("small", 20, payer="wallet"),
        advance("1m"),
    )  # fmt: skip


def delivery_rows() -> tuple[Step, ...]:
    """More than a hundred deliveries with each of several states, events and Charges, to receivers that answer at
    once."""
    hooks = "http://{}.localhost/{{n}}"
    return (
        send("PUT", "/sandbox/v1/inboxes/gone/script", {"always": 410}),
        send("PUT", "/sandbox/v1/inboxes/down/script", {"always": 500}),
        static(1, "s0"), static(1, "s1"),
        send("GET", "/lnurlp/{s0.0.data.id}/invoice?amount=2000", count=60, **{"as": "children"}),
        send("POST", "/sandbox/v1/payments", {"request": "{children.n.pr}"}, count=60),
        advance("2s"),
        charge(130, "paid"), pay("paid", 130), charge(55, "lost"),
        send("POST", "/sandbox/v1/charges/{lost.n.data.id}/fail", {}, count=55),
        charge(60, "timed", expiresIn=10, callbackUrl=hooks.format("timed")), advance("11s"),
        charge(3, "gone", callbackUrl=hooks.format("gone")), pay("gone", 1),
        charge(55, "down", callbackUrl=hooks.format("down")), pay("down", 55),
        charge(55, "away", callbackUrl="http://inbox.localhost.example/"), pay("away", 55),
        advance("1ms"),
    )  # fmt: skip


# Rows that a search finds, counted from the newest: about the ends of what a list may read at once.
_LONE = (0, 99, 100, 199, 200, 255, 256)
_NEWER, _EARLY = 270, 130
# Filters of the setups `control-portions` that match only among the oldest rows, none of the newest ones, one or two
# rows about the end of each portion, or all.
PORTIONS: Mapping[str, tuple[Mapping[str, str], ...]] = {
    "listSandboxCharges": ({"status": "expired"}, {"internalId": "early"}, {"text": "Early"}, {"text": "lone"},
                           {"text": "Needle"}, {"text": "hook"}, {"status": "expired", "text": "needle"}),
    "listSandboxStaticCharges": ({"status": "expired"}, {"internalId": "early"}, {"text": "Early"}, {"text": "lone"},
                                 {"text": "Needle"}, {"text": "link"}),
    "listPayments": ({"status": "failed"}, {"status": "succeeded"}),
    "listDeliveries": ({"event": "charge.expired"}, {"event": "charge.completed"}),
    "listRequests": ({"operation": "createStaticCharge"}, {"text": "early"}, {"method": "POST", "status": "200"}),
}  # fmt: skip


def portion_rows() -> tuple[Step, ...]:
    """Lists of about 400 rows: 130 that one filter finds, then 270 of which a search finds a few."""
    early = {"description": "early needle {n}", "internalId": "early", "expiresIn": 1}
    return (
        charge(_EARLY, "early", **early), pay("early", _EARLY, amount="1"), advance("5s"),
        *(charge(count, "newer", description=text) for text, count in _newer("row {n}")),
        pay("newer", _NEWER),
    )  # fmt: skip


def portion_links() -> tuple[Step, ...]:
    """The same of Static Charges."""
    early = {"description": "early needle {n}", "internalId": "early", "expiresIn": 1}
    return (
        static(_EARLY, "early", **early), advance("5s"),
        *(static(count, "newer", description=text) for text, count in _newer("link {n}")),
    )  # fmt: skip


def _newer(text: str) -> Iterator[tuple[str, int]]:
    """The texts of the newer rows, each with the number of rows that have it, from the oldest."""
    last = _NEWER
    for place in reversed(_LONE):
        if last > place + 1:
            yield text, last - place - 1
        yield "lone needle", 1
        last = place


# The first step of the cases of a setup.
CONTROL_SETUPS: Mapping[str, Callable[[], Step]] = {
    "control-empty": lambda: host(()),
    "control-fields": lambda: host(()),
    "control-rows": lambda: host(rows(120)),
    "control-few-rows": lambda: host(rows(21)),
    "control-deliveries": lambda: host(delivery_rows()),
    "control-waits": lambda: host(delivery_rows()),
    "control-portions": lambda: host(portion_rows()),
    "control-portions-links": lambda: host(portion_links()),
    "control-network": lambda: host(network_rows(), "--network", "scale-free:150"),
}
