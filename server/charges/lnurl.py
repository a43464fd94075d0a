"""LNURL and bech32, the encoding that LNURLs and BOLT 11 invoices use.

The data part of a bech32 text is handled as one integer, five bits per character: a few operations on large integers
replace a loop over characters.
"""

from __future__ import annotations

import json
from array import array
from functools import reduce
from operator import getitem, xor
from typing import NamedTuple

from leyden.server.errors import LeydenError

CHARSET = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"  # BIP 173: the value of a character is its index
CHECKSUM_GROUPS = 6

_URI = "lightning:"
_SCHEMES = ("https://", "http://")

# Python reads base 32 with the digits 0-9a-v, in C. Anything outside the alphabet becomes "!", which it refuses.
_DIGITS = b"0123456789abcdefghijklmnopqrstuv"
_TO_DIGIT = bytes(_DIGITS[CHARSET.index(chr(byte))] if chr(byte) in CHARSET else ord("!") for byte in range(256))
_TO_CHAR = CHARSET.encode() * 8
_HIGH_DIGIT = bytes(_DIGITS[byte >> 5] for byte in range(256))
_LOW_DIGIT = bytes(_DIGITS[byte & 31] for byte in range(256))


class Bech32Error(LeydenError, ValueError):
    """The text is not bech32, or its checksum is wrong."""


class LnurlError(LeydenError, ValueError):
    """The text is not an LNURL, or a URL cannot be encoded as one."""


class Bech32(NamedTuple):
    """A decoded text. `hrp` is the part before the last `1`. The data part, without the checksum, is given as
    lower-case `chars`, as base-32 `digits` for `int(digits[a:b], 32)`, and as one integer `value`.
    """

    hrp: str
    chars: str
    digits: bytes
    value: int


# The checksum is the remainder of the text, read as a polynomial over GF(32), by BIP 173's generator of degree six.
_GENERATOR = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)
# Four sparse multiples of that generator, found by search and checked by a test: modulo the generator
#     x^200 = x^37 + x^30 + x^28 + x^27 + x^2 + 1,
#     x^124 = x^36 + x^35 + x^27 + x^17 + x^5 + 1,
#     x^81 = x^34 + x^29 + x^24 + x^20 + x^15 + x^13 + x^11 + x^10 + 1,
#     x^54 = x^31 + x^28 + x^27 + x^22 + x^19 + x^10 + x^9 + x^5.
# So the coefficients above such a degree can be removed and added again at lower degrees, by shifts and without tables.
_BITS_200, _BITS_124, _BITS_81, _BITS_54 = 5 * 200, 5 * 124, 5 * 81, 5 * 54
_BELOW_200, _BELOW_124, _BELOW_81, _BELOW_54 = ((1 << bits) - 1 for bits in (_BITS_200, _BITS_124, _BITS_81, _BITS_54))
_LEFT_BYTES = 37  # 58 characters: the longest result of the last reduction


def _remainder_tables() -> tuple[array[int], ...]:
    """The remainders of the 16 values of each half byte, least significant half byte first.

    Half bytes, because all tables together then fit into the processor's first-level cache.
    """
    bits: list[int] = []
    states = [1 << bit for bit in range(5)]
    while len(bits) < 8 * _LEFT_BYTES:
        bits += states
        states = [
            reduce(xor, (_GENERATOR[bit] for bit in range(5) if state >> 25 >> bit & 1), (state & 0x1FFFFFF) << 5)
            for state in states
        ]
    tables = []
    for start in range(0, 8 * _LEFT_BYTES, 4):
        table = [0]
        for bit in bits[start : start + 4]:
            table += [entry ^ bit for entry in table]
        tables.append(array("I", table))
    return tuple(tables)


_TABLES = _remainder_tables()
_LOW_TABLES, _HIGH_TABLES = _TABLES[::2], _TABLES[1::2]
_LOW_HALF, _HIGH_HALF = bytes(byte & 15 for byte in range(256)), bytes(byte >> 4 for byte in range(256))


def remainder(value: int) -> int:
    """The 30-bit remainder of a polynomial over GF(32) by BIP 173's generator; five bits of `value` per coefficient."""
    while high := value >> _BITS_200:
        value = (value & _BELOW_200) ^ high ^ high << 10 ^ high << 135 ^ high << 140 ^ high << 150 ^ high << 185
    if high := value >> _BITS_124:
        value = (value & _BELOW_124) ^ high ^ high << 25 ^ high << 85 ^ high << 135 ^ high << 175 ^ high << 180
    if high := value >> _BITS_81:
        value = (value & _BELOW_81) ^ high ^ high << 50 ^ high << 55 ^ high << 65 ^ high << 75
        value ^= high << 100 ^ high << 120 ^ high << 145 ^ high << 170
    if high := value >> _BITS_54:
        value = (value & _BELOW_54) ^ high << 25 ^ high << 45 ^ high << 50 ^ high << 95
        value ^= high << 110 ^ high << 135 ^ high << 140 ^ high << 155
    left = value.to_bytes(_LEFT_BYTES, "little")
    low = reduce(xor, map(getitem, _LOW_TABLES, left.translate(_LOW_HALF)))
    return reduce(xor, map(getitem, _HIGH_TABLES, left.translate(_HIGH_HALF)), low)


def _expanded(hrp: str) -> int:
    """BIP 173's expansion of the human-readable part: 1, the high bits, 0, the low bits."""
    raw = hrp.encode("ascii")
    return int(b"1%b0%b" % (raw.translate(_HIGH_DIGIT), raw.translate(_LOW_DIGIT)), 32)


# Five bytes contain eight characters: they are copied into eight bytes, and three steps move each character into one.
_MAX_GROUPS = 2_048
_HIGH_20, _HIGH_10, _HIGH_5 = (
    int.from_bytes(bytes.fromhex(mask) * (_MAX_GROUPS // 8), "big")
    for mask in ("000000fffff00000", "000ffc00" * 2, "03e0" * 4)
)


def bech32_chars(value: int, groups: int) -> str:
    """The lowest `5 * groups` bits of `value`, which has no higher bits, as `groups` bech32 characters."""
    if groups > _MAX_GROUPS:
        below = 5 * _MAX_GROUPS
        return bech32_chars(value >> below, groups - _MAX_GROUPS) + bech32_chars(
            value & ((1 << below) - 1), _MAX_GROUPS
        )
    blocks = (groups + 7) // 8
    raw = value.to_bytes(5 * blocks, "big")
    spread = bytearray(8 * blocks)
    spread[3::8], spread[4::8], spread[5::8], spread[6::8], spread[7::8] = (
        raw[::5],
        raw[1::5],
        raw[2::5],
        raw[3::5],
        raw[4::5],
    )
    value = int.from_bytes(spread, "big")
    high = value & _HIGH_20
    value ^= high ^ high << 12
    high = value & _HIGH_10
    value ^= high ^ high << 6
    high = value & _HIGH_5
    value ^= high ^ high << 3
    return value.to_bytes(8 * blocks, "big").translate(_TO_CHAR)[8 * blocks - groups :].decode()


def bech32_encode(hrp: str, value: int, groups: int) -> str:
    """Encode `groups` five-bit groups, given as one integer, with the lower-case human-readable part `hrp`.

    There is no length limit: BOLT 11 and LUD-01 both remove BIP 173's 90 characters.
    """
    value <<= 30
    check = remainder(_expanded(hrp) << 5 * (groups + CHECKSUM_GROUPS) | value) ^ 1
    return f"{hrp}1{bech32_chars(value | check, groups + CHECKSUM_GROUPS)}"


def bech32_decode(text: str) -> Bech32:
    """Decode a bech32 text: all lower or all upper case, any length.

    Raises `Bech32Error` with the reason: mixed case, no `1`, a character outside the alphabet, a wrong checksum.
    """
    lower = text.lower()
    if not text.isascii():
        raise Bech32Error("it holds characters outside ASCII; bech32 is letters and digits only")
    if text != lower and text != text.upper():
        raise Bech32Error("it mixes upper and lower case; write it in one of them")
    at = lower.rfind("1")
    if at < 1:
        raise Bech32Error("it has no part before a separator 1; the text is cut or is not bech32")
    hrp, chars = lower[:at], lower[at + 1 :]
    if " " in hrp or not hrp.isprintable():
        raise Bech32Error("it holds a space or a control character; strip what surrounds the text")
    if len(chars) < CHECKSUM_GROUPS:
        raise Bech32Error(f"only {len(chars)} characters follow the separator 1; the checksum alone has six")
    digits = chars.encode().translate(_TO_DIGIT)
    try:
        value = int(digits, 32)
    except ValueError:
        wrong = digits.index(b"!")
        raise Bech32Error(f"{chars[wrong]!r} at place {at + 2 + wrong} is not a bech32 character") from None
    if remainder(_expanded(hrp) << 5 * len(chars) | value) != 1:
        raise Bech32Error("its checksum does not match; a character was lost or changed")
    return Bech32(hrp, chars[:-CHECKSUM_GROUPS], digits[:-CHECKSUM_GROUPS], value >> 30)


def strip_uri_scheme(text: str) -> str:
    """The text without a leading `lightning:`, in upper or lower case (BOLT 11, LUD-01)."""
    return text[len(_URI) :] if text[: len(_URI)].lower() == _URI else text


def encode_lnurl(url: str) -> str:
    """Encode an `https://` or `http://` URL as an LNURL (LUD-01), lower case, of any length.

    Raises `LnurlError` for another scheme or a text that UTF-8 cannot encode.
    """
    if not url[:8].lower().startswith(_SCHEMES):
        raise LnurlError(f"{url!r} is not a URL for an LNURL: it must begin with https:// or http://")
    try:
        raw = url.encode()
    except UnicodeEncodeError as error:
        raise LnurlError(f"{url!r} cannot be written in UTF-8: {error.reason}") from None
    groups = (8 * len(raw) + 4) // 5
    return bech32_encode("lnurl", int.from_bytes(raw, "big") << 5 * groups - 8 * len(raw), groups)


def decode_lnurl(text: str) -> str:
    """Decode an LNURL (LUD-01): upper or lower case, with or without `lightning:` before it.

    Raises `LnurlError` with the reason.
    """
    try:
        hrp, chars, _, value = bech32_decode(strip_uri_scheme(text))
    except Bech32Error as error:
        raise LnurlError(f"not an LNURL: {error}") from None
    if hrp != "lnurl":
        raise LnurlError(f"not an LNURL: it begins with {hrp!r}, an LNURL with 'lnurl'")
    size, spare = divmod(5 * len(chars), 8)
    # BIP 173: the remaining bits are padding, fewer than five and zero.
    if spare > 4 or value & (1 << spare) - 1:
        raise LnurlError("not an LNURL: its data is not a whole number of bytes")
    try:
        url = (value >> spare).to_bytes(size, "big").decode()
    except UnicodeDecodeError:
        raise LnurlError("not an LNURL: its data is not UTF-8 text") from None
    if not url[:8].lower().startswith(_SCHEMES):
        raise LnurlError(f"not an LNURL: it encodes {url!r}, which is not a web address")
    return url


def pay_metadata(description: str, identifier: str | None = None) -> str:
    """The `metadata` of a payRequest: a JSON *string* of pairs, exactly one of them `text/plain` (LUD-06).

    `identifier` (`user@host`) adds a `text/identifier` pair (LUD-16). An invoice's `h` is the SHA-256 of this very
    string in UTF-8, so it is built once and stored.
    """
    pairs = [["text/plain", description]]
    if identifier is not None:
        pairs.append(["text/identifier", identifier])
    return json.dumps(pairs, ensure_ascii=False, separators=(",", ":"))
