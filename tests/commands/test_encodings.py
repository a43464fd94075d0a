"""Arguments that cannot be sent or written: bytes that are not UTF-8, characters that no header has, no hosts."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from leyden.__main__ import main
from leyden.commands.catalogue import build_parser
from leyden.devserver.argument_types import text_or_file
from tests.commands.conftest import Leyden
from tests.commands.test_parser import parsers

BYTE = "\udcff"  # what Python makes of the byte 0xff in an argument
PATHS = {"FILE", "DIR", "COMMAND"}
ID = "0ceeffd6-a8b5-4e75-9c95-d28cd06f7165"


def test_every_argument_but_a_path_and_the_command_of_a_client_refuses_bytes_that_are_not_utf_8() -> None:
    refused = kept = 0
    for parser in parsers(build_parser()):
        for action in parser._actions:
            if action.nargs in (0, argparse.PARSER):
                continue
            if action.metavar in PATHS or action.type is text_or_file:
                kept += 1
                with suppress(argparse.ArgumentError):  # its own type may refuse it
                    parser._get_value(action, BYTE)  # type: ignore[attr-defined]
            else:
                refused += 1
                with pytest.raises(
                    argparse.ArgumentError, match="udcff has bytes that are not UTF-8: write the text in"
                ):
                    parser._get_value(action, BYTE)  # type: ignore[attr-defined]
    assert refused > 150
    assert kept > 25


def line_of(leyden: Leyden, *words: str) -> str:
    """The one line with which a command refuses an argument."""
    done = leyden(*words)
    assert (done.returncode, done.stdout) == (2, ""), done
    [line] = done.stderr.splitlines()
    assert line.isprintable()
    return line


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["receiver-check", "http://127.0.0.1:9/x", "--internal-id", BYTE], "--internal-id"),
        (["charges", "create", "--amount", "1000", "--description", BYTE], "--description"),
        (["charges", "show", BYTE], "ID"),
        (["charges", "show", f"{BYTE}\x1b[31m"], "ID"),
        (["api", "POST", "/v0/charges", "--data", BYTE], "--data"),
        (["serve", "--autopay", f"description={BYTE}"], "--autopay"),
        (["serve", "--host", BYTE], "--host"),
        (["sandbox", "create", "--overlay", BYTE], "--overlay"),
        (["advance", "--to", BYTE], "--to"),
    ],
)
def test_the_refusal_is_one_line_that_names_the_argument(leyden: Leyden, words: list[str], named: str) -> None:
    line = line_of(leyden, *words)
    assert f"argument {named}: " in line
    assert "\\udcff" in line


@pytest.mark.parametrize("key", ["\N{HOT BEVERAGE}", "a\nb", "caf\xe9"])
@pytest.mark.parametrize(
    "words",
    [
        ["conformance", "http://127.0.0.1:9", "--api-key"], ["fuzz", "http://127.0.0.1:9", "--second-api-key"],
        ["replay", "case.json", "http://127.0.0.1:9", "--api-key"],
        ["adapter", "--check", "shop.py", "http://127.0.0.1:9", "--api-key"],
        ["listen", "http://127.0.0.1:9", "--api-key"],
    ],
    ids=lambda words: words[0],
)  # fmt: skip
def test_an_api_key_that_no_header_can_have_is_refused_without_it(leyden: Leyden, words: list[str], key: str) -> None:
    line = line_of(leyden, *words, key)
    assert f"argument {words[-1]}: this is no API key" in line
    assert key not in line


@pytest.mark.parametrize("key", ["\N{HOT BEVERAGE}", "a\nb", "\x00"])
@pytest.mark.parametrize(
    "kind",
    [
        ["charges", "create", "--amount", "1000"],
        ["static-charges", "create", "--min-amount", "1000", "--max-amount", "1000"],
    ],
)
def test_an_idempotency_key_that_no_header_can_have_is_refused(leyden: Leyden, kind: list[str], key: str) -> None:
    line = line_of(leyden, *kind, "--description", "x", "--idempotency-key", key)
    assert "argument --idempotency-key: " in line
    assert "characters that no header can have" in line


@pytest.mark.parametrize("host", ["", " ", "\xe9..x", "a" * 300, "a\x00b"])
def test_a_host_to_listen_on_that_no_machine_has_is_refused(host: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["serve", "--port", "0", "--host", host])
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("leyden serve: argument --host: ")
    assert "give one such as 127.0.0.1, or 0.0.0.0 for all" in line
    assert len(line) < 250


@pytest.mark.parametrize("words", [["qa", "init", ""], ["lab", ""]], ids=str)
def test_an_empty_directory_is_not_the_present_one(leyden: Leyden, words: list[str], tmp_path: Path) -> None:
    assert "'' is not a directory: give its path" in line_of(leyden, *words)
    assert [*tmp_path.iterdir()] == []


def test_a_client_may_have_any_bytes_as_its_arguments(leyden: Leyden, tmp_path: Path) -> None:
    words = ["--only", "plain", "--json", "report.json", "--html", "report.html", "--", sys.executable, "-c", "", BYTE]
    done = leyden("client-check", *words)
    assert (done.returncode, done.stderr) == (3, "")
    assert json.loads((tmp_path / "report.json").read_text())["command"][-1] == "\N{REPLACEMENT CHARACTER}"
    assert "\N{REPLACEMENT CHARACTER}" in (tmp_path / "report.html").read_text()
