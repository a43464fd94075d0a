"""BOLT 11 invoices: encoding, signing and decoding."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from coincurve import PrivateKey, PublicKey

from leyden.errors import Bolt11Error
from leyden.lightning.bolt11.fields import (
    HASH_GROUPS,
    HEADER_GROUPS,
    MAX_DESCRIPTION_BYTES,
    Fallback,
    RouteHop,
    TaggedField,
    decode_amount,
    description_field,
    encode_amount,
    feature_bits,
    field_header,
    read_fallback,
    read_number,
    read_route,
    to_bytes,
    trailing_fields,
)
from leyden.repr_tables import html_table, text_table
from leyden.server.charges.lnurl import Bech32Error, bech32_decode, bech32_encode, strip_uri_scheme

__all__ = ["Bolt11", "Bolt11Error", "InvoiceSigner", "decode", "decode_amount", "encode_amount"]

DEFAULT_EXPIRY_S = 3_600  # BOLT 11: when x is absent
DEFAULT_MIN_FINAL_CLTV = 18  # BOLT 11: when c is absent
# What issued invoices announce: variable-length onion and payment secret required, multi-part payment optional.
ISSUED_FEATURES = (8, 14, 17)
ISSUED_MIN_FINAL_CLTV = 80

CURRENCIES = ("bcrt", "bc", "tbs", "tb")  # regtest, mainnet, signet, testnet; a prefix after the longer one
_HRP = re.compile(f"ln({'|'.join(CURRENCIES)})(.*)")
_TIMESTAMP_GROUPS, _SIGNATURE_GROUPS = 7, 104
_HALF_ORDER = 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0  # of secp256k1: the largest low S
_FIXED_GROUPS = {"p": HASH_GROUPS, "s": HASH_GROUPS, "h": HASH_GROUPS, "n": 53}
_NAMES = {
    "p": "payment_hash",
    "s": "payment_secret",
    "d": "description",
    "h": "description_hash",
    "x": "expiry_s",
    "c": "min_final_cltv",
    "9": "features",
    "n": "payee",
    "m": "metadata",
    "f": "fallback",
    "r": "route",
}
_ONCE = frozenset(_NAMES) - {"f", "r"}
_NUMBERS = "cx9"  # written with as few groups as possible

# Timestamp, p and s have fixed positions in an issued invoice, so the two headers are one constant.
_HASH_FIELD_BITS = 5 * (HEADER_GROUPS + HASH_GROUPS)
_HEAD_GROUPS = _TIMESTAMP_GROUPS + 2 * (HEADER_GROUPS + HASH_GROUPS)
_P_HEADER, _S_HEADER, _H_HEADER = (field_header(tag, HASH_GROUPS) << 5 * HASH_GROUPS for tag in "psh")
_HEAD = _P_HEADER << _HASH_FIELD_BITS | _S_HEADER


@dataclass(frozen=True, slots=True, repr=False)
class Bolt11:
    """A decoded invoice. Keys are 33 bytes, hashes and the secret 32; exactly one of the descriptions is not None.

    `payee` is the key in `n`, or the one the signature was recovered to. `signature` is 64 bytes and the recovery id.
    `routes` are the `r` hints, `tagged` every field in written order, those a reader must ignore included.
    """

    currency: str
    amount_msat: int | None
    timestamp_s: int
    payment_hash: bytes
    payment_secret: bytes
    description: str | None
    description_hash: bytes | None
    expiry_s: int
    min_final_cltv: int
    features: frozenset[int]
    payee: bytes
    routes: tuple[tuple[RouteHop, ...], ...]
    fallbacks: tuple[Fallback, ...]
    metadata: bytes | None
    signature: bytes
    tagged: tuple[TaggedField, ...]

    @property
    def expires_at_s(self) -> int:
        """The instant, in seconds since the epoch, from which the invoice has expired."""
        return self.timestamp_s + self.expiry_s

    def fields(self) -> list[tuple[str, str, Any]]:
        """The fields `(letter, name, value)` in the order of the invoice, with JSON values; bytes are hex digits.

        A field that a reader must ignore has the name `skipped` and its bech32 characters as value.
        """
        shown: dict[str, Any] = {tag: getattr(self, name) for tag, name in _NAMES.items() if tag in _ONCE}
        shown["9"] = sorted(self.features)
        routes = ([{**hop._asdict(), "node_id": hop.node_id.hex()} for hop in route] for route in self.routes)
        fallbacks = ({"version": version, "program": program.hex()} for version, program in self.fallbacks)
        rows: list[tuple[str, str, Any]] = []
        for tag, chars, skipped in self.tagged:
            if skipped:
                rows.append((tag, "skipped", chars))
                continue
            value = next(routes) if tag == "r" else next(fallbacks) if tag == "f" else shown[tag]
            rows.append((tag, _NAMES[tag], value.hex() if isinstance(value, bytes) else value))
        return rows

    def _shown(self) -> list[tuple[str, str, Any]]:
        amount = "any" if self.amount_msat is None else f"{self.amount_msat} msat"
        head = [("ln", "currency", self.currency), ("", "amount", amount), ("", "timestamp_s", self.timestamp_s)]
        return [*head, *self.fields(), ("", "payee", self.payee.hex()), ("", "signature", self.signature.hex())]

    def __repr__(self) -> str:
        return text_table(self._shown())

    def _repr_html_(self) -> str:
        return html_table(self._shown(), caption="BOLT 11")


class InvoiceSigner:
    """Signs invoices with one node key, for one currency (default `bcrt`).

    Signatures are deterministic (RFC 6979): the same arguments give the same invoice.
    """

    __slots__ = ("_key", "node_id", "prefix")

    max_description_bytes = MAX_DESCRIPTION_BYTES

    def __init__(self, secret: bytes, prefix: str = "bcrt") -> None:
        if len(secret) != 32:
            raise Bolt11Error(f"a node's secret is 32 bytes, not {len(secret)}")
        try:
            self._key = PrivateKey(secret)
        except ValueError as error:
            raise Bolt11Error(f"this secret is no secp256k1 key: {error}") from None
        if prefix not in CURRENCIES:
            raise Bolt11Error(f"currency {prefix!r} is none of {', '.join(CURRENCIES)}")
        self.node_id: bytes = self._key.public_key.format()
        self.prefix = prefix

    def __reduce__(self) -> tuple[type[InvoiceSigner], tuple[bytes, str]]:
        # The key is C data: a copy is made from the secret.
        return InvoiceSigner, (self._key.secret, self.prefix)

    def sign(
        self,
        *,
        amount_msat: int | None,
        timestamp_s: int,
        payment_hash: bytes,
        payment_secret: bytes,
        description: str | None = None,
        description_hash: bytes | None = None,
        expiry_s: int = DEFAULT_EXPIRY_S,
        min_final_cltv: int = ISSUED_MIN_FINAL_CLTV,
        features: Iterable[int] = ISSUED_FEATURES,
    ) -> str:
        """Write an invoice: fields p, s, d or h, x, c, 9, each in its shortest form; never n.

        Bounds: amount 1 to 2.1e18 msat (None asks for none), timestamp 35 bits of seconds, hash and secret 32 bytes,
        exactly one of description (639 bytes of UTF-8 at most) and description hash (32 bytes), expiry and cltv 1 to
        2^35 - 1. Raises `Bolt11Error` naming the field.
        """
        if len(payment_hash) != 32 or len(payment_secret) != 32:
            raise Bolt11Error(f"p, s: 32 bytes each, not {len(payment_hash)} and {len(payment_secret)}")
        if not 0 <= timestamp_s < 1 << 35:
            raise Bolt11Error(f"timestamp: {timestamp_s} s does not fit 35 bits")
        data = (
            timestamp_s << 2 * _HASH_FIELD_BITS
            | int.from_bytes(payment_hash, "big") << _HASH_FIELD_BITS + 4
            | int.from_bytes(payment_secret, "big") << 4
            | _HEAD
        )
        if description is not None and description_hash is None:
            description_data, description_bits = description_field(description)
        elif description_hash is not None and description is None:
            if len(description_hash) != 32:
                raise Bolt11Error(f"h: 32 bytes, not {len(description_hash)}")
            description_data, description_bits = (
                _H_HEADER | int.from_bytes(description_hash, "big") << 4,
                _HASH_FIELD_BITS,
            )
        else:
            raise Bolt11Error("d, h: an invoice has exactly one of a description and a description hash")
        closing, closing_bits = trailing_fields(expiry_s, min_final_cltv, tuple(features))
        data = (data << description_bits | description_data) << closing_bits | closing
        amount = "" if amount_msat is None else encode_amount(amount_msat)
        return self.sign_data(f"ln{self.prefix}{amount}", data, _HEAD_GROUPS + (description_bits + closing_bits) // 5)

    def sign_data(self, hrp: str, data: int, groups: int) -> str:
        """Sign a data part of `groups` groups of five bits, from the timestamp to the last field.

        Nothing is checked, so that tests can sign invalid invoices.
        """
        bits = 5 * groups
        spare = -bits % 8
        message = hrp.encode("ascii") + (data << spare).to_bytes((bits + spare) // 8, "big")
        signature = self._key.sign_recoverable(message)
        return bech32_encode(
            hrp, data << 5 * _SIGNATURE_GROUPS | int.from_bytes(signature, "big"), groups + _SIGNATURE_GROUPS
        )


def decode(text: str) -> Bolt11:
    """Read an invoice as BOLT 11 asks of a payer: lower or upper case, with or without `lightning:` before it.

    Raises `Bolt11Error`, naming the part: damaged bech32, an unknown currency, a bad amount, a missing or repeated
    p, s, d, h, x, c, 9, n or m, an x, c or 9 with leading zeros, an unknown even feature bit, a signature that is not
    the payee's.
    """
    try:
        hrp, chars, digits, value = bech32_decode(strip_uri_scheme(text))
    except Bech32Error as error:
        raise Bolt11Error(f"bech32: {error}") from None
    prefix = _HRP.fullmatch(hrp)
    if prefix is None:
        raise Bolt11Error(f"prefix: {hrp!r} is not ln, a known currency ({', '.join(CURRENCIES)}) and an amount")
    currency, amount = prefix.groups()
    amount_msat = decode_amount(amount) if amount else None
    end = len(digits) - _SIGNATURE_GROUPS
    if end < _TIMESTAMP_GROUPS:
        raise Bolt11Error(f"length: {len(digits)} groups cannot hold a timestamp and a signature, which take 111")

    signature = (value & (1 << 5 * _SIGNATURE_GROUPS) - 1).to_bytes(65, "big")
    spare = -5 * end % 8
    signed = (value >> 5 * _SIGNATURE_GROUPS << spare).to_bytes((5 * end + spare) // 8, "big")
    digest = hashlib.sha256(hrp.encode("ascii") + signed).digest()

    found: dict[str, bytes] = {}
    routes: list[tuple[RouteHop, ...]] = []
    fallbacks: list[Fallback] = []
    tagged: list[TaggedField] = []
    repeated = ""
    at = _TIMESTAMP_GROUPS
    while at < end:
        start = at + HEADER_GROUPS
        if start > end or (stop := start + int(digits[at + 1 : start], 32)) > end:
            raise Bolt11Error(f"{chars[at]}: the field runs into the signature")
        tag, body = chars[at], digits[start:stop]
        skipped = False
        if tag in _ONCE:
            # BOLT 11's example "fields which must be ignored": a reader skips p, h, s, n of another length.
            if _FIXED_GROUPS.get(tag, len(body)) != len(body):
                skipped = True
            elif tag in found:
                repeated = tag
            else:
                found[tag] = body
        elif tag == "r":
            routes.append(read_route(body))
        elif tag == "f" and (fallback := read_fallback(body)):
            fallbacks.append(fallback)
        else:
            skipped = True
        tagged.append(TaggedField(tag, chars[start:stop], skipped))
        at = stop

    # The signature is checked before the fields.
    payee = _verified(digest, signature, to_bytes(found["n"])) if "n" in found else _recovered(digest, signature)
    if repeated:
        # BOLT 11 allows these fields once. Wallets differ on which of two they read, which can be exploited.
        raise Bolt11Error(f"{repeated}: the {_NAMES[repeated]} occurs twice; wallets differ on which of them they read")
    for tag in "ps":
        if tag not in found:
            raise Bolt11Error(f"{tag}: no {_NAMES[tag]} of {HASH_GROUPS} groups in the invoice: it is required")
    for tag in _NUMBERS:
        # BOLT 11: an invoice with more groups than are needed for one of these SHOULD be treated as invalid.
        if found.get(tag, b"").startswith(b"0"):
            raise Bolt11Error(f"{tag}: the {_NAMES[tag]} begins with a zero: write it with as few groups as possible")
    if ("d" in found) == ("h" in found):
        raise Bolt11Error("d, h: exactly one of a description and a description hash is required")
    try:
        description = to_bytes(found["d"]).decode() if "d" in found else None
    except UnicodeDecodeError:
        raise Bolt11Error("d: the description is not UTF-8") from None
    return Bolt11(
        currency=currency,
        amount_msat=amount_msat,
        timestamp_s=int(digits[:_TIMESTAMP_GROUPS], 32),
        payment_hash=to_bytes(found["p"]),
        payment_secret=to_bytes(found["s"]),
        description=description,
        description_hash=to_bytes(found["h"]) if "h" in found else None,
        expiry_s=read_number("x", found["x"]) if "x" in found else DEFAULT_EXPIRY_S,
        min_final_cltv=read_number("c", found["c"]) if "c" in found else DEFAULT_MIN_FINAL_CLTV,
        features=feature_bits(found.get("9", b"")),
        payee=payee,
        routes=tuple(routes),
        fallbacks=tuple(fallbacks),
        metadata=to_bytes(found["m"]) if "m" in found else None,
        signature=signature,
        tagged=tuple(tagged),
    )


def _recovered(digest: bytes, signature: bytes) -> bytes:
    """The public key recovered from the signature; BOLT 11 allows a high S here."""
    try:
        key: bytes = PublicKey.from_signature_and_message(signature, digest, hasher=None).format()
        return key
    except ValueError as error:
        raise Bolt11Error(f"signature: no key can be recovered from it ({error})") from None


def _verified(digest: bytes, signature: bytes, payee: bytes) -> bytes:
    """The key in `n`, after verifying the signature with it; the recovery id is ignored (BOLT 11)."""
    r, s = signature[:32], signature[32:64]
    if int.from_bytes(s, "big") > _HALF_ORDER:
        raise Bolt11Error("signature: its S is high, which an invoice with n may not have")
    der = b"".join(b"\x02%c%b" % (len(part), part) for part in (_der(r), _der(s)))
    try:
        genuine = PublicKey(payee).verify(b"\x30%c%b" % (len(der), der), digest, hasher=None)
    except ValueError as error:
        raise Bolt11Error(f"n: the key or the signature cannot be read ({error})") from None
    if not genuine:
        raise Bolt11Error("signature: it is not that of the node named in n")
    return payee


def _der(part: bytes) -> bytes:
    """The content of a DER integer: no unneeded leading zero byte, but one if the first bit is set."""
    bare = part.lstrip(b"\0")
    return b"\0" + bare if not bare or bare[0] & 0x80 else bare
