"""LNURL-pay from the side of a wallet: every response is a 200, and an error has its reason."""

from __future__ import annotations

import hashlib
import json
from typing import Any
from urllib.parse import urlsplit

import pytest

from leyden import Sandbox
from leyden.lightning.bolt11.codec import decode
from leyden.sandbox.resources import StaticCharge
from leyden.server.charges.lnurl import decode_lnurl
from leyden.world.loopback import send_request

TIPS: dict[str, Any] = {"minAmount": "1000", "maxAmount": "9000", "description": "Tips"}


@pytest.fixture
def tips(sandbox: Sandbox) -> StaticCharge:
    return sandbox.static_charges.create(**TIPS, successMessage="Thank you")


def get(sandbox: Sandbox, url: str) -> dict[str, Any]:
    """What a wallet gets from a URL: JSON with a 200 that any page may read."""
    parts = urlsplit(url)
    answer = send_request(sandbox.app, "GET", parts.path + (f"?{parts.query}" if parts.query else ""))
    assert answer.status == 200
    assert dict(answer.headers)[b"access-control-allow-origin"] == b"*"
    return json.loads(answer.body)


def pay_request(sandbox: Sandbox, static: StaticCharge) -> dict[str, Any]:
    return get(sandbox, decode_lnurl(static.request))


def refusal(sandbox: Sandbox, url: str) -> str:
    answer = get(sandbox, url)
    assert set(answer) == {"status", "reason"}
    assert answer["status"] == "ERROR"
    return answer["reason"]


@pytest.mark.parametrize(
    ("method", "header", "body", "status"),
    [
        ("GET", (b"accept", b"text/html"), b"", 406),
        ("POST", (b"accept", b"*/*"), b"", 405),
        ("OPTIONS", (b"accept", b"*/*"), b"", 204),
    ],
)
def test_a_page_of_any_site_may_read_what_is_no_answer_of_lnurl(
    sandbox: Sandbox, tips: StaticCharge, method: str, header: tuple[bytes, bytes], body: bytes, status: int
) -> None:
    path = urlsplit(decode_lnurl(tips.request)).path
    answer = send_request(sandbox.app, method, path, (header,), body)
    assert (answer.status, dict(answer.headers)[b"access-control-allow-origin"]) == (status, b"*")


def test_the_lnurl_returns_the_pay_request(sandbox: Sandbox, tips: StaticCharge) -> None:
    response = pay_request(sandbox, tips)
    assert (response["tag"], response["minSendable"], response["maxSendable"]) == ("payRequest", 1000, 9000)
    assert response["commentAllowed"] == 150
    assert json.loads(response["metadata"]) == [["text/plain", "Tips"]]
    assert tips.data["invoice"]["uri"] == f"lightning:{tips.request}"


@pytest.mark.parametrize("amount", [1000, 1001, 9000])
def test_the_pay_request_leads_to_an_invoice_that_commits_to_its_metadata(
    sandbox: Sandbox, tips: StaticCharge, amount: int
) -> None:
    response = pay_request(sandbox, tips)
    given = get(sandbox, f"{response['callback']}?amount={amount}")
    invoice = decode(given["pr"])
    assert invoice.amount_msat == amount
    assert invoice.description_hash == hashlib.sha256(response["metadata"].encode()).digest()
    assert invoice.expiry_s == 300
    assert (given["routes"], given["disposable"]) == ([], False)
    assert given["successAction"] == {"tag": "message", "message": "Thank you"}


def test_verify_reports_the_settlement_with_the_preimage(sandbox: Sandbox, tips: StaticCharge) -> None:
    given = get(sandbox, f"{pay_request(sandbox, tips)['callback']}?amount=1000")
    before = get(sandbox, given["verify"])
    assert before == {"status": "OK", "settled": False, "preimage": None, "pr": given["pr"]}
    sandbox.wallet("ana").pay(given["pr"])
    sandbox.advance("1s")
    after = get(sandbox, given["verify"])
    assert after["settled"] is True
    assert hashlib.sha256(bytes.fromhex(after["preimage"])).digest() == decode(given["pr"]).payment_hash
    assert "hash" in refusal(sandbox, given["verify"][:-4] + "0000")


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("", "missing"),
        ("?amount=", "whole number"),
        ("?amount=999", "out of range"),
        ("?amount=9001", "out of range"),
        ("?amount=1e3", "whole number"),
        ("?amount=1000.0", "whole number"),
        ("?amount=01000", "whole number"),
        ("?amount=-1000", "whole number"),
        ("?amount=%D9%A1%D9%A0%D9%A0%D9%A0", "whole number"),
        ("?amount=1000%0A", "whole number"),
        ("?amount=0", "amount 0 is out of range: pay from 1000 to 9000"),
        ("?amount=" + "9" * 18, f"amount {'9' * 18} is out of range: pay from 1000 to 9000"),
        ("?amount=" + "9" * 19, f"amount {'9' * 19} is out of range: pay from 1000 to 9000"),
        ("?amount=" + "9" * 400, "amount of 400 digits is out of range: pay from 1000 to 9000"),
        ("?amount=1000&amount=1000", "twice"),
        ("?amount=1000&comment=" + "x" * 151, "comment"),
        ("?amount=1000&comment=%FF", "UTF-8"),
    ],
)
def test_a_wrong_request_for_an_invoice_gets_a_reason_and_no_charge(
    sandbox: Sandbox, tips: StaticCharge, query: str, word: str
) -> None:
    assert word in refusal(sandbox, pay_request(sandbox, tips)["callback"] + query)
    assert len(sandbox.charges) == 0


@pytest.mark.parametrize("comment", ["x" * 150, "é" * 150, "", "a+b%20c"])
def test_comments_up_to_the_limit_and_parameters_of_other_standards_pass(
    sandbox: Sandbox, tips: StaticCharge, comment: str
) -> None:
    from urllib.parse import quote

    url = f"{pay_request(sandbox, tips)['callback']}?amount=1000&comment={quote(comment)}&nonce=7"
    assert get(sandbox, url)["pr"].startswith("lnbcrt")
    [kept] = sandbox.world.service.charges.charges
    assert kept.get("comment", "") == comment


def test_an_unknown_lnurl_gets_a_reason(sandbox: Sandbox) -> None:
    for path in ("/lnurlp/nothing", "/lnurlp/nothing/invoice?amount=1000", "/.well-known/lnurlp/nobody"):
        assert refusal(sandbox, f"http://localhost{path}")


def test_a_full_and_an_expired_static_charge_get_a_reason(sandbox: Sandbox) -> None:
    once = sandbox.static_charges.create(**TIPS, allowedSlots=1)
    response = pay_request(sandbox, once)
    assert get(sandbox, f"{response['callback']}?amount=1000")["disposable"] is True
    sandbox.wallet("ana").scan(once, amount=1000)
    sandbox.advance("1s")
    assert "slot" in refusal(sandbox, decode_lnurl(once.request))
    assert "slot" in refusal(sandbox, f"{response['callback']}?amount=1000")
    brief = sandbox.static_charges.create(**TIPS, expiresIn=60)
    url = decode_lnurl(brief.request)
    assert decode(get(sandbox, f"{get(sandbox, url)['callback']}?amount=1000")["pr"]).expiry_s == 60
    sandbox.advance("60s")
    assert "expired" in refusal(sandbox, url)


def test_a_lightning_address_is_found_by_its_user_and_is_unique(sandbox: Sandbox) -> None:
    named = sandbox.static_charges.create(**TIPS, identifier="ana@localhost")
    response = get(sandbox, "http://localhost/.well-known/lnurlp/ana")
    assert ["text/identifier", "ana@localhost"] in json.loads(response["metadata"])
    assert named.id in response["callback"]
    answer = sandbox.http.post("/v0/static-charges", json={**TIPS, "identifier": "ana@elsewhere"})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (409, "/identifier")


def test_the_lnurl_stays_the_same_when_the_static_charge_changes(sandbox: Sandbox, tips: StaticCharge) -> None:
    code = tips.request
    tips.update(minAmount="2000", description="Tips for the band")
    assert tips.request == code
    response = pay_request(sandbox, tips)
    assert (response["minSendable"], json.loads(response["metadata"])[0][1]) == (2000, "Tips for the band")
    assert "out of range" in refusal(sandbox, f"{response['callback']}?amount=1999")


def test_a_child_charge_is_a_charge_like_any_other(sandbox: Sandbox, tips: StaticCharge) -> None:
    given = get(sandbox, f"{pay_request(sandbox, tips)['callback']}?amount=5000&comment=hello")
    [child] = tips.charges
    assert child.data["staticChargeId"] == tips.id
    assert child.data["invoice"]["request"] == given["pr"]
    assert child in list(sandbox.charges)
    sandbox.advance("300s")
    assert child.status == "expired"
    assert tips.slots == 0
