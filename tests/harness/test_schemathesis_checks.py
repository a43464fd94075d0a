"""`leyden.schemathesis` and `leyden qa`: the harness's checks in somebody else's Schemathesis run."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from leyden import Sandbox
from leyden.__main__ import main
from leyden.harness.checks.violations import CHECKS
from leyden.harness.constants import NO_KEY
from leyden.schemathesis import CheckError, ServiceChecks, register_checks
from tests.seeded_defects.echoes import seen
from tests.support.deep import deep
from tests.support.store_helpers import failing

# The create operations, with the examples of the document.
SHORT = ("--phases", "examples", "--include-operation-id-regex", "^create(Static)?Charge$", "--seed", "1")


def st_run(url: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """`st run` in this folder."""
    return subprocess.run(
        [Path(sys.executable).parent / "st", "run", f"{url}/sandbox/v1/merged.json", "--no-color", *SHORT],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "LEYDEN_API_KEY": "leyden"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@contextmanager
def defective_server() -> Iterator[str]:
    """A served sandbox that shows descriptions in another order of letters."""
    with seen("description", lambda text: text[::-1])(), Sandbox(api_key="leyden") as sandbox:
        yield sandbox.serve()


@deep("test_the_written_files_name_every_check_and_replace_none")
def test_a_run_with_the_written_files_finds_what_a_stock_run_does_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stock, ours = tmp_path / "stock", tmp_path / "ours"
    stock.mkdir()
    (stock / "schemathesis.toml").write_text('[auth.openapi.apikey]\napi_key = "leyden"\n')
    assert main(["qa", "init", str(ours)]) == 0
    assert str(ours / "schemathesis.toml") in capsys.readouterr().out
    with defective_server() as url:
        plain = st_run(url, stock)
        assert plain.returncode == 0, plain.stdout[-4_000:] + plain.stderr
        found = st_run(url, ours)
    assert found.returncode == 1, found.stdout[-4_000:] + found.stderr
    assert "echo: charges.openapi.yaml#/components/schemas/Charge/properties/description" in found.stdout
    with Sandbox(api_key="leyden") as sandbox:
        clean = st_run(sandbox.serve(), ours)
    assert clean.returncode == 0, clean.stdout[-4_000:] + clean.stderr


def test_the_written_files_name_every_check_and_replace_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["qa", "init", str(tmp_path)]) == 0
    text = (tmp_path / "schemathesis.toml").read_text()
    assert [name for name in CHECKS if f"[checks.{name}]" not in text] == []
    (tmp_path / "leyden_hooks.py").unlink()
    assert main(["qa", "init", str(tmp_path)]) == 2
    assert "schemathesis.toml exists: move it away" in capsys.readouterr().err
    assert not (tmp_path / "leyden_hooks.py").exists()
    (tmp_path / "file").touch()
    assert main(["qa", "init", str(tmp_path / "file" / "below")]) == 2
    assert "choose another directory" in capsys.readouterr().err


@pytest.mark.parametrize("written", [0, 1, 2])
def test_a_full_disk_leaves_none_of_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], written: int
) -> None:
    rest = written

    def no_space_after(_: int) -> None:
        nonlocal rest
        rest -= 1
        if rest < 0:
            failing()

    with monkeypatch.context() as full:
        full.setattr("leyden.files.written_files._sync_directory", lambda _: None)
        full.setattr(os, "fsync", no_space_after)
        assert main(["qa", "init", str(tmp_path)]) == 2
    printed = capsys.readouterr()
    assert os.strerror(errno.ENOSPC) in printed.err
    assert (printed.out, [*tmp_path.iterdir()]) == ("", [])
    assert main(["qa", "init", str(tmp_path)]) == 0


def test_an_unknown_overlay_is_refused() -> None:
    with pytest.raises(CheckError, match="'strikt' is no overlay: give some of "):
        register_checks(overlays=["strikt"])


def test_a_reset_ends_the_charges_that_are_followed() -> None:
    """The Charges of the former sandbox are not asked for again."""
    with Sandbox(api_key="leyden") as sandbox:
        url = sandbox.serve()
        checks = ServiceChecks("leyden", NO_KEY, ())

        def send(method: str, path: str, operation: str, body: bytes = b"") -> str | None:
            headers = [("apikey", "leyden"), ("content-type", "application/json")]
            status, found = sandbox_response(url, method, path, headers, body)
            case = SimpleNamespace(
                operation=SimpleNamespace(base_url=url, definition=SimpleNamespace(raw={"operationId": operation}))
            )
            response = SimpleNamespace(
                status_code=status,
                content=found,
                headers={"content-type": ["application/json"]},
                request=SimpleNamespace(method=method, url=url + path, headers=dict(headers), body=body),
            )
            violation = checks.violation(response, case)
            return None if violation is None else str(violation)

        new = b'{"amount": "1000", "description": "tea"}'
        assert send("POST", "/v0/charges", "createCharge", new) is None
        assert send("POST", "/sandbox/v1/reset", "reset", b"{}") is None
        assert send("POST", "/v0/charges", "createCharge", new) is None
        checks.close()


def sandbox_response(url: str, method: str, path: str, headers: Any, body: bytes) -> tuple[int, bytes]:
    from leyden.harness.targets.served import HttpTarget

    target = HttpTarget(url, "leyden")
    response = target.send(method, path, headers, body)
    target.end()
    return response.status, response.body
