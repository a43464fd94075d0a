"""BOLT 11: properties of every invoice, and values just outside each bound."""

import copy
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leyden.lightning.bolt11.codec import Bolt11Error, InvoiceSigner, decode, decode_amount, encode_amount
from leyden.lightning.bolt11.fields import MAX_MSAT, Fallback, RouteHop
from leyden.server.charges.lnurl import CHARSET, bech32_decode, bech32_encode

SECRET = bytes.fromhex("e126f68f7eafcc8b74f54d269fe206be715000f94dac067d1c04a8ca3b2db734")
PAYEE = "03e7156ae33b0a208d0744199163177e909e80176e55d97a2f221ede0f934dd9ad"
HASH = bytes.fromhex("0001020304050607080900010203040506070809000102030405060708090102")
SIGNER = InvoiceSigner(SECRET)
MAINNET = InvoiceSigner(SECRET, "bc")
TEA = {"amount_msat": 50_000, "timestamp_s": 1_893_488_400, "payment_hash": HASH, "payment_secret": b"\x11" * 32}
HASHES = st.binary(min_size=32, max_size=32)
DESCRIPTIONS = st.text(st.characters(exclude_categories=["Cs"]), max_size=639).map(
    lambda text: text.encode()[:639].decode(errors="ignore")
)
NUMBERS = [st.integers(0, 2**bits - 1) for bits in (64, 32, 32, 16)]


def groups_of(chars):
    return sum(CHARSET.index(char) << 5 * place for place, char in enumerate(reversed(chars)))


def field(tag, value, groups):
    """A field as bech32 characters: its letter, its length, and a number in so many groups."""
    return CHARSET[CHARSET.index(tag)] + "".join(
        CHARSET[number >> 5 * place & 31]
        for number, count in ((groups, 2), (value, groups))
        for place in reversed(range(count))
    )


def crafted(*fields, hrp="lnbcrt500n", signer=SIGNER):
    """An invoice of these fields, signed, valid or not."""
    chars = "pvjluez" + "".join(fields)
    return signer.sign_data(hrp, groups_of(chars), len(chars))


P = field("p", int.from_bytes(HASH, "big") << 4, 52)
S = field("s", int.from_bytes(b"\x11" * 32, "big") << 4, 52)
H = field("h", 1 << 4, 52)
D = field("d", int.from_bytes(b"tea  ", "big"), 8)
N = field("n", int.from_bytes(SIGNER.node_id, "big") << 1, 53)


@given(
    amount_msat=st.integers(1, MAX_MSAT) | st.integers(1, 10**6),
    timestamp_s=st.integers(0, 2**35 - 1),
    payment_hash=HASHES,
    payment_secret=HASHES,
    description=DESCRIPTIONS,
    expiry_s=st.integers(1, 2**35 - 1),
    min_final_cltv=st.integers(1, 2_016),
    features=st.frozensets(st.sampled_from([8, 9, 14, 15, 16, 17, 48, 49, 99, 5_113])),
    prefix=st.sampled_from(["bcrt", "bc", "tb", "tbs"]),
)
def test_an_invoice_is_decoded_as_it_was_signed(prefix, **order):
    text = InvoiceSigner(SECRET, prefix).sign(**order)
    invoice = decode(text)
    assert {field: getattr(invoice, field) for field in order} == order
    assert (invoice.currency, invoice.payee.hex(), invoice.description_hash) == (prefix, PAYEE, None)
    assert invoice.expires_at_s == order["timestamp_s"] + order["expiry_s"]
    assert [tag for tag, _, _ in invoice.tagged] == list("psdxc9" if order["features"] else "psdxc")
    assert all(chars[0] != "q" for tag, chars, _ in invoice.tagged if tag in "xc9")  # the shortest length there is
    assert decode(text.upper()) == decode(f"lightning:{text}") == invoice


@given(HASHES, st.none() | st.integers(1, MAX_MSAT))
def test_a_description_hash_takes_the_place_of_the_description(description_hash, amount_msat):
    invoice = decode(SIGNER.sign(**{**TEA, "amount_msat": amount_msat}, description_hash=description_hash))
    assert (invoice.description, invoice.description_hash) == (None, description_hash)
    assert invoice.amount_msat == amount_msat
    assert [tag for tag, _, _ in invoice.tagged] == list("pshxc9")


@given(
    st.integers(1, MAX_MSAT)
    | st.integers(1, 10**9).map(lambda n: n * 100)
    | st.integers(1, 21_000).map(lambda n: n * 10**14)
)
def test_an_amount_is_encoded_in_its_shortest_form(amount_msat):
    text = encode_amount(amount_msat)
    assert decode_amount(text) == amount_msat
    others = [(10**11, ""), (10**8, "m"), (10**5, "u"), (10**2, "n")]
    forms = [f"{amount_msat // unit}{letter}" for unit, letter in others if amount_msat % unit == 0]
    assert text == min([*forms, f"{amount_msat}0p"], key=len)


def test_every_change_of_one_character_is_detected():
    short = SIGNER.sign(**TEA, description="tea")
    for place, right in enumerate(short):
        for wrong in set(CHARSET + "1bio_ ") - {right}:
            with pytest.raises(Bolt11Error):
                decode(short[:place] + wrong + short[place + 1 :])
        if right.isalpha():
            with pytest.raises(Bolt11Error, match="mixes"):
                decode(short[:place] + right.upper() + short[place + 1 :])


@given(st.data())
def test_every_change_of_one_character_is_detected_in_the_longest_invoice(data):
    long = SIGNER.sign(**TEA, description="x" * 639)
    place = data.draw(st.integers(0, len(long) - 1))
    wrong = data.draw(st.characters(codec="utf-8").filter(lambda char: char != long[place]))
    with pytest.raises(Bolt11Error):
        decode(long[:place] + wrong + long[place + 1 :])


@given(st.text(max_size=400) | st.binary(max_size=300).map(lambda raw: "lnbc1" + "".join(CHARSET[b & 31] for b in raw)))
def test_any_other_text_is_refused_with_a_reason(text):
    with pytest.raises(Bolt11Error, match=": "):
        decode(text)


@given(st.lists(st.tuples(st.sampled_from(CHARSET), st.integers(0), st.integers(0, 1023)), max_size=6))
def test_any_signed_fields_are_decoded_or_refused(fields):
    extra = [field(tag, value % (1 << 5 * groups), groups) for tag, value, groups in fields]
    try:
        invoice = decode(crafted(P, S, D, *extra))
    except Bolt11Error:
        return
    assert invoice.payee.hex() == PAYEE
    json.dumps(invoice.fields())


def test_the_same_fields_give_the_same_invoice_from_every_copy_of_the_signer():
    text = SIGNER.sign(**TEA, description="tea")
    assert SIGNER.node_id.hex() == PAYEE
    for twin in (copy.deepcopy(SIGNER), pickle.loads(pickle.dumps(SIGNER)), InvoiceSigner(SECRET)):
        assert twin.sign(**TEA, description="tea") == text
    assert text.startswith("lnbcrt500n1p")
    assert MAINNET.sign(**TEA, description="tea").startswith("lnbc500n1p")


# ---- the boundaries ----


def test_639_bytes_of_description_fit_and_640_do_not():
    for fitting in ("x" * 638, "x" * 639, "é" * 319 + "x", ""):
        assert decode(SIGNER.sign(**TEA, description=fitting)).description == fitting
    ((chars,),) = [[c for tag, c, _ in decode(SIGNER.sign(**TEA, description="x" * 639)).tagged if tag == "d"]]
    assert len(chars) == 1_023
    for too_long in ("x" * 640, "é" * 320):
        with pytest.raises(Bolt11Error, match="d: 640 bytes"):
            SIGNER.sign(**TEA, description=too_long)


@pytest.mark.parametrize(
    ("amount_msat", "text"),
    [
        (1, "10p"),
        (99, "990p"),
        (100, "1n"),
        (101, "1010p"),
        (99_900, "999n"),
        (100_000, "1u"),
        (100_100, "1001n"),
        (99_900_000, "999u"),
        (100_000_000, "1m"),
        (100_100_000, "1001u"),
        (99_900_000_000, "999m"),
        (100_000_000_000, "1"),
        (100_100_000_000, "1001m"),
        (967_878_534, "9678785340p"),
        (MAX_MSAT - 1, "20999999999999999990p"),
        (MAX_MSAT, "21000000"),
    ],
)
def test_amounts_around_each_multiplier(amount_msat, text):
    assert encode_amount(amount_msat) == text
    assert decode_amount(text) == amount_msat


@pytest.mark.parametrize("amount_msat", [0, -1, MAX_MSAT + 1])
def test_invalid_amounts_are_not_encoded(amount_msat):
    with pytest.raises(Bolt11Error, match="amount"):
        SIGNER.sign(**{**TEA, "amount_msat": amount_msat}, description="tea")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "01",
        "0p",
        "1p",
        "11p",
        "10q",
        "1.5m",
        "+1m",
        "-1",
        "m",
        "1mm",
        "１n",
        "21000001",
        "21000000001m",
        "9" * 5_000,
    ],
)
def test_invalid_amounts_are_not_decoded(text):
    with pytest.raises(Bolt11Error, match="amount"):
        decode_amount(text)


def test_an_amount_of_twenty_digits_is_read_and_a_longer_one_is_too_much_whatever_it_says():
    assert decode_amount("20999999999999999990p") == MAX_MSAT - 1
    for text in ("21000000000000000010p", "1" * 21 + "p", "9" * 21 + "n"):
        with pytest.raises(Bolt11Error, match="more than 21 million bitcoin"):
            decode_amount(text)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"timestamp_s": -1}, "timestamp"),
        ({"timestamp_s": 2**35}, "timestamp"),
        ({"payment_hash": b"x" * 31}, "p, s"),
        ({"payment_secret": b"x" * 33}, "p, s"),
        ({"expiry_s": 0}, "x: 0"),
        ({"expiry_s": 2**35}, "x: "),
        ({"min_final_cltv": 0}, "c: 0"),
        ({"features": (-1,)}, "9: feature bit -1 is outside 0 to 5114"),
        ({"features": (5_115,)}, "9: feature bit 5115 is outside 0 to 5114"),
        ({"description": None}, "d, h"),
        ({"description_hash": bytes(32)}, "d, h"),
        ({"description": None, "description_hash": bytes(31)}, "h: 32 bytes"),
        ({"description": "\ud800"}, "d: .*UTF-8"),
    ],
)
def test_fields_that_cannot_be_encoded_are_refused_by_name(change, words):
    with pytest.raises(Bolt11Error, match=words):
        SIGNER.sign(**{**TEA, "description": "tea", **change})


@pytest.mark.parametrize("secret", [b"", bytes(31), bytes(33), bytes(32), b"\xff" * 32])
def test_a_secret_that_is_no_key_is_refused(secret):
    with pytest.raises(Bolt11Error, match="secret"):
        InvoiceSigner(secret)


def test_an_unknown_currency_is_refused_by_encoder_and_decoder():
    with pytest.raises(Bolt11Error, match="'ltc'"):
        InvoiceSigner(SECRET, "ltc")
    with pytest.raises(Bolt11Error, match="prefix: 'lnltc1m'"):
        decode(crafted(P, S, D, hrp="lnltc1m"))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ((S, D), "p: no payment_hash"),
        ((P, D), "s: no payment_secret"),
        ((P, S), "d, h: exactly one"),
        ((P, S, D, H), "d, h: exactly one"),
        ((P, P, S, D), "p: the payment_hash occurs twice"),
        ((P, S, D, D), "d: the description occurs twice"),
        ((P, S, D, field("x", 60, 2), field("x", 60, 2)), "x: the expiry_s occurs twice"),
        ((P, S, field("d", 0xFF << 2, 2)), "d: the description is not UTF-8"),
        ((P, S, D, field("x", 1 << 63, 13)), "x: a number of 64 bits"),
        ((P, S, D, field("c", 1 << 63, 13)), "c: a number of 64 bits"),
        ((P, S, D, field("r", 0, 0)), "r: 0 bytes"),
        ((P, S, D, field("r", 0, 80)), "r: 50 bytes"),
        ((P, S, D, "9"), "9: the field runs into"),
        ((P, S, D, "9qp"), "9: the field runs into"),
        ((P, S, D, "9ll"), "9: the field runs into"),
        ((P, S, D, field("9", 1 << 24, 5)), r"9: it requires \[24\]"),
        ((P, S, D, field("9", 1 << 5_114, 1_023)), r"9: it requires \[5114\]"),
        ((P, S, D, field("n", 7 << 1, 53)), "n: the key"),
    ],
)
def test_signed_invoices_that_are_invalid_are_refused_by_field(fields, words):
    with pytest.raises(Bolt11Error, match=words):
        decode(crafted(*fields))


@pytest.mark.parametrize("bit", [1, 5, 7, 25, 99, 5_113])
def test_an_unknown_odd_feature_is_ignored_and_its_even_twin_binds(bit):
    assert bit in decode(SIGNER.sign(**TEA, description="tea", features=(8, 14, bit))).features
    with pytest.raises(Bolt11Error, match=rf"\[{bit - 1}\]"):
        decode(SIGNER.sign(**TEA, description="tea", features=(8, 14, bit - 1)))


def test_a_timestamp_and_a_signature_without_fields_are_an_incomplete_invoice():
    with pytest.raises(Bolt11Error, match="p: no payment_hash"):
        decode(crafted())


def test_a_field_may_end_where_the_signature_begins():
    invoice = decode(crafted(P, S, D, field("c", 0, 0)))
    assert (invoice.min_final_cltv, invoice.tagged[-1]) == (0, ("c", "", False))
    with pytest.raises(Bolt11Error, match="c: the field runs into"):
        decode(crafted(P, S, D, field("c", 0, 1)[:-1]))


def test_a_number_of_63_bits_is_read():
    assert decode(crafted(P, S, D, field("x", (1 << 63) - 1, 13))).expiry_s == (1 << 63) - 1


@given(st.lists(st.builds(RouteHop, st.binary(min_size=33, max_size=33), *NUMBERS), min_size=1, max_size=3))
def test_a_route_is_read_to_the_last_bit(hops):
    sizes = (33, 8, 4, 4, 2)
    raw = b"".join(
        part if isinstance(part, bytes) else part.to_bytes(size, "big")
        for hop in hops
        for part, size in zip(hop, sizes, strict=True)
    )
    groups = -(-8 * len(raw) // 5)
    route = field("r", int.from_bytes(raw, "big") << 5 * groups - 8 * len(raw), groups)
    invoice = decode(crafted(P, S, D, route, field("r", 0, 82)))
    assert invoice.routes == (tuple(hops), (RouteHop(bytes(33), 0, 0, 0, 0),))


@pytest.mark.parametrize(
    ("version", "sizes"),
    [(0, {20, 32}), (1, set(range(2, 41))), (16, set(range(2, 41))), (17, {20}), (18, {20}), (19, set())],
)
def test_a_fallback_is_kept_when_its_version_and_length_can_be_paid_to(version, sizes):
    for size in range(43):
        groups = -(-8 * size // 5)
        program = b"\xa5" * size
        value = version << 5 * groups | int.from_bytes(program, "big") << 5 * groups - 8 * size
        fallbacks = decode(crafted(P, S, D, field("f", value, groups + 1))).fallbacks
        assert fallbacks == ((Fallback(version, program),) if size in sizes else ())


def test_an_invoice_has_a_readable_representation():
    fields = (P, S, D, field("x", 60, 2), field("9", 1 << 14, 3), field("2", 5, 1))
    for hrp, amount in (("lnbcrt500n", "50000 msat"), ("lnbcrt", "any")):
        invoice = decode(crafted(*fields, hrp=hrp))
        rows = [line.split(maxsplit=2) for line in repr(invoice).splitlines()]
        assert rows[0] == ["ln", "currency", "bcrt"]
        assert rows[1:3] == [["amount", *amount.split(" ")], ["timestamp_s", "1496314658"]]
        assert rows[3:5] == [["p", "payment_hash", HASH.hex()], ["s", "payment_secret", "11" * 32]]
        assert rows[5:9] == [["d", "description", "tea"], ["x", "expiry_s", "60"], ["9", "features", "[14]"], rows[8]]
        assert rows[8:10] == [["2", "skipped", "9"], ["payee", PAYEE]]
        assert rows[10][0] == "signature"
        assert invoice.signature.hex().startswith(rows[10][1].rstrip("…"))
        page = invoice._repr_html_()
        assert "BOLT 11" in page
        assert all(row[-1] in page for row in rows)


def test_without_x_c_and_9_the_standards_defaults_apply():
    invoice = decode(crafted(P, S, D))
    assert (invoice.expiry_s, invoice.min_final_cltv, invoice.features) == (3_600, 18, frozenset())


@pytest.mark.parametrize(("tag", "value", "groups"), [("x", 60, 3), ("c", 9, 2), ("9", 1 << 14, 4), ("x", 0, 1)])
def test_a_number_with_leading_zeros_makes_the_invoice_invalid(tag, value, groups):
    """BOLT 11, a reader: "if a `c`, `x`, or `9` field is provided which has a non-minimal `data_length` (i.e. begins
    with 0 field elements): SHOULD treat the invoice as invalid"."""
    with pytest.raises(Bolt11Error, match=f"^{tag}: .*begins with a zero"):
        decode(crafted(P, S, D, field(tag, value, groups)))


def test_a_number_of_the_fewest_groups_is_read_and_an_empty_one_is_zero():
    invoice = decode(crafted(P, S, D, field("x", 60, 2), field("c", 0, 0), field("9", 1 << 14, 3)))
    assert (invoice.expiry_s, invoice.min_final_cltv, invoice.features) == (60, 0, frozenset({14}))


@pytest.mark.parametrize("number", [1, 31, 32, 1_023, 1_024, 2**35 - 1])
def test_numbers_and_features_are_written_in_the_fewest_groups(number):
    """BOLT 11, a writer: "MUST use the minimum `data_length` possible, i.e. no leading 0 field-elements"."""
    invoice = decode(SIGNER.sign(**TEA, description="tea", expiry_s=number, min_final_cltv=number, features=(8, 14)))
    written = {tag: chars for tag, chars, _ in invoice.tagged}
    assert (invoice.expiry_s, invoice.min_final_cltv, invoice.features) == (number, number, {8, 14})
    assert [len(written[tag]) for tag in "xc9"] == [-(-number.bit_length() // 5)] * 2 + [3]
    assert not any(written[tag].startswith(CHARSET[0]) for tag in "xc9")
    assert "9" not in {tag for tag, _, _ in decode(SIGNER.sign(**TEA, description="tea", features=())).tagged}


def test_fallbacks_no_wallet_could_use_are_skipped():
    odd = [
        field("f", version << 5 * (groups - 1), groups)
        for version, groups in ((17, 32), (18, 35), (0, 32), (2, 2), (16, 67), (19, 33), (31, 33))
    ]
    invoice = decode(crafted(P, S, D, *odd, field("f", 16 << 5 * 64, 65)))
    assert [skipped for tag, _, skipped in invoice.tagged if tag == "f"] == [True] * 7 + [False]
    assert invoice.fallbacks == (Fallback(16, bytes(40)),)


def with_signature(text, change):
    """The same invoice with other signature bytes and a checksum that fits them."""
    hrp, chars, _, value = bech32_decode(text)
    signature = change((value & (1 << 520) - 1).to_bytes(65, "big"))
    return bech32_encode(hrp, value >> 520 << 520 | int.from_bytes(signature, "big"), len(chars))


def high(signature):
    order = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
    s = order - int.from_bytes(signature[32:64], "big")
    return signature[:32] + s.to_bytes(32, "big") + bytes([signature[64] ^ 1])


def test_with_n_the_signature_is_checked_against_it_whatever_the_recovery_id():
    text = crafted(P, S, D, N)
    assert decode(text).payee.hex() == PAYEE
    for recovery_id in (0, 1, 2, 3, 255):
        other = with_signature(text, lambda signature, last=recovery_id: signature[:64] + bytes([last]))
        assert decode(other).payee.hex() == PAYEE


def test_with_n_a_high_s_is_refused_and_without_n_it_is_accepted():
    with pytest.raises(Bolt11Error, match="S is high"):
        decode(with_signature(crafted(P, S, D, N), high))
    assert decode(with_signature(crafted(P, S, D), high)).payee.hex() == PAYEE


def test_with_n_another_nodes_signature_is_refused():
    stranger = InvoiceSigner(b"\x01" * 32)
    with pytest.raises(Bolt11Error, match="not that of the node named in n"):
        decode(crafted(P, S, D, N, signer=stranger))
    assert decode(crafted(P, S, D, signer=stranger)).payee == stranger.node_id


@pytest.mark.parametrize("fields", [(P, S, D), (P, S, D, N)])
@pytest.mark.parametrize("part", [bytes(32), b"\xff" * 32])
def test_numbers_that_are_no_signature_are_refused(fields, part):
    with pytest.raises(Bolt11Error, match=r"signature: |n: "):
        decode(with_signature(crafted(*fields), lambda signature: part + signature[32:]))
    with pytest.raises(Bolt11Error, match=r"signature: |n: "):
        decode(with_signature(crafted(*fields), lambda signature: signature[:32] + part + signature[64:]))


@given(st.integers(0, 2**35 - 1))
def test_with_n_every_signature_of_the_node_is_its_own(timestamp_s):
    chars = "".join(CHARSET[timestamp_s >> 5 * place & 31] for place in reversed(range(7)))
    fields = chars + P + S + D + N
    assert decode(SIGNER.sign_data("lnbcrt500n", groups_of(fields), len(fields))).payee.hex() == PAYEE


def test_half_the_order_is_the_last_s_that_is_not_high():
    half = 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0
    for s, words in ((half, "not that of the node"), (half + 1, "S is high")):
        forged = with_signature(
            crafted(P, S, D, N), lambda signature, s=s: signature[:32] + s.to_bytes(32, "big") + signature[64:]
        )
        with pytest.raises(Bolt11Error, match=words):
            decode(forged)


@pytest.mark.parametrize("recovery_id", [4, 255])
def test_without_n_a_recovery_id_above_three_is_refused(recovery_id):
    with pytest.raises(Bolt11Error, match="signature: no key"):
        decode(with_signature(crafted(P, S, D), lambda signature: signature[:64] + bytes([recovery_id])))
