"""A directory that is opened at another URL: the LNURLs of its Static Charges are others, and the start says so."""

from __future__ import annotations

from pathlib import Path

from tests.support.served import started_server

NOTE = "note: the LNURLs of this sandbox now lead to {}, and those given before lead to {}:"

BODY = {"minAmount": "1000", "maxAmount": "2000", "description": "tea"}


def start(data: Path, url: str, *, creates: bool = False, resets: bool = False) -> tuple[str, list[str]]:
    """What a server at this public URL prints on stderr, and its notes."""
    with started_server("--data", str(data), "--public-url", url, "--rate", "0") as (client, printed):
        if resets:
            client.ok("POST", "/sandbox/v1/reset", {})
        if creates:
            client.ok("POST", "/v0/static-charges", BODY)
        notes = client.ok("GET", "/sandbox/v1")["notes"]
    return printed(), notes


def test_links_that_lead_elsewhere_are_noted_once(tmp_path: Path) -> None:
    data, first, second = tmp_path / "data", "http://127.0.0.1:8430", "http://127.0.0.1:8431"
    assert "LNURL" not in start(data, first)[0]
    assert "LNURL" not in start(data, second, creates=True)[0]  # no link was given before
    assert "LNURL" not in start(data, second)[0]
    printed, notes = start(data, first)
    assert NOTE.format(first, second) in printed
    assert len([text for text in notes if "LNURL" in text]) == 1
    assert "LNURL" not in start(data, first)[0]


def test_a_reset_keeps_the_url(tmp_path: Path) -> None:
    data, first, second = tmp_path / "data", "http://127.0.0.1:8430", "http://127.0.0.1:8431"
    assert "LNURL" not in start(data, first, creates=True, resets=True)[0]
    assert NOTE.format(second, first) in start(data, second)[0]
