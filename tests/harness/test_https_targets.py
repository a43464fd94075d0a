"""A target over HTTPS: which certificates are trusted."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme

from leyden.harness.targets.adapter import TargetError
from leyden.harness.targets.served import ServedLeyden
from tests.support.https import https_server


def test_a_target_over_https_is_trusted_by_the_file_that_the_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, file = trustme.CA(), tmp_path / "issuer.pem"
    authority.cert_pem.write_to_path(str(file))
    with https_server(authority.issue_cert("127.0.0.1")) as host:
        url = f"https://{host}"
        monkeypatch.delenv("SSL_CERT_FILE", raising=False)
        with pytest.raises(TargetError, match="to trust it, start Leyden with the variable SSL_CERT_FILE: a PEM file"):
            ServedLeyden(url).send("GET", "/", (), b"")
        monkeypatch.setenv("SSL_CERT_FILE", str(file))
        assert ServedLeyden(url).send("GET", "/", (), b"").status == 204


@pytest.mark.parametrize(
    ("content", "why"), [(None, "no such file or directory"), ("no certificate", "no certificate or crl found")]
)
def test_a_file_of_issuers_that_cannot_be_read_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None, why: str
) -> None:
    file = tmp_path / "issuer.pem"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    with pytest.raises(TargetError, match=f"is not used \\({why}\\): give a PEM file"):
        ServedLeyden("https://127.0.0.1:1").send("GET", "/", (), b"")
