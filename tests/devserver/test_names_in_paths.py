"""Names and numbers in the paths of the control plane: the rule for them, and which of them exist."""

from __future__ import annotations

import re

import pytest

from leyden import Sandbox
from leyden.errors import ApiError, GraphError

OF_INBOXES = "letters, digits, - and _ in parts that dots join, and no - at the start or the end of a part"


def refused(sandbox: Sandbox, method: str, path: str, status: int = 404) -> str:
    body = {"answers": [200]} if method == "PUT" else None
    with pytest.raises(ApiError) as raised:
        sandbox.ask(method, f"/sandbox/v1/{path}", body)
    assert raised.value.status == status
    return str(raised.value)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("Bad_Name!", "Bad_Name"),
        ("my%20shop", "my-shop"),
        ("-x", "x"),
        ("a-.b", "a.b"),
        ("a..b", "a.b"),
        ("shop%3A3000", "shop"),
        ("%3A%3A", None),
        (".", None),
        ("%C3%BC", None),
        ("a" * 254, None),
    ],
)
def test_a_name_that_no_inbox_can_have_is_refused_with_the_rule(sandbox: Sandbox, name: str, meant: str | None) -> None:
    for method, path in (("GET", f"inboxes/{name}"), ("PUT", f"inboxes/{name}/script")):
        text = refused(sandbox, method, path)
        assert f"such as shop.inbox, with or without .localhost: {OF_INBOXES}; received " in text
        assert text.endswith(f': write "{meant}"') if meant else ": write" not in text
    assert sandbox.ask("GET", "/sandbox/v1/inboxes")["data"] == [], "a refused script creates no inbox"


@pytest.mark.parametrize("name", ["Shop.localhost", "shop.", "SHOP", "shop.localhost."])
def test_an_inbox_has_one_name_however_its_host_is_written(sandbox: Sandbox, name: str) -> None:
    assert sandbox.ask("PUT", f"/sandbox/v1/inboxes/{name}/script", {"always": 503})["name"] == "shop"
    assert sandbox.ask("GET", f"/sandbox/v1/inboxes/{name}")["script"]["always"]["status"] == 503
    assert [inbox["name"] for inbox in sandbox.ask("GET", "/sandbox/v1/inboxes")["data"]] == ["shop"]


def test_a_number_in_a_path_is_refused_with_the_rule(sandbox: Sandbox) -> None:
    channel, request = "channel: expected the number of a channel such as 17", "id: expected the number of a request"
    assert channel in refused(sandbox, "DELETE", "network/channels/x")
    assert request in refused(sandbox, "GET", "requests/-1")


def test_the_node_of_every_wallet_is_found_by_the_name_of_the_wallet() -> None:
    sandbox = Sandbox(seed=7, network="star:12")
    for name, path in (("Ana B.", "Ana%20B."), ("Zoë!", "Zo%C3%AB!")):
        sandbox.wallet(name).pay(sandbox.charges.create(amount="1000", description="tea"))
        node = sandbox.ask("GET", f"/sandbox/v1/network/nodes/{path}")
        assert node["name"] == sandbox.network.wallet(name).name
        opened = {"peer": name, "capacity": "1000000"}
        assert sandbox.ask("POST", "/sandbox/v1/network/nodes/shop/channels", opened)["peer"] == node["name"]
    text = refused(sandbox, "GET", "network/nodes/Bad%20Name!", status=409)
    assert "there is no node Bad Name!, and no wallet of this name has paid" in text


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "nodes/ana", None),
        ("POST", "nodes/ana/drain", {"outbound": 1}),
        ("POST", "nodes/ana/rebalance", {"amount": "1000"}),
        ("POST", "nodes/shop/rebalance", {"amount": "1000", "out": "ana"}),
        ("POST", "nodes/shop/channels", {"peer": "ana", "capacity": "1000000"}),
        ("POST", "interceptors", {"kind": "offline", "node": "ana"}),
    ],
)
def test_a_wallet_that_has_not_paid_is_refused_with_a_mend_over_http(
    method: str, path: str, body: dict[str, object] | None
) -> None:
    mend = "a wallet is known here from its first payment, which POST /sandbox/v1/payments makes"
    with Sandbox(seed=7, network="star:6") as sandbox:
        with pytest.raises(ApiError) as raised:
            sandbox.ask(method, f"/sandbox/v1/network/{path}", body)
        assert str(raised.value).endswith(mend)
        assert not re.search(r"[a-z_]+[.][a-z_]+[(]", str(raised.value)), "no call of Python"
        charge = sandbox.charges.create(amount="1000", description="tea")
        sandbox.ask("POST", "/sandbox/v1/payments", {"request": charge.request, "payer": "ana"})
        assert sandbox.ask("GET", "/sandbox/v1/network/nodes/ana")["name"] == sandbox.network.wallet("ana").name
        with pytest.raises(GraphError, match=r"network[.]wallet\('bob'\) is the node of a wallet"):
            sandbox.network["bob"]
