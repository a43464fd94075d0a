"""BOLT 11: the 26 examples of the standard are decoded or refused with the right reason, and encoded again."""

import hashlib
import json
from pathlib import Path

import pytest

from leyden.lightning.bolt11.codec import Bolt11Error, InvoiceSigner, decode
from leyden.lightning.bolt11.fields import Fallback, RouteHop
from leyden.server.charges.lnurl import bech32_decode

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "bolt11.json").read_text())
VALID = [vector for vector in VECTORS if vector["valid"]]
PAYEE = "03e7156ae33b0a208d0744199163177e909e80176e55d97a2f221ede0f934dd9ad"
HASH = bytes.fromhex("0001020304050607080900010203040506070809000102030405060708090102")
SIGNER = InvoiceSigner(bytes.fromhex("e126f68f7eafcc8b74f54d269fe206be715000f94dac067d1c04a8ca3b2db734"))
CAKE = (
    "One piece of chocolate cake, one icecream cone, one pickle, one slice of swiss cheese, one slice of salami,"
    " one lollypop, one piece of cherry pie, one sausage, one cupcake, and one slice of watermelon"
)


def vector(beginning):
    (found,) = [entry["invoice"] for entry in VECTORS if entry["name"].startswith(beginning)]
    return found


@pytest.mark.parametrize("entry", VECTORS, ids=lambda entry: entry["name"][:40])
def test_the_standards_examples_are_decoded_or_refused_as_it_says(entry):
    if entry["valid"]:
        decode(entry["invoice"])
    else:
        with pytest.raises(Bolt11Error):
            decode(entry["invoice"])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Same, but adding invalid unknown feature 100", r"9: it requires \[100\]"),
        ("Bech32 checksum is invalid", "bech32: its checksum"),
        ("Malformed bech32 string (no 1)", "bech32: .*separator"),
        ("Malformed bech32 string (mixed case)", "bech32: it mixes"),
        ("Signature is not recoverable", "signature: no key"),
        ("String is too short", "length: 103 groups"),
        ("Invalid multiplier", "amount: '2500x'"),
        ("Invalid sub-millisatoshi precision", "amount: '2500000001p' is not whole"),
        ("Missing required `s` field", "s: no payment_secret"),
        ("Non canonical signature (high-S)", "signature: its S is high"),
    ],
)
def test_each_refused_example_is_refused_for_its_own_reason(name, words):
    with pytest.raises(Bolt11Error, match=words):
        decode(vector(name))


def test_the_examples_decode_to_the_fields_in_the_standard():
    for entry in VALID[:15]:
        invoice = decode(entry["invoice"])
        assert invoice.payee.hex() == PAYEE
        assert invoice.payment_secret == b"\x11" * 32
        if "0.00967878534" not in entry["name"]:
            assert (invoice.payment_hash, invoice.timestamp_s) == (HASH, 1_496_314_658)
            assert (invoice.min_final_cltv, {8, 14} <= invoice.features) == (18, True)


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("Please make a donation", {"amount_msat": None, "description": "Please consider supporting this project"}),
        ("Please send $3 ", {"amount_msat": 250_000_000, "description": "1 cup coffee", "expiry_s": 60}),
        ("Please send 0.0025", {"amount_msat": 250_000_000, "description": "ナンセンス 1杯", "expiry_s": 60}),
        ("Now send $24", {"amount_msat": 2_000_000_000, "description": None, "expiry_s": 3_600}),
        ("The same, on testnet", {"currency": "tb", "amount_msat": 2_000_000_000}),
        ("Please send 0.00967878534", {"amount_msat": 967_878_534, "expiry_s": 604_800, "min_final_cltv": 10}),
        ("Please send $30", {"amount_msat": 2_500_000_000, "description": "coffee beans"}),
        ("Please send $30", {"features": frozenset({8, 14, 99})}),
        ("Please send 0.01", {"metadata": bytes.fromhex("01fafaf0"), "features": frozenset({8, 14, 48})}),
        ("Now send $24", {"description_hash": hashlib.sha256(CAKE.encode()).digest()}),
    ],
)
def test_an_example_has_the_fields_that_its_title_names(name, facts):
    invoice = decode(vector(name))
    assert {field: getattr(invoice, field) for field in facts} == facts


@pytest.mark.parametrize(
    ("name", "version", "program"),
    [
        ("The same, on testnet", 17, "3172b5654f6683c8fb146959d347ce303cae4ca7"),
        ("On mainnet, with fallback address 1Rusty", 17, "04b61f7dc1ea0dc99424464cc4064dc564d91e89"),
        ("On mainnet, with fallback (P2SH)", 18, "8f55563b9a19f321c211e9b9f38cdf686ea07845"),
        ("On mainnet, with fallback (P2WPKH)", 0, "751e76e8199196d454941c45d1b3a323f1433bd6"),
        ("On mainnet, with fallback (P2WSH)", 0, "1863143c14c5166804bd19203356da136c985678cd4d27a1b8c6329604903262"),
        ("On mainnet, with fallback (P2TR)", 1, "0adac43daa9c8a5a68e09ea10692b82226ee190e572db9b90e17a410484ab405"),
    ],
)
def test_fallback_addresses_are_read(name, version, program):
    assert decode(vector(name)).fallbacks == (Fallback(version, bytes.fromhex(program)),)


def test_route_hints_are_read():
    key = "9e03a901b85534ff1e92c43c74431f7ce72046060fcf7a95c37e148f78c77255"
    assert decode(vector("On mainnet, with fallback address 1Rusty")).routes == (
        (
            RouteHop(bytes.fromhex("02" + key), 0x0102030405060708, 1, 20, 3),
            RouteHop(bytes.fromhex("03" + key), 0x030405060708090A, 2, 30, 4),
        ),
    )


def test_a_high_s_is_accepted_when_the_key_is_recovered():
    invoice = decode(vector("Public-key recovery with high-S"))
    assert invoice.payee.hex() == "02d0139ce7427d6dfffd26a326c18be754ef1e64672b42694ba5b23ef6e6e7803d"


@pytest.mark.parametrize("entry", VALID[:15], ids=lambda entry: entry["name"][:40])
def test_signing_an_examples_fields_again_gives_the_example_to_the_byte(entry):
    text = entry["invoice"].lower()
    hrp, chars, _, value = bech32_decode(text)
    assert SIGNER.sign_data(hrp, value >> 5 * 104, len(chars) - 104) == text


def test_the_fields_are_kept_as_they_were_written():
    for entry in VALID:
        chars = bech32_decode(entry["invoice"]).chars
        at = 7
        for tag, body, _ in decode(entry["invoice"]).tagged:
            assert chars[at] == tag
            assert chars[at + 3 : at + 3 + len(body)] == body
            at += 3 + len(body)
        assert at == len(chars) - 104


def test_fields_that_must_be_ignored_are_ignored_and_shown():
    lean, full = decode(vector("Please send $30")), decode(vector("Same, but including fields"))
    assert lean.fields() == full.fields()[:4]
    assert [name for _, name, _ in full.fields()[4:]] == ["skipped"] * 10
    assert [tag for tag, _, _ in full.fields()[4:]] == ["2", "f", "p", "p", "h", "h", "s", "s", "n", "n"]
    assert (lean.payment_hash, lean.fallbacks, lean.payee) == (full.payment_hash, full.fallbacks, full.payee)


def test_the_readable_representation_is_json():
    for entry in VALID:
        json.dumps(decode(entry["invoice"]).fields())
    rows = decode(vector("On mainnet, with fallback address 1Rusty")).fields()
    assert [tag for tag, _, _ in rows] == ["s", "p", "h", "f", "r", "9"]
    assert rows[1] == ("p", "payment_hash", HASH.hex())
    assert rows[3] == ("f", "fallback", {"version": 17, "program": "04b61f7dc1ea0dc99424464cc4064dc564d91e89"})
    assert rows[4][2][1]["fee_proportional_millionths"] == 30
    assert rows[5] == ("9", "features", [8, 14])
