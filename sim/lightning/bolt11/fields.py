"""The parts of a BOLT 11 invoice: amount, tagged fields and feature bits."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from leyden.errors import Bolt11Error
from leyden.server.charges.lnurl import CHARSET

MAX_MSAT = 2_100_000_000_000_000_000  # 21 million bitcoin
MAX_FIELD_GROUPS = 1_023  # a field's length is ten bits
MAX_DESCRIPTION_BYTES = 639  # as many whole bytes as 1023 groups of five bits hold
HEADER_GROUPS = 3  # a field's letter and its length
HASH_GROUPS = 52  # 256 bits and four of padding

# BOLT 9, context 9: var_onion_optin, payment_secret, basic_mpp, option_payment_metadata. Payers support these
# and no others (route blinding is not simulated): another even bit is refused.
KNOWN_FEATURES = {8: "var_onion_optin", 14: "payment_secret", 16: "basic_mpp", 48: "option_payment_metadata"}
_EVEN_BITS = int("01" * (MAX_FIELD_GROUPS * 5 // 2 + 1), 2)
_UNKNOWN_EVEN_BITS = _EVEN_BITS & ~sum(1 << bit for bit in KNOWN_FEATURES)

_BTC = 100_000_000_000  # in millisatoshis
_MULTIPLIERS = {"m": _BTC // 1_000, "u": _BTC // 1_000_000, "n": _BTC // 1_000_000_000}
_AMOUNT = re.compile(r"([1-9][0-9]*)([munp]?)")
_FALLBACK_BYTES = {0: (20, 32), 17: (20,), 18: (20,)}
_HOP_BYTES = 51  # 33 node, 8 channel, 4 base fee, 4 proportional fee, 2 cltv delta


class RouteHop(NamedTuple):
    """One entry of an `r` field: the channel that leaves `node_id` towards the payee. Fees as in BOLT 7."""

    node_id: bytes
    short_channel_id: int
    fee_base_msat: int
    fee_proportional_millionths: int
    cltv_delta: int


class Fallback(NamedTuple):
    """An `f` field: version 17 is a public key hash, 18 a script hash, 0 to 16 a witness program of that version."""

    version: int
    program: bytes


class TaggedField(NamedTuple):
    """A field of the invoice: its letter and its bech32 characters. `skipped`: a reader must ignore it."""

    tag: str
    chars: str
    skipped: bool


def encode_amount(amount_msat: int) -> str:
    """Encode millisatoshis: bitcoin with the largest multiplier that gives a whole number (BOLT 11).

    Bounds: 1 to 2.1e18 msat, otherwise `Bolt11Error`. 1 msat is `10p`.
    """
    if not 1 <= amount_msat <= MAX_MSAT:
        raise Bolt11Error(f"amount: {amount_msat} msat is outside 1 to {MAX_MSAT}")
    if amount_msat % 100:
        return f"{amount_msat}0p"
    if amount_msat % 100_000:
        return f"{amount_msat // 100}n"
    if amount_msat % 100_000_000:
        return f"{amount_msat // 100_000}u"
    if amount_msat % _BTC:
        return f"{amount_msat // 100_000_000}m"
    return f"{amount_msat // _BTC}"


def decode_amount(text: str) -> int:
    """Decode an amount such as `2500u` to millisatoshis; a form that is not the shortest (`1000m`) is accepted.

    Raises `Bolt11Error` for a leading zero, another multiplier, a fraction of a msat, or more than 2.1e18 msat.
    """
    found = _AMOUNT.fullmatch(text)
    if found is None:
        raise Bolt11Error(f"amount: {text!r} is not digits (the first not 0) and at most one of m, u, n, p")
    digits, multiplier = found.groups()
    if len(digits) > 20:
        raise Bolt11Error(f"amount: {text!r} is more than 21 million bitcoin")
    if multiplier == "p":
        # BOLT 11: with p the last decimal must be 0, because an HTLC carries whole millisatoshis.
        if digits[-1] != "0":
            raise Bolt11Error(f"amount: {text!r} is not whole millisatoshis; with p the last digit must be 0")
        amount_msat = int(digits[:-1])
    else:
        amount_msat = int(digits) * _MULTIPLIERS.get(multiplier, _BTC)
    if amount_msat > MAX_MSAT:
        raise Bolt11Error(f"amount: {text!r} is more than 21 million bitcoin")
    return amount_msat


def to_bytes(digits: bytes) -> bytes:
    """The whole bytes of a field given as base-32 digits, without the padding."""
    size, spare = divmod(5 * len(digits), 8)
    return (int(digits, 32) >> spare).to_bytes(size, "big") if size else b""


def read_number(tag: str, digits: bytes) -> int:
    """A field's big-endian number; an empty field is 0. Raises `Bolt11Error` above 63 bits."""
    value = int(digits or b"0", 32)
    if value.bit_length() > 63:
        raise Bolt11Error(f"{tag}: a number of {value.bit_length()} bits; at most 63 are supported")
    return value


@lru_cache(maxsize=256)
def feature_bits(digits: bytes) -> frozenset[int]:
    """The bits set in a `9` field. Raises `Bolt11Error` for unknown even bits, which are required (BOLT 11)."""
    mask = int(digits or b"0", 32)
    if unknown := mask & _UNKNOWN_EVEN_BITS:
        raise Bolt11Error(
            f"9: it requires {_bits(unknown)}, which payers here do not support; only odd bits may be ignored"
        )
    return frozenset(_bits(mask))


def _bits(mask: int) -> list[int]:
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]


def read_route(digits: bytes) -> tuple[RouteHop, ...]:
    """The hops of an `r` field, in order. Raises `Bolt11Error` for a partial hop, or none."""
    raw = to_bytes(digits)
    if not raw or len(raw) % _HOP_BYTES:
        raise Bolt11Error(f"r: {len(raw)} bytes are not one or more hops of {_HOP_BYTES}")
    hops = (raw[at : at + _HOP_BYTES] for at in range(0, len(raw), _HOP_BYTES))
    return tuple(
        RouteHop(
            hop[:33],
            *(int.from_bytes(part, "big") for part in (hop[33:41], hop[41:45], hop[45:49], hop[49:])),
        )
        for hop in hops
    )


def read_fallback(digits: bytes) -> Fallback | None:
    """An `f` field, or None for a version or length that a reader must skip (BOLT 11, BIP 141)."""
    version, program = read_number("f", digits[:1]), to_bytes(digits[1:])
    known = len(program) in _FALLBACK_BYTES.get(version, ()) or (1 <= version <= 16 and 2 <= len(program) <= 40)
    return Fallback(version, program) if known else None


def field_header(tag: str, groups: int) -> int:
    """The three groups before a field of `groups` groups: its letter and its length."""
    return CHARSET.index(tag) << 10 | groups


def description_field(text: str) -> tuple[int, int]:
    """A `d` field and its length in bits. Raises `Bolt11Error` above 639 bytes of UTF-8."""
    try:
        raw = text.encode()
    except UnicodeEncodeError as error:
        raise Bolt11Error(f"d: the description cannot be written in UTF-8: {error.reason}") from None
    if len(raw) > MAX_DESCRIPTION_BYTES:
        raise Bolt11Error(f"d: {len(raw)} bytes, at most {MAX_DESCRIPTION_BYTES} fit; give its SHA-256 as h instead")
    groups = (8 * len(raw) + 4) // 5
    body = int.from_bytes(raw, "big") << 5 * groups - 8 * len(raw)
    return field_header("d", groups) << 5 * groups | body, 5 * (HEADER_GROUPS + groups)


@lru_cache(maxsize=256)
def trailing_fields(expiry_s: int, min_final_cltv: int, features: tuple[int, ...]) -> tuple[int, int]:
    """The fields x, c and 9 and their length in bits; cached, because the invoices of a shop mostly share them.

    Raises `Bolt11Error` for an expiry or a cltv outside 1 to 2^35 - 1 and for what a `9` field cannot hold.
    """
    for tag, value in (("x", expiry_s), ("c", min_final_cltv)):
        if not 1 <= value < 1 << 35:
            raise Bolt11Error(f"{tag}: {value} is outside 1 to {(1 << 35) - 1}")
    fields = bits = 0
    for tag, value in (("x", expiry_s), ("c", min_final_cltv), ("9", _feature_mask(features))):
        # BOLT 11: minimal length; 9 is omitted if no bit is set.
        if groups := (value.bit_length() + 4) // 5:
            fields = (fields << 15 | field_header(tag, groups)) << 5 * groups | value
            bits += 5 * (HEADER_GROUPS + groups)
    return fields, bits


def _feature_mask(features: tuple[int, ...]) -> int:
    mask = 0
    for bit in features:
        if not 0 <= bit < 5 * MAX_FIELD_GROUPS:
            raise Bolt11Error(f"9: feature bit {bit} is outside 0 to {5 * MAX_FIELD_GROUPS - 1}")
        mask |= 1 << bit
    return mask
