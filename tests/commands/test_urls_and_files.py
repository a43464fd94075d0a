"""Every command that takes a URL or a file refuses a wrong one in one line, which names it once, with exit status 2."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leyden.__main__ import main
from leyden.server.version import VERSION

URLS = (
    "http://127.0.0.1:abc", "http://127.0.0.1:99999", "http://[::1", f"http://{'a' * 70}.example", "127.0.0.1:8402",
    "http://a b", "http://a\x01b", "http://a\nb", "", "http://", "ftp://a", "http://a..b", "http://user:password-1@[::1",
)  # fmt: skip
CASE = """{"leydenCase": 3, "leyden": "%s", "name": "x", "specHash": "", "overlays": [], "seed": 0, "disk": false,
"start": "2030-01-01T00:00:00.000Z", "foundOn": "another implementation", "target": %s, "adapter": "none",
"journalHash": null, "steps": [{"do": "wallet"}],
"expectation": {"check": "echo", "ruleId": "r", "where": "w", "expected": "e", "observed": "o"}}"""
WITH_URL = (
    ("conformance", "{}"), ("fuzz", "{}"), ("fuzz", "{}", "--adapter", "none"), ("adapter", "--check", "none", "{}"),
    ("receiver-check", "{}"), ("listen", "{}"), ("listen", "http://127.0.0.1:1", "--public-url", "{}"),
    ("serve", "--port", "0", "--public-url", "{}"), ("charges", "list", "--url", "{}"),
)  # fmt: skip


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    try:
        status = main(words)
    except SystemExit as error:
        status = error.code  # type: ignore[assignment]
    text = capsys.readouterr().err
    lines = [line for line in text.splitlines() if not line.startswith("usage:") and line[:1] not in ("", " ")]
    assert (status, len(lines)) == (2, 1), text
    return lines[0]


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("words", WITH_URL, ids=" ".join)
def test_a_url_that_is_none_is_refused(
    words: tuple[str, ...], url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LEYDEN_URL", raising=False)
    text = refused([url if word == "{}" else word for word in words], capsys)
    if words[0] in {"conformance", "fuzz", "adapter"}:
        assert "password-1" not in text


@pytest.mark.parametrize("url", [url for url in URLS if url])
def test_the_url_of_a_case_is_refused(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.case.json"
    path.write_text(CASE % (VERSION, json.dumps(url)))
    refused(["replay", str(path), "--adapter", "none"], capsys)
    path.write_text(CASE % (VERSION, '"http://127.0.0.1:1"'))
    refused(["replay", str(path), url, "--adapter", "none"], capsys)


WITH_FILE = (
    ("replay", "{}"), ("replay", "{}", "--export", "pytest"), ("adapter", "--check", "{}", "http://127.0.0.1:1"),
    ("adapter", "--call", "{}", "now"), ("adapter", "--new", "{}"),
    ("conformance", "--report", "{}", "--format", "text"),
    ("conformance", "--report", "{}", "--format", "markdown"), ("conformance", "http://127.0.0.1:1", "--adapter", "{}"),
    ("serve", "--port", "0", "--spec", "{}"), ("serve", "--port", "0", "--overlay", "{}"),
)  # fmt: skip


@pytest.mark.parametrize("kind", ["empty", "directory", "absent"])
@pytest.mark.parametrize("words", WITH_FILE, ids=" ".join)
def test_a_file_that_cannot_be_used_is_named_once(
    words: tuple[str, ...], kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = {"empty": "", "directory": str(tmp_path), "absent": str(tmp_path / "none" / "absent.file")}[kind]
    text = refused([place if word == "{}" else word for word in words], capsys)
    if place:
        assert f"{place}: {place}" not in text


def test_a_file_in_place_of_a_directory_is_named_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "file"
    place.write_text("")
    assert refused(["fuzz", "--cases", str(place)], capsys).count(str(place)) == 1
    assert refused(["conformance", "--report", str(tmp_path / "no.md")], capsys).count("no.md") == 1


@pytest.mark.parametrize("words", [*WITH_URL, ("api", "GET", "/healthz", "--url", "{}")], ids=" ".join)
@pytest.mark.parametrize(
    "url",
    [
        "http://bob:hunter2pw@127.0.0.1:99999/", "bob:hunter2pw@127.0.0.1:9399", "http://bob:hunter2pw@bad host/",
        "http://bob:hunter2pw@",
    ],
)  # fmt: skip
def test_the_refusal_of_a_url_has_no_user_and_no_password(
    words: tuple[str, ...], url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    line = refused([word.format(url) for word in words], capsys)
    assert "hunter2pw" not in line
    assert "bob" not in line
