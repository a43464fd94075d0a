"""Schemathesis with its default checks on the served documents, in process and over HTTP."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, find, settings
from hypothesis.configuration import storage_directory
from hypothesis.strategies import text

from leyden import Sandbox
from tests.support.deep import deep, deep_or, with_deep
from tests.support.lists import listed
from tests.support.served import served_leyden

RANDOM = deep_or(bounded=False, full=False, random=True)
KEY = {"apikey": "leyden"}
ENDLESS = ("--exclude-operation-id", "getEvents")  # a served stream ends when its client leaves
FROZEN = ("--rate", "0", "--start", "2030-01-01T00:00:00Z", "--seed", "5")
BOUNDED = settings(
    max_examples=deep_or(bounded=1, full=10, random=300),
    deadline=None,
    derandomize=not RANDOM,
    database=None,
    stateful_step_count=8,
    suppress_health_check=list(HealthCheck),
)

service = schemathesis.openapi.from_asgi("/openapi.json", Sandbox(seed=5).app)
control = schemathesis.openapi.from_asgi("/sandbox/v1/openapi.json", Sandbox(seed=5).app)
# Schemathesis generates the cases of these phases when pytest collects, in every worker. The default command below
# sends them, with the same checks.
for document in (service, control):
    document.config.phases.examples.enabled = RANDOM
    document.config.phases.coverage.enabled = RANDOM


@service.parametrize()
@BOUNDED
def test_the_service_conforms_to_its_document(case: schemathesis.Case) -> None:
    case.call_and_validate(headers=KEY)


@control.exclude(operation_id="reset").parametrize()
@BOUNDED
def test_the_control_plane_conforms_to_its_document(case: schemathesis.Case) -> None:
    case.call_and_validate(headers=KEY)


class FreshSandbox:
    """A fresh sandbox for each scenario."""

    def setup(self) -> None:
        self.sandbox = Sandbox(seed=5)

    def get_call_kwargs(self, case: schemathesis.Case) -> dict[str, Any]:
        return {"app": self.sandbox.app, "headers": KEY}

    def teardown(self) -> None:
        self.sandbox.close()


class Workflows(FreshSandbox, service.as_state_machine()):  # type: ignore[misc]
    """Follows the links of the document."""


TestWorkflows = Workflows.TestCase
TestWorkflows.settings = BOUNDED


wallets = service.include(tag="Lightning").include(operation_id="createStaticCharge")


class Wallets(FreshSandbox, wallets.as_state_machine()):  # type: ignore[misc]
    """A payer's wallet, which may add any query parameters: LNURL ignores unknown ones."""


TestWallets = Wallets.TestCase
TestWallets.settings = settings(BOUNDED, max_examples=deep_or(bounded=6, full=30, random=2_000))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder for a run, with the tables of Unicode that Hypothesis keeps in `.hypothesis` of its working directory.

    It takes seconds to derive them from all characters. The examples that it keeps there too are not copied.
    """
    find(text(), lambda _: True)  # where there are no tables yet, it writes them
    stored = storage_directory("unicode_data")
    tables = Path(getattr(stored, "path", stored))  # the lowest Hypothesis returns the path itself
    if tables.is_dir():  # nothing is written in a checkout that is read-only
        shutil.copytree(tables, tmp_path / ".hypothesis" / tables.name)
    return tmp_path


def finds_no_failures(url: str, folder: Path, *options: str, limit: tuple[str, ...]) -> None:
    """Run `schemathesis run` in this folder, with the options of `limit` outside the profile `random`."""
    words = ["run", url, "-H", "apikey: leyden", "--no-color", *options, *(() if RANDOM else limit)]
    done = subprocess.run(
        [Path(sys.executable).parent / "schemathesis", *words],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder)},  # requests reads all variables at every request
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6_000:] + done.stderr
    assert "Failures" not in done.stdout


@pytest.mark.parametrize(
    "document", with_deep(["/openapi.json", "/sandbox/v1/openapi.json"], "/sandbox/v1/openapi.json")
)
def test_the_default_command_finds_no_failures(document: str, folder: Path) -> None:
    with served_leyden(*FROZEN) as client:
        # The control plane's run ends with a warning: nothing in its own document creates a charge that could be
        # failed, paid or reported. The merged document has both. The tests in process above fuzz each operation, and
        # the one of the merged document follows links.
        limit = ("--phases", deep_or(bounded="examples", full="examples,coverage"))
        finds_no_failures(client.url + document, folder, *ENDLESS, "--seed", "1", limit=limit)


@deep("test_the_default_command_finds_no_failures")
def test_the_default_command_finds_no_failures_in_the_control_of_the_server(folder: Path) -> None:
    token = ("-H", "Authorization: Bearer secret-token")
    with served_leyden(*FROZEN, "--admin-token", "secret-token") as client:
        url = f"{client.url}/sandbox/v1/server/openapi.json"
        finds_no_failures(url, folder, *token, "--seed", "1", limit=("--max-examples", "3"))


@deep("test_the_default_command_finds_no_failures")
def test_the_default_command_reaches_every_state_of_the_merged_document(folder: Path) -> None:
    """Paid, expired, failed, sold out, and their callbacks are reached by links alone. Schemathesis also
    draws random numbers outside its seed, so the test may continue with further seeds."""
    missing: set[Any] = set()
    with served_leyden(*FROZEN) as client:
        for seed in range(1, 31):
            limit = ("--max-examples", "8", "--phases", "examples,stateful")
            url = f"{client.url}/sandbox/v1/merged.json"
            finds_no_failures(url, folder, *ENDLESS, "--seed", str(seed), limit=limit)
            reached = {state for state, count in client.ok("GET", "/sandbox/v1")["charges"].items() if count}
            reached |= {one["status"] for one in client.ok("GET", "/v0/static-charges?limit=1000")["data"]}
            sent = listed(client.ok, "/sandbox/v1/deliveries")
            reached |= {one["event"] for one in sent if one["status"] == "delivered"}
            missing = {"completed", "expired", "error", "disabled"} - reached
            missing |= {"charge.completed", "charge.expired", "charge.error"} - reached
            if not missing:
                return
    pytest.fail(f"never reached: {missing}")
