"""No product of a run over HTTP has the API keys, the user in the URL of the target, or a webhook secret."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leyden.__main__ import main
from leyden.harness.constants import ENGINES, REPORT_FORMATS
from leyden.harness.runs.at_target import PrintedRun
from leyden.harness.runs.cases import read_case
from leyden.harness.targets.secrets import Secrets
from leyden.harness.targets.served import ExternalService
from leyden.server.charges.lnurl import encode_lnurl
from tests.support.http_servers import handling

KEY, SECOND, PASSWORD, SECRET = "key-of-a-project", "another+key/of=one", "p%40ss-w%22rd", "whsec_" + "QUJD" * 10
PLAIN = 'p@ss-w"rd'
REPORTS = [f"report{ending}" for name, ending in REPORT_FORMATS.items() if name != "markdown"]


def encodings(secret: str) -> set[str]:
    raw = secret.encode()
    found = {
        secret,
        quote(secret, safe=""),
        re.sub("%..", lambda found: found[0].lower(), quote(secret, safe="")),
        json.dumps(secret)[1:-1],
        repr(secret)[1:-1],
    }
    for text in (secret, f"user:{secret}"):
        found |= {
            base64.b64encode(text.encode()).decode().rstrip("="),
            base64.urlsafe_b64encode(raw).decode().rstrip("="),
        }
    return found


SECRET_TEXTS = {form for one in (KEY, SECOND, PASSWORD, PLAIN, SECRET) for form in encodings(one)}


class Echo(BaseHTTPRequestHandler):
    """A service whose answers have the secrets of each request in every form."""

    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        host = self.headers["host"]
        lnurl = encode_lnurl(f"http://user:{PASSWORD}@{host}/lnurlp/1")
        key = self.headers.get("apikey") or ""
        text = " ".join([key, *encodings(key), self.headers.get("authorization") or "", SECRET, PLAIN, PASSWORD, lnurl])
        body: dict[str, Any] = {"success": True, "message": text, "data": {"id": text, "invoice": {"request": lnurl}}}
        raw = json.dumps(body).encode()
        self.send_response(200)
        for name, value in (("content-type", "application/json"), ("x-echo", key), ("content-length", f"{len(raw)}")):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(raw)

    do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = do_OPTIONS = do_HEAD = do_QUERY = do_TRACE = _answer

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with handling(Echo) as found:
        yield found.replace("://", f"://user:{PASSWORD}@")


def check(text: str, what: str) -> None:
    for secret in SECRET_TEXTS:
        assert secret not in text, f"{what} has {secret}: {text[max(0, text.index(secret) - 200) :][:400]}"
    for word in text.replace('"', " ").replace("'", " ").split():
        if word.lower().startswith("lnurl1"):
            assert word.lower().startswith("lnurl1(") or len(word) < 30, f"{what} has {word}"


@pytest.mark.parametrize("engine", ENGINES)
def test_no_product_has_a_secret(engine: str, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [word for name in REPORTS for word in ("--report", str(tmp_path / name))]
    keys = ["--api-key", KEY, "--second-api-key", SECOND]
    options = ["--seed", "1", "--examples", "2", "--keep-going", "--cases", str(tmp_path / "cases"), *words]
    assert main(["fuzz", url, *keys, "--adapter", "none", "--engines", engine, *options]) in (1, 3)
    printed = capsys.readouterr()
    check(printed.out + printed.err, "what is printed")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) >= len(REPORTS)
    for path in files:
        check(path.read_text(), path.name)
    for path in tmp_path.rglob("*.case.json"):
        for form in ("pytest", "curl", "notebook"):
            main(["replay", str(path), "--export", form])
        main(["replay", str(path), url, *keys, "--adapter", "none"])
        printed = capsys.readouterr()
        check(printed.out + printed.err, f"the replay of {path.name}")


def test_a_printed_run_shows_no_secret(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    case = {"leydenCase": 3, "leyden": "", "name": "x", "specHash": "", "overlays": [], "seed": 0, "disk": False,
            "start": "2030-01-01T00:00:00.000Z", "foundOn": "another implementation", "expectation": None,
            "journalHash": None, "steps": [{"do": "wallet"}]}  # fmt: skip
    target = ExternalService(url, KEY, SECOND, adapter_name="none")
    with pytest.raises(Exception) as caught:
        PrintedRun(read_case(case), target).do({"do": "wallet"})
    check(str(caught.value) + capsys.readouterr().out, "a printed run")


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=8, max_size=20), st.integers(0, 400))
def test_a_secret_is_found_in_every_encoding_and_where_a_text_is_cut(key: str, most: int) -> None:
    secrets = Secrets("http://127.0.0.1:1", (key,))
    for form in encodings(key):
        assert form not in secrets.text(f"a {form} b") or len(form) < 4
    text = secrets.text(f"{'-' * 20}{key}{'-' * 20}"[:most] + "...")
    assert all(key[:length] not in text for length in range(4, len(key) + 1) if not set(key[:length]) & set("-."))


def test_what_is_no_secret_stays() -> None:
    secrets = Secrets("http://127.0.0.1:1", ("leyden", "second"))
    for text in ("the second project's API key", "leyden replay", "http://a:b@c/ {'amount': '1000'}", "lnurl1"):
        assert secrets.text(text) == text
    assert secrets.text("{'key': 'second'}") == "{'key': '(6 characters)'}"
