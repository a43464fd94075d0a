"""The common encodings of a secret, for tests of what must not show one."""

from __future__ import annotations

import base64
import json
import re
from html import escape
from html.entities import html5
from urllib.parse import quote, quote_plus

_NAMES = {character: f"&{name}" for name, character in html5.items() if name.endswith(";") and len(character) == 1}


def encodings(secret: str | bytes) -> set[str]:
    """A text or bytes in each common encoding; of Base64 and Base32 at each alignment what depends on nothing else."""
    raw = secret.encode() if isinstance(secret, str) else secret
    found = _of_bytes(raw)
    for text in (
        {secret} if isinstance(secret, str) else {raw.decode("latin-1"), raw.decode("utf-8", "surrogateescape")}
    ):
        if text.isprintable():
            found.add(text)
        found |= {
            json.dumps(text)[1:-1],
            json.dumps(json.dumps(text))[3:-3],
            ascii(text)[1:-1],
            "".join(f"\\u{ord(one):04x}" if ord(one) < 65_536 else json.dumps(one)[1:-1] for one in text),
            "".join(f"\\u{{{ord(one):X}}}" for one in text),
            "".join(f"\\U{ord(one):08x}" for one in text),
        }
        if text.isprintable():
            found |= {repr(text)[1:-1], escape(text)}
        if all(one.isprintable() or one in "\t\n" for one in text):  # others have no entity
            found |= {
                "".join(f"&#{ord(one)};" for one in text),
                "".join(f"&#x{ord(one):X};" for one in text),
                "".join(_NAMES.get(one, one) for one in text),
            }
        if text.isascii():
            found |= {"\0".join(text), "\\x00".join(text), "\\u0000".join(text)}  # UTF-16
    return {form for form in found if len(form) > 3}


def _of_bytes(raw: bytes) -> set[str]:
    upper = quote(raw, safe="")
    text = base64.b64encode(raw).decode()
    whole = [text, base64.urlsafe_b64encode(raw).decode(), base64.b32encode(raw).decode()]
    found = {
        raw.hex(), raw.hex().upper(), raw.hex(":"), raw.hex(" ").upper(), ", ".join(f"0x{one:02x}" for one in raw),
        upper, re.sub("%..", lambda escaped: escaped[0].lower(), upper), quote_plus(raw),
        "".join(f"%{one:02x}" for one in raw), "".join(f"%25{one:02X}" for one in raw),
        "".join(f"\\x{one:02x}" for one in raw), "".join(f"\\x{one:02X}" for one in raw), repr(raw)[2:-1],
        "".join(f"\\{one:03o}" for one in raw), str([*raw])[1:-1], json.dumps([*raw], separators=(",", ":"))[1:-1],
        text.replace("+", "%2B").replace("/", "%2F"), text.replace("/", "\\/"),
    }  # fmt: skip
    signed = [one - 256 if one > 127 else one for one in raw]
    found |= {
        " ".join(map(str, raw)), "\n".join(map(str, raw)), str(signed)[1:-1],
        json.dumps({str(at): one for at, one in enumerate(raw)}, separators=(",", ":"))[1:-1],
        *_dumps(raw),
    }  # fmt: skip
    for bits, group, encode in (
        (6, 3, base64.b64encode), (6, 3, base64.urlsafe_b64encode), (5, 5, base64.b32encode),
    ):  # fmt: skip
        for shift in range(group):
            encoded = encode(bytes(shift) + raw).decode()
            found.add(encoded[-(-8 * shift // bits) : 8 * (shift + len(raw)) // bits])
    return found | {form for one in (*whole, whole[-1].lower()) for form in (one, one.rstrip("="))}


def _dumps(raw: bytes) -> tuple[str, str]:
    """As `xxd` and `hexdump -C` show bytes."""
    pairs, bytewise = [], []
    for at in range(0, len(raw), 16):
        line = raw[at : at + 16]
        shown = "".join(chr(one) if 32 <= one < 127 else "." for one in line)
        words = " ".join(line[place : place + 2].hex() for place in range(0, len(line), 2))
        pairs.append(f"{at:08x}: {words:<39}  {shown}")
        bytewise.append(f"{at:08x}  {line[:8].hex(' '):<23}  {line[8:].hex(' '):<23}  |{shown}|")
    return "\n".join(pairs), "\n".join(bytewise)
