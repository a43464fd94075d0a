"""The types of the command line's arguments: each reads one text, or raises `ArgumentTypeError` with the mend."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import TYPE_CHECKING

from leyden.arguments import checked_start, seed_from_text, span_of_option
from leyden.server.callbacks.url_parts import UrlParts, address_fault, url_parts
from leyden.server.errors import ArgumentError
from leyden.server.http.hosts import is_host_name
from leyden.server.http.url_corrections import intended_url
from leyden.server.printable import cut, printable, without_user
from leyden.server.timestamps import duration_near, parse_iso
from leyden.world.time.process_clock import MAX_RATE, NOW

if TYPE_CHECKING:
    from leyden.lightning.payer.payer_rules import PayerSpec

_MAX_LENGTH = 1_000
_NAME_MEND = "give one such as shop.example"


def port(text: str) -> int:
    """A TCP port, or 0 for a free one."""
    if not (text.isascii() and text.isdigit() and int(text) <= 65_535):
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: give a number from 0 to 65535")
    return int(text)


def text_or_file(text: str) -> str:
    """A text that may also be the path of a file: it may have any bytes."""
    return text


def api_key(text: str) -> str:
    """An API key for the header of a request: printable ASCII characters."""
    if not (text and text.isascii() and text.isprintable()):
        raise argparse.ArgumentTypeError(
            "this is no API key, which has one or more printable ASCII characters: check it"
        )
    return text


def header_value(text: str) -> str:
    """The value of a header of a request: characters of Latin-1 without control characters."""
    if not all(" " <= one <= "\xff" and one != "\x7f" for one in text):
        raise argparse.ArgumentTypeError(
            f"{printable(cut(text, 80))!r} has characters that no header can have: give printable ones of ASCII"
        )
    return text


def listen_host(text: str) -> str:
    """The address or the name of this machine to listen on."""
    try:
        is_possible = text.isprintable() and " " not in text and text.encode("idna") != b""
    except UnicodeError:
        is_possible = False
    if not is_possible:
        raise argparse.ArgumentTypeError(
            f"{cut(text, 80)!r} is no address to listen on: give one such as 127.0.0.1, or 0.0.0.0 for all addresses"
        )
    return text


def directory(text: str) -> str:
    """The path of a directory."""
    if not text:
        raise argparse.ArgumentTypeError("'' is not a directory: give its path, such as . for this one")
    return text


def data_folder(text: str) -> str:
    """The path of a directory, or `:memory:`."""
    if not text:
        raise argparse.ArgumentTypeError("'' is not a directory: give its path, or leave the option out (in memory)")
    return text


def rate(text: str) -> float:
    """Sandbox seconds per real second, 0 to 100,000."""
    try:
        rate = float(text)
    except ValueError:
        rate = -1
    if not 0 <= rate <= MAX_RATE:
        raise argparse.ArgumentTypeError(f"{text!r} is not a rate: give 0 (frozen), 1 (real time) or up to {MAX_RATE}")
    return rate


def count(text: str) -> int:
    """A whole number from 1."""
    if not (text.isascii() and text.isdigit() and 1 <= int(text) < 2**53):
        raise argparse.ArgumentTypeError(
            f"{cut(text, 80)!r} is not a number of things to keep: give a whole number from 1"
        )
    return int(text)


def seed(text: str) -> int:
    """A random seed. Raises `argparse.ArgumentTypeError` for a text that is none."""
    try:
        return seed_from_text(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def instant(text: str) -> int:
    """An ISO 8601 instant at which a clock may start, in milliseconds since the epoch."""
    try:
        return checked_start(parse_iso(text, clamp=True), text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def start_instant(text: str) -> int | str:
    """An ISO 8601 instant in milliseconds since the epoch, or `now`."""
    return text if text == NOW else instant(text)


def request_count(text: str) -> int:
    """A number of requests, 0 to 1,000,000."""
    if not (text.isascii() and text.isdigit() and len(text) <= 7 and int(text) <= 1_000_000):
        raise argparse.ArgumentTypeError(
            f"{cut(text, 80)!r} is not a number of requests: give a number from 0 to 1000000"
        )
    return int(text)


def ip_range(text: str) -> IPv4Network | IPv6Network:
    """A network in CIDR notation."""
    try:
        return ip_network(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}: give a network such as 10.0.0.0/8") from None


def base_url(text: str) -> str:
    """An http or https URL to which paths can be appended, without a slash at the end. Its host is a name or an address
    that other machines can connect to."""
    shown = cut(without_user(text), 80)
    parts = _parts(text)
    if parts is None or not (text.isascii() and text.isprintable() and not set(' "<>\\^`{|}?#') & set(text)):
        raise argparse.ArgumentTypeError(f"{shown!r} is not a base URL: give one such as http://127.0.0.1:8402")
    if "@" in text.partition("://")[2].partition("/")[0]:
        raise argparse.ArgumentTypeError(f"{shown!r} has a user: leave out what is before the @")
    if not (":" in parts.host or is_host_name(parts.host)):
        raise argparse.ArgumentTypeError(f"{shown!r} has no host that is a name or an address: {_NAME_MEND}")
    try:
        address = parts.address()
    except ArgumentError as error:
        raise argparse.ArgumentTypeError(f"{shown!r}: {error}") from None
    if address is not None and address.is_unspecified:
        raise argparse.ArgumentTypeError(
            f"{shown!r} is no address to connect to: give the one by which clients reach this server"
        )
    return parts.scheme + text[len(parts.scheme) :].rstrip("/")


def host_name(text: str) -> str:
    """A name for which requests are answered, without scheme and port."""
    name = text.removesuffix(".")
    if not is_host_name(name):
        raise argparse.ArgumentTypeError(
            f"{cut(without_user(text), 80)!r} is not the name of a host: {_NAME_MEND}, without scheme, port or *"
        )
    return name


def endpoint(text: str) -> str:
    """A complete http or https URL, with a host that can be looked up."""
    if not _is_endpoint(text):
        shown, example = cut(without_user(text), 80), without_user(_intended_url(text))
        raise argparse.ArgumentTypeError(f"{shown!r} is not a URL: give the whole URL, such as {example[:100]}")
    fault = address_fault(text)
    if fault:
        raise argparse.ArgumentTypeError(f"{cut(without_user(text), 80)!r}: {fault}")
    return text


def _is_endpoint(text: str) -> bool:
    """Whether this is a URL with an address or a name, also one of other letters than those of ASCII."""
    parts = _parts(text)
    if parts is None or not text.isprintable() or " " in text:
        return False
    try:
        return ":" in parts.host or is_host_name(parts.host.encode("idna").decode())
    except UnicodeError:
        return False


def _intended_url(text: str) -> str:
    """The URL that was probably meant, or an example."""
    meant = intended_url(text)
    if meant == f"https://{text.strip()}":  # without a scheme: most likely an endpoint on this machine
        meant = f"http://{text.strip()}" if ":" in text else ""
    return meant if _is_endpoint(meant) else "http://localhost:3000/hook"


def _parts(text: str) -> UrlParts | None:
    """The parts of an http or https URL of at most 1,000 characters; None for another text."""
    if len(text) > _MAX_LENGTH or not text[:8].lower().startswith(("http://", "https://")):
        return None
    try:
        return url_parts(text)
    except ArgumentError:
        return None


def admin_token(text: str) -> str:
    """A token for the header `Authorization`: 8 to 200 printable ASCII characters without spaces."""
    if not (8 <= len(text) <= 200 and text.isascii() and text.isprintable() and " " not in text):
        raise argparse.ArgumentTypeError(
            "this cannot be an admin token: give 8 to 200 printable ASCII characters without spaces"
        )
    return text


def webhook_secret(text: str) -> str:
    """A secret of Standard Webhooks: `whsec_` and base64."""
    from leyden.server.callbacks.signing import check_secret  # its library takes long to import

    try:
        check_secret(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def autopay(text: str) -> PayerSpec:
    """The rule of a payer, such as `after=2s`."""
    from leyden.lightning.payer.payer_rules import payer_spec_of  # only this option needs it

    try:
        return payer_spec_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def callback_timeout(text: str) -> int:
    """The timeout of a receiver on the network, in milliseconds: 100ms to 60s."""
    from leyden.server.callbacks.egress import parse_timeout

    try:
        return parse_timeout(span_of_option(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def amount(text: str) -> str:
    """An amount in millisatoshis, as the API takes it."""
    if not (text.isascii() and text.isdigit() and not text.startswith("0") and 1_000 <= int(text) <= 500_000_000):
        raise argparse.ArgumentTypeError(f"{cut(text, 40)!r} is not an amount: give 1000 to 500000000 millisatoshis")
    return text


def charge_id(text: str) -> str:
    """The id of a Charge, a UUID."""
    if not re.fullmatch("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", text):
        raise argparse.ArgumentTypeError(
            f"{cut(text, 60)!r} is not a Charge's id: give the id in the response of its creation"
        )
    return text


def time_limit_s(longest: int) -> Callable[[str], float]:
    """A time limit, 1 to `longest` real seconds."""

    def limit_s(text: str) -> float:
        try:
            found_ms = duration_near(span_of_option(text), 1_000, longest * 1_000)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        if not 1_000 <= found_ms <= longest * 1_000:
            raise argparse.ArgumentTypeError(f"{cut(text, 40)!r} is not a time limit: give 1 to {longest} seconds")
        return found_ms / 1_000

    return limit_s
