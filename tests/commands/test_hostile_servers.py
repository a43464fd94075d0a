"""Texts of a server that may be anybody's: no control character of them gets to a terminal."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from leyden.commands.served.output import print_raw
from leyden.harness.targets.adapter import TargetError
from leyden.harness.targets.served import ServedLeyden
from tests.commands.conftest import Leyden
from tests.support.http_servers import answering, handling

ESCAPE = "\x1b[31m\x9b2J\u202e"
AT = "2030-01-01\x1b09:00:00Z"  # an instant of ISO 8601, as Python reads it
CHARGE = {"id": ESCAPE, "status": ESCAPE, "amount": "1", "description": ESCAPE, "createdAt": AT, "expiresAt": AT,
          "internalId": ESCAPE, "callbackUrl": ESCAPE, "confirmedAt": AT, "staticChargeId": ESCAPE,
          "invoice": {"request": ESCAPE}}  # fmt: skip
SANDBOX = {"id": ESCAPE, "name": ESCAPE, "url": ESCAPE, "serverUrl": ESCAPE, "apiKey": ESCAPE, "webhookSecret": ESCAPE,
           "seed": 1, "start": AT, "now": AT, "rate": 1, "overlays": [ESCAPE], "network": ESCAPE, "ttl": None,
           "idle": 0, "notes": [ESCAPE], "ignoredFields": [ESCAPE], "createdAt": AT}  # fmt: skip


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("clock", {"now": AT, "rate": 1}),
        ("advance 1s", {"now": AT, "count": 1, "fired": [{"at": AT, "kind": ESCAPE, "id": ESCAPE}]}),
        ("charges create --amount 1 --description x", {"data": CHARGE}),
        ("charges list", {"data": [CHARGE], "next": ESCAPE}),
        ("deliveries replay --all", {"replayed": 2, "ids": [ESCAPE]}),
        ("sandbox create", SANDBOX),
        ("sandbox create --env", SANDBOX),
        ("sandbox diff --snapshot a", {"count": 1, "differences": [{"table": ESCAPE, "id": ESCAPE, "field": ESCAPE,
                                                                    "here": ESCAPE, "there": ESCAPE}]}),
    ],
)  # fmt: skip
def test_what_a_command_prints_for_people_has_no_control_characters(
    words: str, answer: dict[str, Any], leyden: Leyden
) -> None:
    with handling(answering(json.dumps(answer).encode())) as url:
        done = leyden(*words.split(), LEYDEN_URL=url.removesuffix("/hook"))
    assert done.returncode == 0, done.stderr
    printed = done.stdout + done.stderr
    assert "\\x1b" in printed
    assert printed.replace("\n", "").isprintable(), printed


def test_a_raw_response_is_unchanged_in_a_pipe_and_printable_on_a_terminal(
    capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = f"<html>\r\n\t{ESCAPE}</html>".encode()
    print_raw(page)
    sys.stdout.flush()
    assert capfdbinary.readouterr().out == page + b"\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_raw(page)
    sys.stdout.flush()
    shown = capfdbinary.readouterr().out.decode()
    assert shown == "<html>\n        \\x1b[31m\\x9b2J\\u202e</html>\n"


@pytest.mark.parametrize(
    "answer", [b"\x00\xff\x13garbage\r\n\r\n", b"SSH-2.0-'OpenSSH\r\n", b"HTTP/1.1 200 OK\r\nX\0: \xff\r\n\r\n"]
)
def test_a_server_that_does_not_speak_http_is_reported_without_its_bytes(answer: bytes) -> None:
    handler = answering(b"")
    handler.do_GET = lambda self: self.wfile.write(answer) and None  # type: ignore[attr-defined]
    with handling(handler) as url:
        target = ServedLeyden(url.removesuffix("/hook"), "key-1")
        with pytest.raises(TargetError, match="does not respond") as refused:
            target.send("GET", "/v0/wallet", [("apikey", "key-1")], b"")
        target.end()
    assert "bytearray" not in str(refused.value)
    assert "b'" not in str(refused.value)
