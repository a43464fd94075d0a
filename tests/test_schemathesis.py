"""Schemathesis, as anybody would run it: its stock checks on the served documents, in process and over HTTP."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings

from sim import Sandbox
from tests.served import leyden

DEEP = os.environ.get("LEYDEN_PROFILE") == "deep"
KEY = {"apikey": "leyden"}
FROZEN = ("--rate", "0", "--start", "2030-01-01T00:00:00Z", "--seed", "5")
BOUNDED = settings(
    max_examples=300 if DEEP else 20,
    deadline=None,
    derandomize=not DEEP,
    database=None,
    stateful_step_count=8,
    suppress_health_check=list(HealthCheck),
)

service = schemathesis.openapi.from_asgi("/openapi.json", Sandbox(seed=5).app)
control = schemathesis.openapi.from_asgi("/sandbox/v1/openapi.json", Sandbox(seed=5).app)


@service.parametrize()
@BOUNDED
def test_the_service_keeps_its_word(case: schemathesis.Case) -> None:
    case.call_and_validate(headers=KEY)


@control.exclude(operation_id="reset").parametrize()
@BOUNDED
def test_the_control_plane_keeps_its_word(case: schemathesis.Case) -> None:
    case.call_and_validate(headers=KEY)


class Workflows(service.as_state_machine()):  # type: ignore[misc]
    """The links of the document, walked from a fresh sandbox each time."""

    def setup(self) -> None:
        self.sandbox = Sandbox(seed=5)

    def get_call_kwargs(self, case: schemathesis.Case) -> dict[str, Any]:
        return {"app": self.sandbox.app, "headers": KEY}

    def teardown(self) -> None:
        self.sandbox.close()


TestWorkflows = Workflows.TestCase
TestWorkflows.settings = BOUNDED


@pytest.mark.parametrize("document", ["/openapi.json", "/sandbox/v1/openapi.json"])
def test_the_stock_command_finds_nothing(document: str, tmp_path: Path) -> None:
    with leyden(*FROZEN) as client:
        words = ["run", client.url + document, "-H", "apikey: leyden", "--seed", "1", "--no-color"]
        if not DEEP:
            words += ["--max-examples", "8"]
        done = subprocess.run(
            [Path(sys.executable).parent / "schemathesis", *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    # The control plane's run ends with a warning: nothing in its own document creates a charge that could be failed.
    assert done.returncode == 0, done.stdout[-6_000:] + done.stderr
    assert "Failures" not in done.stdout
