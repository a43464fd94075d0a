"""Who may use a served sandbox: hosts, pages of other sites, and the API key beyond this machine."""

from __future__ import annotations

import argparse
import http.client
import json
import shlex
import stat
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leyden import Sandbox
from leyden.devserver.argument_types import host_name
from leyden.devserver.startup.addresses import ServerAddresses, api_keys
from leyden.server.errors import ForeignOrigin, LeydenError
from leyden.server.http.hosts import HostPolicy
from leyden.server.system.http_server.listening import host_name as host_name_of_machine
from tests.support import browser
from tests.support.http_servers import handling
from tests.support.served import Client, run_command, served_leyden, started_server


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Sandbox, str]]:
    with Sandbox(seed=7, start="2030-01-01T00:00Z") as sandbox:
        yield sandbox, sandbox.serve()


def call(url: str, method: str, path: str, **headers: str) -> tuple[int, Any]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=20)
    with closing(connection):
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        body = answer.read()
        is_json = "json" in (answer.headers.get("content-type") or "")
        return answer.status, json.loads(body) if is_json else body


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:8402", "LOCALHOST.:80", "shop.localhost:1", "127.0.0.1:8402", "[::1]:8402", "10.1.2.3"],
)
def test_localhost_and_addresses_are_answered(served: tuple[Sandbox, str], host: str) -> None:
    assert call(served[1], "GET", "/v0/charges", apikey="leyden", host=host)[0] == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8402",
        "localhost.evil.example",
        "127.0.0.1.nip.io",
        "",
        "[",
        "a" * 5000,
        *(f"evil.example{mark}.localhost" for mark in ("?", "#", "/", "\\", "@", " ", ":1", ",", "%2f")),
        "a..localhost",
        ".localhost",
        "localhost..",
        "user@localhost",
        "localhost, evil.example",
        "localhost:80:80",
        "localhost:\xb2",
        "[::1",
        "::1]",
    ],
)
@pytest.mark.parametrize(
    "path", ["/v0/charges", "/sandbox/v1/webhook-secret", "/console", "/docs", "/openapi.json", "/nothing"]
)
def test_another_host_gets_421_and_the_way_out(served: tuple[Sandbox, str], host: str, path: str) -> None:
    status, problem = call(served[1], "GET", path, apikey="leyden", host=host)
    assert (status, problem["code"]) == (421, "misdirected_request")
    detail = problem["detail"]
    assert "use localhost or its IP address" in detail
    assert len(detail) < 300
    # Of these hosts `--allow-host` accepts the names alone, and only for them it is proposed.
    assert ("--allow-host" in detail) is is_accepted(host.partition(":")[0] if ":8402" in host else host)


def is_accepted(text: str) -> bool:
    try:
        return bool(host_name(text))
    except argparse.ArgumentTypeError:
        return False


@given(st.text("abAB09.:-_[]%, @\xff", max_size=12) | st.text(max_size=3))
def test_a_name_is_proposed_for_allow_host_only_where_it_is_accepted_and_helps(host: str) -> None:
    header = host.encode("latin-1", "replace")
    scope = {"headers": [(b"host", header)], "method": "GET", "path": "/"}
    problem = HostPolicy().refusal(scope)
    if problem is not None and "--allow-host" in str(problem):
        name = host.rpartition(":")[0] if ":" in host else host
        assert HostPolicy([host_name(name)]).refusal(scope) is None


def test_the_names_for_which_a_server_answers_are_listed() -> None:
    with served_leyden("--public-url", "http://pay.example", "--api-key", "k1", "--rate", "0") as client:
        named = "use localhost, its IP address, or the name of its machine, of --public-url or of --allow-host"
        assert named in call(client.url, "GET", "/v0/charges", host="evil.example")[1]["detail"]
        for name in ("localhost", "pay.example", "127.0.0.1", host_name_of_machine()):
            assert call(client.url, "GET", "/v0/charges", apikey="k1", host=name)[0] == 200
    reach = ServerAddresses.of("0.0.0.0", 8402, "http://pay.example").reach()
    assert f"answers as localhost, an IP address, pay.example, {host_name_of_machine()}" in reach


@pytest.mark.parametrize(
    ("target", "host", "status"),
    [
        ("http://evil.example/v0/charges", "localhost", 421),
        ("http://localhost@evil.example/v0/charges", "localhost", 421),
        ("http://evil.example:80/v0/charges?limit=1", "localhost", 421),
        ("http://localhost/v0/charges?limit=1", "evil.example", 200),
        ("http://[::1]:8402/v0/charges", "evil.example", 200),
        ("http://localhost", "localhost", 307),
        ("http:///v0/charges", "localhost", 400),
    ],
)
def test_the_host_of_an_absolute_url_counts(served: tuple[Sandbox, str], target: str, host: str, status: int) -> None:
    assert call(served[1], "GET", target, apikey="leyden", host=host)[0] == status


def test_a_page_that_does_not_name_itself_is_called_another_site(served: tuple[Sandbox, str]) -> None:
    _, problem = call(served[1], "GET", "/v0/charges", apikey="leyden", sec_fetch_site="cross-site")
    assert problem["detail"].startswith("a page of another origin sent this request, and pages of other origins")
    _, problem = call(served[1], "GET", "/v0/charges", apikey="leyden", origin="http://evil.example")
    assert problem["detail"].startswith("a page of 'http://evil.example' sent this request")


def test_names_can_be_allowed() -> None:
    policy = HostPolicy(["Leyden.test", "ci-runner"])
    assert [policy.allows(host) for host in ("leyden.TEST", "ci-runner", "other", "x.leyden.test")] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:9999", "sec_fetch_site": "same-site"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "http://localhost:3000"},
        {"origin": "http://shop.localhost"},
        {"sec_fetch_site": "same-site"},
        {"origin": "null"},
        {"origin": "http://[broken"},
        {"origin": "http://localhost:8402 http://evil.example"},
        {"origin": "http://evil.example?.localhost"},
        {"origin": "http://evil.example\\.localhost"},
        {"origin": "http://evil@localhost"},
        {"origin": "http://localhost/evil.example"},
        {"origin": "localhost"},
        {"sec_fetch_site": "cross-site"},
        {"origin": "https://evil.example", "sec_fetch_site": "cross-site", "sec_fetch_mode": "cors"},
        {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"},
        {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "iframe"},
        {"sec_fetch_site": "same-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "iframe"},
    ],
)
def test_a_page_of_another_site_may_read_documents_and_no_sandbox(
    served: tuple[Sandbox, str], headers: dict[str, str]
) -> None:
    sandbox, url = served
    static = sandbox.static_charges.create(minAmount="1000", maxAmount="5000", description="tips")
    before = sandbox.journal_hash
    for path in ("/v0/charges", "/sandbox/v1/webhook-secret", "/sandbox/v1/clock", "/sandbox/v1/sandboxes"):
        status, problem = call(url, "GET", path, apikey="leyden", **headers)
        assert (status, problem["code"]) == (403, "foreign_origin"), path
    assert sandbox.journal_hash == before
    for path in ("/openapi.json", "/docs", "/console", "/sandbox/v1/merged.json", f"/lnurlp/{static.id}"):
        assert call(url, "GET", path, **headers)[0] == 200, path


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "localhost:8402", "origin": "http://localhost:8402", "sec_fetch_site": "same-origin"},
        {"host": "LOCALHOST:8402", "origin": "http://localhost:8402"},
        {"host": "127.0.0.1", "origin": "http://127.0.0.1:80"},
        {"host": "[::1]:8402", "origin": "http://[::1]:8402"},
        {"host": "[::1]", "origin": "http://[::1]"},
        {"sec_fetch_site": "none", "sec_fetch_mode": "navigate"},
        {"sec_fetch_site": "same-origin", "sec_fetch_mode": "navigate", "sec_fetch_dest": "iframe"},
    ],
)
def test_own_pages_and_links_are_answered(served: tuple[Sandbox, str], headers: dict[str, str]) -> None:
    assert call(served[1], "GET", "/v0/charges", apikey="leyden", **headers)[0] == 200


@pytest.mark.parametrize(
    ("origin", "is_answered"),
    [
        ("https://Leyden.test", True),
        ("http://leyden.test:8402", True),
        ("http://leyden.test.:8402", True),
        ("http://leyden.test:8080", False),
        ("https://leyden.test:8443", False),
        ("https://x.leyden.test", False),
        ("https://shop.example", True),
        ("https://shop.example:8443", False),
        ("http://ci-runner:3000", False),
    ],
)
def test_pages_of_an_allowed_name_and_of_the_public_url_are_answered(origin: str, is_answered: bool) -> None:
    policy = HostPolicy(
        ["leyden.test", "shop.example", "ci-runner"], pages=["leyden.test", "https://shop.example/sandbox"]
    )
    headers = [(b"host", b"localhost:8402"), (b"origin", origin.encode())]
    refusal = policy.refusal({"type": "http", "method": "POST", "path": "/", "headers": headers})
    assert (refusal is None) == is_answered


@pytest.mark.skipif(browser.find_browser() is None, reason="no browser here: install chromium")
def test_a_page_whose_name_was_rebound_to_this_machine_reads_nothing(served: tuple[Sandbox, str]) -> None:
    sandbox, url = served
    port = urlsplit(url).port
    before = sandbox.charges.table
    with browser.tab("about:blank", "--host-resolver-rules=MAP evil.example 127.0.0.1") as tab:
        tab.open(f"http://evil.example:{port}/openapi.json")
        for method, path, body in [
            ("GET", "/sandbox/v1/webhook-secret", ""),
            ("POST", "/v0/charges", '{"amount": "250000", "description": "Coffee"}'),
            ("POST", "/sandbox/v1/api-keys/rotate", '{"replaces": "leyden"}'),
        ]:
            options = {"method": method, "headers": {"apikey": "leyden", "content-type": "application/json"}}
            if body:
                options["body"] = body
            answer = tab(f"fetch({path!r}, {json.dumps(options)}).then(async (r) => [r.status, await r.text()])")
            assert answer[0] == 421, (path, answer)
            assert "whsec_" not in answer[1]
    assert len(sandbox.charges.table) == len(before)
    assert call(url, "GET", "/v0/charges", apikey="leyden")[0] == 200


@pytest.mark.skipif(browser.find_browser() is None, reason="no browser here: install chromium")
def test_a_page_of_another_port_of_this_machine_changes_nothing() -> None:
    with served_leyden("--rate", "0") as client, handling(OtherProgram) as other:
        box = client.ok("POST", "/sandbox/v1/sandboxes", {"name": "mine"})
        with browser.tab(other) as tab:
            for path in ("", f"/{box['id']}/reset", f"/{box['id']}/fork"):
                url = f"{client.url}/sandbox/v1/sandboxes{path}"
                sent = tab(f"fetch({url!r}, {{method: 'POST', mode: 'no-cors'}}).then((answer) => answer.type)")
                assert sent == "opaque"
        boxes = client.ok("GET", "/sandbox/v1/sandboxes")["data"]
        assert [(one["id"], one["seed"]) for one in boxes] == [(box["id"], box["seed"])]


class OtherProgram(BaseHTTPRequestHandler):
    """A page of another program of this machine."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>another program</title>")

    def log_message(self, *_: object) -> None:
        """Write nothing."""


def test_a_page_of_another_site_can_read_the_documents_in_a_browser(served: tuple[Sandbox, str]) -> None:
    for path in ("/openapi.json", "/sandbox/v1/openapi.json", "/sandbox/v1/merged.json"):
        with urllib.request.urlopen(f"{served[1]}{path}", timeout=20) as answer:
            assert answer.headers["access-control-allow-origin"] == "*"


def addresses(host: str, public_url: str | None = None) -> ServerAddresses:
    return ServerAddresses.of(host, 8402, public_url)


def test_a_server_on_loopback_is_local() -> None:
    found = addresses("127.0.0.1")
    assert found.is_local
    assert found.public_url == found.url
    assert found.reach() == "reachable from this machine only"
    assert found.reach(["a.example", "b.example"]) == "reachable from this machine only, also as a.example, b.example"


def test_a_server_on_all_addresses_is_never_0_0_0_0_in_a_url() -> None:
    found = addresses("0.0.0.0")
    assert not found.is_local
    assert found.url.startswith("http://127.0.0.1:")
    assert "0.0.0.0" not in found.public_url
    assert found.public_url in found.reach()
    assert found.reach(["a.example", "b.example"]).endswith(", a.example, b.example")
    assert ("0.0.0.0", found.own[0][1]) in found.own
    assert ("127.0.0.1", found.own[0][1]) in found.own or len(found.own) > 2


def test_the_public_url_is_one_of_the_servers_own_names() -> None:
    found = addresses("0.0.0.0", "https://shop.example/sandbox")
    assert found.public_url == "https://shop.example/sandbox"
    assert ("shop.example", 443) in found.own
    assert "shop.example" in found.names


@pytest.mark.parametrize("url", ["http://127.0.0.1:8402", "http://localhost:9000", "http://[::1]:8402"])
def test_a_public_url_of_this_machine_is_no_way_for_others(url: str) -> None:
    text = addresses("0.0.0.0", url).reach()
    assert f"from other machines, but at {url} (--public-url, --host) from this machine only: LNURLs lead there" in text
    assert "give a --public-url for other machines" in text


def test_the_default_key_stays_on_this_machine(tmp_path: Path) -> None:
    assert api_keys([], ":memory:", is_local=True) == (["leyden"], False)
    (first,), _ = api_keys([], ":memory:", is_local=False)
    (second,), is_new = api_keys([], ":memory:", is_local=False)
    assert is_new
    assert first != second
    assert len(first) > 32
    with pytest.raises(LeydenError, match="'leyden' is known to everybody"):
        api_keys(["other", "leyden"], ":memory:", is_local=False)
    assert api_keys(["other"], ":memory:", is_local=False) == (["other"], False)


def test_a_random_key_is_kept_with_the_data_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    (key,), _ = api_keys([], str(folder), is_local=False)
    assert api_keys([], str(folder), is_local=False) == ([key], True)
    assert stat.S_IMODE((folder / "api-key").stat().st_mode) == 0o600
    with pytest.raises(LeydenError, match=r"api-key: .*give --api-key"):
        api_keys([], str(folder / "api-key"), is_local=False)


@pytest.mark.parametrize(
    ("public_url", "is_local"),
    [
        ("http://127.0.0.1:80", True),
        ("http://localhost:8402", True),
        ("http://shop.localhost.", True),
        ("http://[::1]/x", True),
        ("https://shop.example", False),
        ("http://192.168.1.5:8402", False),
        ("http://localhost.example", False),
    ],
)
def test_a_public_url_of_another_host_is_reached_from_other_machines(public_url: str, is_local: bool) -> None:
    found = addresses("127.0.0.1", public_url)
    assert (found.is_loopback, found.is_local) == (True, is_local)
    assert ("this machine only" in found.reach()) is is_local
    assert is_local or f"through a proxy from other machines, at {public_url}" in found.reach()
    assert not addresses("0.0.0.0", public_url).is_local


REACHED = [("--host", "0.0.0.0"), ("--public-url", "https://shop.example")]


@pytest.mark.parametrize("reached", REACHED, ids=lambda words: words[0])
def test_the_default_key_of_a_directory_does_not_open_it_to_other_machines(
    reached: tuple[str, str], tmp_path: Path
) -> None:
    data = ("--data", str(tmp_path), "--rate", "0")
    with served_leyden(*data) as client:
        own = client.ok("POST", "/sandbox/v1/api-keys", {})["key"]
    with served_leyden(*data, "--api-key", "b1") as client:
        client.ok("POST", "/sandbox/v1/api-keys", {"key": "b2"})
    for opened in ((own,), ("b2", own)):
        keys = [word for key in opened for word in ("--api-key", key)]
        done = run_command("serve", "--port", "0", *data, *reached, *keys)
        assert done.returncode == 2
        [line] = done.stderr.splitlines()
        assert f"a project in {tmp_path} has the key 'leyden', which is known to everybody" in line
    with served_leyden(*data, *reached, "--api-key", "b2") as client:
        status, problem = client("POST", "/sandbox/v1/api-keys", {"key": "leyden"})
        assert (status, "was issued before" in problem["detail"]) == (409, True)
    with served_leyden(*data) as client:
        words = shlex.split(line.partition("`leyden ")[2].partition("`")[0])
        assert run_command(*words, "--url", client.url).returncode == 0
    with served_leyden(*data, *reached, "--api-key", own) as client:
        assert client("GET", "/v0/charges")[0] == 200
        assert Client(client.url, "leyden")("GET", "/v0/charges")[0] == 401


@pytest.mark.parametrize("reached", REACHED, ids=lambda words: words[0])
def test_a_server_that_other_machines_reach_never_issues_the_default_key(reached: tuple[str, str]) -> None:
    token = {"authorization": "Bearer some-token"}
    with served_leyden("--rate", "0", *reached, "--api-key", "k1", "--admin-token", "some-token") as client:
        assert client("POST", "/sandbox/v1/sandboxes", {})[0] == 401
        box = client.ok("POST", "/sandbox/v1/sandboxes", {}, **token)
        for key in ("k1", box["apiKey"]):
            one = Client(client.url, key)
            for path, more in (("api-keys", {}), ("api-keys/rotate", {"replaces": key})):
                status, problem = one("POST", f"/sandbox/v1/{path}", {"key": "leyden", **more})
                assert (status, "is known to everybody" in problem["detail"]) == (409, True)
        page = call(client.url, "GET", "/console")[1].decode()
        assert 'name="leyden-key" content=""' in page


def test_a_server_behind_a_proxy_has_a_random_key_and_token() -> None:
    with started_server("--rate", "0", "--public-url", "https://shop.example") as (client, printed):
        assert client("GET", "/v0/charges")[0] == 401
        assert client("GET", "/sandbox/v1/sandboxes")[0] == 401
    assert "admin token: leyden_" in printed()


def test_the_default_key_in_the_file_of_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "api-key").write_text("leyden\n")
    with pytest.raises(LeydenError, match=r"'leyden' is known to everybody.*write another key into the file"):
        api_keys([], str(tmp_path), is_local=False)


@pytest.mark.parametrize("values", [(b"cross-site", b"none"), (b"none", b"cross-site"), (b"Cross-Site \t",)])
def test_each_value_of_a_repeated_header_of_a_browser_counts(values: tuple[bytes, ...]) -> None:
    headers = [(b"host", b"localhost"), *((b"sec-fetch-site", value) for value in values)]
    scope = {"type": "http", "method": "POST", "path": "/v0/charges", "headers": headers}
    assert isinstance(HostPolicy().refusal(scope), ForeignOrigin)
