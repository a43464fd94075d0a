"""One reading of the URL of a receiver: every text has parts or an error that says what to write instead."""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import ip_address
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leyden.callbacks.receivers import is_built_in
from leyden.devserver.receiver_check.session import raw_request
from leyden.server.callbacks.egress import Egress, closed_note
from leyden.server.callbacks.ip_addresses import parse_host_address
from leyden.server.callbacks.url_parts import address_fault, host_of, url_parts
from leyden.server.errors import ArgumentError
from leyden.server.ports import CallbackRequest
from leyden.world.config import packaged_contract

# Numbers in each base, names, and what is neither; with brackets that hold an address, or not.
_PARTS = st.sampled_from(
    ["0", "08", "09", "1", "127", "255", "256", "0x", "0x7f", "0xg", "0377", "0400", "4294967296", "9" * 60, "1e3", "a",
     "localhost", "-", "_x", "", "\u0663", "9" * 5_000]
)  # fmt: skip
_V6 = st.sampled_from(["::1", "::g", "", "127.0.0.1", "1::2::3", "::ffff:256.0.0.1", "fe80::1%25lo", "::ffff:7f00:1"])
HOSTS = st.one_of(
    st.lists(_PARTS, min_size=1, max_size=6).map(".".join),
    st.builds("{}{}{}".format, st.sampled_from(["[", ""]), _V6, st.sampled_from(["]", "", "]x"])),
    st.text("0123456789.xX[]:%abcdef@-", max_size=20),
)
URLS = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["http://", "HTTP://", "https://", "hTTps://", "ftp://", "http:", ""]),
    HOSTS,
    st.sampled_from(["", ":3000", ":80", ":443", ":0", ":65536", ":abc", ":"]),
    st.sampled_from(["", "/", "/hook?a=b", "#f"]),
)
_SCHEMA = packaged_contract("charges").document["components"]["schemas"]["CallbackUrl"]
Found = TypeVar("Found")
_PYTHON = re.compile("invalid literal|expected in|Octet|permitted|octets|netloc|digits", re.IGNORECASE)


def read(reader: Callable[[str], Found], text: str) -> Found | str:
    """What a reader finds in a text, or the text of its error."""
    try:
        return reader(text)
    except ArgumentError as error:
        return str(error)


def accepted(url: str) -> bool:
    return url != "" and len(url) <= _SCHEMA["maxLength"] and re.match(_SCHEMA["pattern"], url) is not None


@given(URLS)
def test_every_text_is_a_url_or_gets_an_error_with_the_mend(url: str) -> None:
    found = read(url_parts, url)
    if isinstance(found, str):
        assert "give one such as http://localhost:3000/hook" in found
        assert not accepted(url)
        assert (host_of(url), address_fault(url), is_built_in(url)) == ("", "", False)
        return
    parts = found
    assert (parts.scheme, parts.host) == (parts.scheme.lower(), parts.host.lower())
    assert 1 <= parts.port <= 65_535
    assert parts == url_parts(url.replace(url[: len(parts.scheme)], parts.scheme.upper(), 1))
    fault = address_fault(url)
    assert not _PYTHON.search(fault)
    assert (": write " in fault or ": leave out " in fault) if fault else fault == ""
    is_built_in(url)
    Egress("loopback").blocked_note(url)
    assert closed_note(url).startswith(("egress-none: ", "port: "))


@given(URLS.filter(accepted))
def test_a_request_is_written_for_every_url_of_a_charge(url: str) -> None:
    head = raw_request(CallbackRequest("id", 1, url, {}, b"", 1_000, 1_000)).decode().lower()
    assert f"\r\nhost: {url_parts(url).authority.lower().removesuffix(':80').removesuffix(':443')}" in head


@given(HOSTS)
def test_a_host_is_a_name_an_address_or_no_address_for_a_reason(host: str) -> None:
    found = read(parse_host_address, host)
    if isinstance(found, str):
        assert not _PYTHON.search(found)
        assert ": write " in found or ": leave out " in found
    else:
        assert found is None or ip_address(str(found)) == found


@pytest.mark.parametrize(
    ("host", "mend"),
    [
        ("08", "leave out the leading zeros"),
        ("127.0.0.08", "leave out the leading zeros"),
        ("256.0.0.1", "write it as four numbers from 0 to 255"),
        ("1.2.3.4.5", "write it as four numbers from 0 to 255"),
        ("9" * 5_000, "write it as four numbers from 0 to 255"),
        ("[::g]", "write one such as [::1]"),
    ],
)
def test_a_number_that_is_no_address_names_its_mend(host: str, mend: str) -> None:
    with pytest.raises(ArgumentError, match=re.escape(mend)):
        parse_host_address(host)


def test_leading_zeros_make_no_number_large() -> None:
    assert str(parse_host_address(f"0x{'0' * 5_000}7f.1")) == "127.0.0.1"
    assert str(parse_host_address(f"{'0' * 5_000}177.1")) == "127.0.0.1"


@pytest.mark.parametrize("port", [1, 22, 1_023])
def test_a_port_that_no_mode_allows_is_named_where_nothing_may_be_sent(port: int) -> None:
    """Another mode alone would not help."""
    note = closed_note(f"http://127.0.0.1:{port}/a")
    assert note == Egress("loopback").blocked_note(f"http://127.0.0.1:{port}/a")
    assert note.startswith(f"port: {port} is not an allowed port")
