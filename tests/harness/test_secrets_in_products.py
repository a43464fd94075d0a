"""No product of a run over HTTP has the API keys, the user in the URL of the target, or a webhook secret."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from html import escape
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leyden import Sandbox
from leyden.__main__ import main
from leyden.devserver.secret_texts import Secrets
from leyden.harness.constants import ENGINES, REPORT_FORMATS
from leyden.harness.runs.at_target import PrintedRun
from leyden.harness.runs.cases import read_case
from leyden.harness.targets.served import ExternalService
from leyden.server.charges.lnurl import encode_lnurl
from tests.support.encodings import encodings
from tests.support.http_servers import handling

KEY, SECOND, PASSWORD, SECRET = "key-of-a-project", "another+key/of=one", "p%40ss-w%22rd", "whsec_" + "QUJD" * 10
PLAIN = 'p@ss-w"rd'
KEY_BYTES = base64.b64decode(SECRET[6:])
REPORTS = [f"report{ending}" for name, ending in REPORT_FORMATS.items() if name != "markdown"]


SECRET_TEXTS = {
    form for one in (KEY, SECOND, PASSWORD, PLAIN, SECRET, KEY_BYTES) for form in encodings(one) if len(form) > 3
}


class Echo(BaseHTTPRequestHandler):
    """A service whose answers have the secrets of each request in every form."""

    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        host = self.headers["host"]
        lnurl = encode_lnurl(f"http://user:{PASSWORD}@{host}/lnurlp/1")
        key = self.headers.get("apikey") or ""
        secrets = (SECRET, KEY_BYTES, PLAIN, PASSWORD, *([key] if len(key) > 7 else []))
        text = " ".join(
            [self.headers.get("authorization") or "", lnurl, *(form for one in secrets for form in encodings(one))]
        )
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


ODD = st.text(st.characters(exclude_categories=["Cs"]), min_size=8, max_size=20)


@given(ODD | st.binary(min_size=24, max_size=40), st.sampled_from(["", " ", "-", "x/", '"', "=", "\\\\"]), st.data())
def test_a_secret_is_found_in_every_encoding(secret: str | bytes, beside: str, data: st.DataObject) -> None:
    if isinstance(secret, bytes):
        hidden = Secrets(webhook_secrets=["whsec_" + base64.b64encode(secret).decode()])
    else:
        hidden = Secrets([secret], urls=["http://127.0.0.1:1"])
    form = data.draw(st.sampled_from(sorted(encodings(secret))))
    for text in (form, f"before{beside}{form}{beside}after", f"{form}..."):
        assert form not in hidden.text(text), (secret, text, hidden.text(text))
    # Within another text in JSON, of another program, in a page and in a parameter.
    for text in (
        json.dumps({"a": form}),
        repr({"a": form}),
        escape(form),
        quote(form, safe=""),
        json.dumps(repr(form)),
    ):
        assert text.strip("'\"") not in hidden.text(f"[{text}]"), (secret, text)


@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode, base64.b32encode])
@pytest.mark.parametrize("before", ["", "x", "xy"])
def test_the_padding_of_a_secret_is_not_left(encode: Callable[[bytes], bytes], before: str) -> None:
    encoded = encode(f"{before}{KEY}".encode()).decode()
    assert Secrets([KEY], show=lambda _: "-").text(f"({encoded})").endswith("-)")
    assert Secrets([KEY], show=lambda _: "-").text(f"a={KEY}=") == "a=-="


@given(st.binary(min_size=16, max_size=16), st.randoms())
def test_a_key_as_leyden_issues_it_is_found_in_the_lines_of_all_encodings(digits: bytes, draw: Random) -> None:
    """Its hexadecimal digits are digits of a dump, too, and a line may end where folded Base64 ends."""
    key = f"leyden_{digits.hex()}"
    forms = sorted(encodings(key))
    draw.shuffle(forms)
    text = Secrets([key]).text("\n".join(forms))
    assert not [form for form in forms if form in text]


@given(st.binary(min_size=24, max_size=40), st.integers(0, 60), st.integers(0, 60))
def test_a_webhook_secret_that_is_not_known_is_found_in_base64_and_in_hexadecimal(
    key: bytes, before: int, after: int
) -> None:
    secret = "whsec_" + base64.b64encode(key).decode()
    text = f"{'a' * before}{secret}{'z' * after}".encode()
    for form in (base64.b64encode(text), base64.urlsafe_b64encode(text), text.hex().encode(), base64.b32encode(text)):
        assert Secrets().text(f'"{form.decode()}"') != f'"{form.decode()}"'


@given(ODD, st.integers(0, 400))
def test_a_secret_is_found_where_a_text_is_cut(key: str, most: int) -> None:
    hidden = Secrets([key], show=lambda _: "-")
    for form, least in ((key, 4), (key.encode().hex(), 8), (base64.b64encode(key.encode()).decode(), 8)):
        text = hidden.text(f"{'-' * 20}{form}{'-' * 20}"[:most] + "...")
        parts = (form[:length] for length in range(least, len(form) + 1))
        assert all(part not in text for part in parts if not set(part) & set("-."))


@given(st.text(), st.text("%\\&#;xu0o{}aAmp\n\udc80é\U0001f600", max_size=40))
def test_a_text_without_a_secret_stays_and_every_text_is_read(text: str, escapes: str) -> None:
    hidden = Secrets(["a key that no text has by chance"], webhook_secrets=["whsec_" + "QUJD" * 10])
    for one in (text, escapes, text + escapes):
        assert hidden.text(one) == one


def test_a_long_text_is_read_once() -> None:
    hidden = Secrets([KEY], urls=[f"http://user:{PASSWORD}@127.0.0.1"], webhook_secrets=[SECRET])
    for part in ("ab12 ", "&amp;", "\\u0041", "%41", "\\" * 7, "1, ", "6b:", "é", "QUJD", "whsec_", "&", "lnurl1"):
        text = hidden.text(part * 20_000 + KEY)
        assert KEY not in text


def test_what_is_no_secret_stays() -> None:
    secrets = Secrets(("leyden", "second"), urls=["http://127.0.0.1:1"], public=["leyden"])
    for text in ("the second project's API key", "leyden replay", "http://a:b@c/ {'amount': '1000'}", "lnurl1"):
        assert secrets.text(text) == text
    assert secrets.text("{'key': 'second'}") == "{'key': '(6 characters)'}"


@pytest.mark.parametrize("seed", [8, 9, 100])
def test_an_lnurl_without_a_secret_stays(seed: int) -> None:
    """Its checksum is no UTF-8, like the first bytes of the webhook secrets of these seeds."""
    with Sandbox(seed=seed) as sandbox:
        hidden = Secrets(["leyden"], webhook_secrets=[sandbox.ask("GET", "/sandbox/v1/webhook-secret")["current"]])
        body = {"minAmount": "1000", "maxAmount": "2000", "description": "tea"}
        links = [sandbox.ask("POST", "/v0/static-charges", body)["data"]["invoice"]["request"] for _ in range(40)]
    assert [hidden.text(link) for link in links] == links


REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize("unreadable", range(4))
def test_characters_for_unreadable_bytes_alone_are_no_secret(unreadable: int) -> None:
    key = b"\xff" * unreadable + b"a key of sixteen bytes or more"
    hidden = Secrets(webhook_secrets=["whsec_" + base64.b64encode(key).decode()], show=lambda _: "-")
    text = f"text {REPLACEMENT * unreadable}"
    assert hidden.text(text) == text
    assert hidden.text(f"{text}a ke") == "text -"
