"""Receivers with TLS: which certificates are accepted, and what the note of a refused one says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import trustme

from tests.support.https import https_server

# A process of its own: the variable is read once, when the process loads its certificates.
PROGRAM = """
import json, sys
from leyden import Sandbox

with Sandbox(seed=1, egress="loopback") as sb:
    charge = sb.charges.create(amount="1000", description="tea", callbackUrl=sys.argv[1])
    sb.wallet("ana").pay(charge)
    sb.run("1s")
    [delivery] = sb.http.get("/sandbox/v1/deliveries").json()["data"]
    print(json.dumps(delivery["attempts"][0]))
"""
MEND = "; to trust it, start Leyden with the variable SSL_CERT_FILE: a PEM file that has its issuer"


def attempt(host: str, environment: dict[str, str]) -> tuple[int | None, str | None, str]:
    """Status, error and note of an attempt to send a callback there."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, f"https://{host}/paid"],
        env={**os.environ, **environment}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    return found["status"], found["error"], found["note"]


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def trusted(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    file = tmp_path_factory.mktemp("tls") / "authority.pem"
    authority.cert_pem.write_to_path(str(file))
    return {"SSL_CERT_FILE": str(file)}


def test_a_certificate_of_an_own_issuer_is_refused_with_the_mend_and_accepted_with_it(
    authority: trustme.CA, trusted: dict[str, str]
) -> None:
    with https_server(authority.issue_cert("127.0.0.1")) as host:
        status, error, note = attempt(host, {"SSL_CERT_FILE": ""})
        assert (status, error) == (None, "tls")
        assert note.startswith(f"the certificate of {host} is refused: ")
        assert note.endswith(MEND)
        assert attempt(host, trusted) == (204, None, "")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "is not used (no such file or directory): give a PEM file"),
        ("no certificate", "is not used (no certificate or crl found): give a PEM file"),
        ("another", "does not have its issuer: give a PEM file that has it"),
    ],
)
def test_a_file_of_issuers_that_does_not_help_is_named(
    authority: trustme.CA, tmp_path: Path, content: str | None, why: str
) -> None:
    file = tmp_path / "issuers.pem"
    if content == "another":
        trustme.CA().cert_pem.write_to_path(str(file))
    elif content is not None:
        file.write_text(content)
    with https_server(authority.issue_cert("127.0.0.1")) as host:
        note = attempt(host, {"SSL_CERT_FILE": str(file)})[2]
    assert note.endswith(f"; the file of SSL_CERT_FILE, {str(file)!r}, {why}")


def test_a_certificate_of_another_name_is_refused_without_a_mend_that_does_not_help(
    authority: trustme.CA, trusted: dict[str, str]
) -> None:
    with https_server(authority.issue_cert("shop.example")) as host:
        status, error, note = attempt(host, trusted)
        assert (status, error) == (None, "tls")
        assert note.startswith(f"the certificate of {host} is refused: IP address mismatch")
        assert MEND not in note


def test_a_receiver_that_demands_a_certificate_closes_the_connection_in_plain_words(
    authority: trustme.CA, trusted: dict[str, str]
) -> None:
    """In TLS 1.3 that shows while the message is sent, or when its response is read."""
    with https_server(authority.issue_cert("127.0.0.1"), asks_for_one=True) as host:
        for _ in range(3):
            status, error, note = attempt(host, trusted)
            assert status is None
            assert error in {"reset", "tls"}
            assert "Errno" not in note
            assert "Can not" not in note
            assert note
