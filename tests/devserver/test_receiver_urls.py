"""The URL of a receiver is read in the same way wherever it is given: for a Charge, for a check, and for `listen`."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from leyden.__main__ import main
from leyden.devserver.argument_types import base_url, endpoint
from leyden.http_sandbox import create_sandbox
from leyden.server.contract.types import Contract
from leyden.server.errors import LeydenError
from leyden.world.config import packaged_contract
from tests.support.http_servers import handling
from tests.support.served import Client, served_leyden

NO_ADDRESS = (
    "256.0.0.1", "1.2.3.4.5", "08", "09.1", "4294967296", "0x100.1", "127.0.0.08", "0400.0.0.1", "9" * 300,
    "256.256.256.256", "127.0.0.1.5",
)  # fmt: skip
NO_URL = (
    "http://[::1:3000/", "http://[::g]/", "http://[]/", "http://[127.0.0.1]:3000/", "http://[v1.x]/", "http://a..b/",
    "http://[::1%25lo]:3000/", "http://[::1]x:3000/", "http://127.0.0.1:65536/", "http://x:y/", "http://%zz/",
    "http://user:pw@127.0.0.1:3000/", "http://127.0.0.1:8080:8080/", "http://-/", "http:\\\\127.0.0.1/", "",
)  # fmt: skip
BODY = {"amount": "250000", "description": "Coffee"}


class _Silent(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None: ...


def checked(client: Client, url: str) -> tuple[int, Any]:
    return client("POST", "/sandbox/v1/receiver-check", {"url": url, "only": ["completed"]})


def test_a_check_reads_a_url_as_a_charge_does() -> None:
    with served_leyden("--rate", "0") as client:
        for host in NO_ADDRESS:
            url = f"http://{host}:3000/hook"
            charge = client.ok("POST", "/v0/charges", {**BODY, "callbackUrl": url})["data"]
            client.ok("POST", f"/sandbox/v1/charges/{charge['id']}/fail")
            client.ok("POST", "/sandbox/v1/clock/advance", {"by": "0s"})
            attempt = client.ok("GET", f"/sandbox/v1/deliveries?chargeId={charge['id']}")["data"][0]["attempts"][0]
            assert attempt["error"] == "unresolved"
            assert ": write " in attempt["note"] or ": leave out " in attempt["note"]
            status, report = checked(client, url)
            assert (status, report["checks"][0]["exchanges"][0]["error"]) == (200, "unresolved")
            assert attempt["note"] in report["why"] or attempt["note"] in str(report["causes"])
            assert "a name or an IP address" in str(report["causes"])
        for url in NO_URL:
            assert checked(client, url)[0] == 400, url
            if url:
                assert client("POST", "/v0/charges", {**BODY, "callbackUrl": url})[0] == 400


def test_a_scheme_has_no_case_anywhere(capsys: pytest.CaptureFixture[str]) -> None:
    with served_leyden("--rate", "0") as client, handling(_Silent) as plain:
        url = plain.replace("http://", "HTTP://")
        client.ok("POST", "/v0/charges", {**BODY, "callbackUrl": url})
        status, report = checked(client, url)
        assert (status, report["checks"][0]["exchanges"][0]["status"]) == (200, 200)
        assert main(["receiver-check", url, "--only", "completed"]) in (0, 1)
    assert "not a URL" not in capsys.readouterr().err
    assert endpoint("hTTps://shop.example/Hook") == "hTTps://shop.example/Hook"
    assert base_url("HTTP://127.0.0.1:8402/") == "http://127.0.0.1:8402"


@pytest.mark.parametrize(
    ("url", "mend"),
    [
        ("http://localhost:99999", "give one such as"), ("http://[::1", "give one such as"),
        ("http://localhost:abc", "give one such as"), ("ftp://localhost", "give one such as"),
        ("http://08:1", "leave out the leading zeros"), ("http://256.0.0.1", "write it as four numbers"),
        ("HTTP://127.0.0.1:1", "start it with `leyden serve --port 1`"),
    ],
)  # fmt: skip
def test_a_client_in_python_names_what_is_wrong_with_its_url(url: str, mend: str) -> None:
    with pytest.raises(LeydenError, match=mend):
        create_sandbox(url)


def pattern_of(contract: Contract, name: str, *path: str) -> str:
    node: Any = contract.document["components"]["schemas"][name]
    for part in path:
        node = node[part]
    return str(node["pattern"])


def test_the_documents_of_a_charge_and_of_a_check_have_one_form_of_a_url() -> None:
    given = pattern_of(packaged_contract("charges"), "CallbackUrl")
    assert pattern_of(packaged_contract("sandbox"), "ReceiverCheck", "properties", "url") == given.replace(
        "(?:|", "(?:", 1
    )


@pytest.mark.parametrize("host", NO_ADDRESS)
@pytest.mark.parametrize(
    "words",
    [
        ("receiver-check", "{}"), ("listen", "{}"), ("listen", "http://127.0.0.1:1", "--server", "{}"),
        ("serve", "--port", "0", "--public-url", "{}"), ("charges", "list", "--url", "{}"), ("fuzz", "{}"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_the_host_that_is_no_address_is_named_with_the_mend(
    words: tuple[str, ...], host: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status: Any = main([word.format(f"http://{host}:3000") for word in words])
    except SystemExit as error:
        status = error.code
    last = capsys.readouterr().err.splitlines()[-1]
    assert status == 2
    assert "invalid literal" not in last
    if len(host) < 60:
        assert f"'{host}'" in last
        assert ": write " in last or ": leave out " in last
