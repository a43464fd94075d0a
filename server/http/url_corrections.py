"""Corrections of URLs: what is wrong with a text that the spec does not accept as a URL, from left to right."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from ipaddress import IPv6Address
from urllib.parse import unquote

_MAX_LENGTH = 2048
_LABEL = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?")
# What stands in place of a correct `http://`: `http//`, `https:`, `http:\\`, `http.//`, `//`.
_MISSPELT = re.compile(r"(?:(https?)\s*(?:[:;/\\]|[.,](?=[/\\]{2}))[\s:;/\\]*|[:;]?[/\\]{2,})", re.IGNORECASE)
_CORRECT = re.compile(r"https?://(?![/\\\s]|https?:/)", re.IGNORECASE)
_LOCAL = ("localhost", "127.", "[::1]")
_PORT = re.compile(r":?([1-9][0-9]{0,4})(?=[/?#]|$)")  # alone, in the place of the host
_NUMBER_HOST = re.compile(r"https?://[0-9]+(?=[:/?#]|$)", re.IGNORECASE)  # an address in a form that nobody means
_ALLOWED = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*")  # in paths and queries (RFC 3986)
# Schemes of URLs without `//`. Of these a host can have the name of those in the second group, before a port.
_OTHER_SCHEME = re.compile(
    r"(?:(javascript|vbscript|mailto)|(data|tel|sms|file|blob|about|urn|lightning|bitcoin|lnurlp?|ftps?|wss?))"
    r":(?!//)(?(2)(?![0-9]{1,5}(?:[/?#]|$)))",
    re.IGNORECASE,
)
# IDNA 2003, which Python has, and IDNA 2008 disagree about these: no form is proposed for them.
_DEVIATIONS = re.compile("[\u00df\u03c2\u200c\u200d]")


def url_correction(url: str, accepts: Callable[[str], bool], shown: Callable[[str], str]) -> str:
    """The first change that a URL needs, as a text; empty if there is no suggestion. `accepts` tests a candidate,
    `shown` quotes a text."""
    if outer := _outer_space(url):
        return f"leave out the {outer}"
    scheme, separator, rest = url.partition("://")
    if other := _OTHER_SCHEME.match(url):
        return _only_http(other[1] or other[2], shown)
    candidate = intended_url(url)
    if candidate != url and accepts(candidate) and not _NUMBER_HOST.match(candidate):
        is_host_added = "localhost" in candidate and "localhost" not in url.lower()
        return f"{'the host is missing: write for example' if is_host_added else 'write'} {shown(candidate)}"
    if not scheme or not separator:
        if url.startswith("/") or _NUMBER_HOST.match(candidate):
            return "the host is missing"
        return "begin it with https:// or http://" if candidate.partition("://")[2] else "the host is missing"
    if scheme.lower() not in {"http", "https"}:
        return _only_http(scheme, shown)
    authority = re.split("[/?#]", rest)[0]
    if "@" in authority:
        return "leave out the user name and the password"
    return _authority_correction(authority, shown) or _tail_correction(url, rest[len(authority) :], shown)


def _only_http(scheme: str, shown: Callable[[str], str]) -> str:
    return f"the scheme is {shown(scheme)}, and only http and https are allowed"


def intended_url(text: str) -> str:
    """The URL that was probably meant by a text without a scheme, or with `http://` misspelt or twice, or with a port
    but no host, which is one of this machine. It may be invalid otherwise."""
    text = text.strip()
    scheme, separator, rest = text.partition("://")
    if _CORRECT.match(text) or (separator and scheme and scheme.lower() not in {"http", "https"}):
        return f"{scheme}://{_with_host(rest)}" if rest.startswith(":") else text
    if separator and _CORRECT.match(rest):
        return rest
    misspelt = _MISSPELT.match(text)
    if misspelt is None:
        text = _with_host(text)
        return f"{'http' if text.startswith(_LOCAL) else 'https'}://{text}"
    rest = text[misspelt.end() :]
    if "\\" in misspelt[0]:
        rest = rest.replace("\\", "/")
    rest = _with_host(rest)
    scheme = (misspelt[1] or ("http" if rest.startswith(_LOCAL) else "https")).lower()
    return f"{scheme}://{rest}"


def _with_host(rest: str) -> str:
    """What follows the scheme, with `localhost` where it begins with a port."""
    port = _PORT.match(rest)
    return f"localhost:{rest.removeprefix(':')}" if port is not None and int(port[1]) <= 65_535 else rest


def _outer_space(url: str) -> str:
    """The white space at the ends of a text in words; empty if there is none."""
    before, after = url[: len(url) - len(url.lstrip())], url[len(url.rstrip()) :]
    where = [word for word, space in (("leading", before), ("trailing", after)) if space]
    if not where or not url.strip():
        return ""
    return f"{' and the '.join(where)} {'space' if set(before + after) == {' '} else 'white space'}"


def _authority_correction(authority: str, shown: Callable[[str], str]) -> str:
    """The fault in the host and the port."""
    if authority.startswith("["):
        address, closed, port = authority[1:].partition("]")
        if not closed:
            return "the bracket of the IPv6 address is not closed: add ]"
        if "%" in address:
            return "leave out the zone of the IPv6 address, which begins with %"
        if not _is_ipv6(address):
            return f"{shown(address)} is not an IPv6 address"
        return "" if not port else _port_correction(port)
    if authority.count(":") > 1 and (forms := _in_brackets(authority)):
        return f"write the IPv6 address in brackets, {', or '.join(shown(form) + what for form, what in forms)}"
    host, colon, port = authority.partition(":")
    if not host:
        return "the host is missing"
    return _host_correction(host, shown) or (_port_correction(colon + port) if colon else "")


def _in_brackets(authority: str) -> list[tuple[str, str]]:
    """What an IPv6 address without brackets can mean: with its last group as a port, or as a part of the address. Each
    with its condition; empty if it is no address."""
    address, _, port = authority.rpartition(":")
    is_port = re.fullmatch("[1-9][0-9]{0,4}", port) is not None and int(port) <= 65_535
    with_port = [(f"[{address}]:{port}", f" if {port} is the port")] if is_port and _is_ipv6(address) else []
    whole = [(f"[{authority}]", " if there is no port")] if _is_ipv6(authority) else []
    forms = with_port + whole
    return forms if len(forms) > 1 else [(form, "") for form, _ in forms]


def _host_correction(host: str, shown: Callable[[str], str]) -> str:
    decoded = unquote(host)
    if not decoded.isascii():
        ascii_form = _idna(decoded)
        return "write the host in its ASCII form (IDNA)" + (
            f", {shown(ascii_form)}" if ascii_form else ", whose parts begin with xn--"
        )
    if decoded != host and _is_name(decoded):
        return f"a host has no percent-encoding: write {shown(decoded)}"
    if not _is_name(host):
        return f"the host {shown(host)} is not a name: it has letters, digits, hyphens and single dots"
    return ""


def _port_correction(port: str) -> str:
    """`port` begins with its colon, or is what follows the bracket of an address."""
    if not port.startswith(":"):
        return "only a port may follow the bracket of the IPv6 address"
    digits = port[1:]
    if re.fullmatch("[1-9][0-9]{0,4}", digits) and int(digits) <= 65_535:
        return ""
    return "the port must be from 1 to 65535" + (", or left out with its colon" if not digits else "")


def _tail_correction(url: str, tail: str, shown: Callable[[str], str]) -> str:
    """The fault in the path and the query."""
    address = tail.partition("#")[0]
    if not address.isascii() or not address.isprintable() or " " in address:
        return "percent-encode spaces and all characters outside ASCII"
    wrong = address[_prefix_length(address) :]
    if wrong:
        return "write %25 for a percent sign" if wrong[0] == "%" else f"percent-encode {shown(wrong[0])}"
    if "#" in tail:
        return "leave out the fragment, which begins with #"
    return "make it shorter" if len(url) > _MAX_LENGTH else ""


def _prefix_length(address: str) -> int:
    allowed = _ALLOWED.match(address)
    return 0 if allowed is None else allowed.end()


def _is_ipv6(text: str) -> bool:
    with suppress(ValueError):
        return IPv6Address(text).scope_id is None
    return False


def _is_name(host: str) -> bool:
    return all(_LABEL.fullmatch(label) for label in host.removesuffix(".").split("."))


def _idna(host: str) -> str:
    if _DEVIATIONS.search(host):
        return ""
    with suppress(UnicodeError):
        ascii_form = host.encode("idna").decode()
        return ascii_form if _is_name(ascii_form) else ""
    return ""
