"""Notebooks of a sandbox, which run and create it again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest

from leyden import Sandbox
from leyden.errors import ActionLogError
from leyden.lab.packaged_notebooks import execute
from tests.support.deep import deep

START = "2030-01-01T09:00Z"


def troubled() -> Sandbox:
    """A shop with failures: a payment after the expiry, an undelivered callback, a code with one slot."""
    sb = Sandbox(seed=7, start=START)
    sb.receiver("shop").always(500)
    late = sb.charges.create(
        amount="250000", description="Late", expiresIn=60, callbackUrl="http://shop.localhost/paid"
    )
    sb.wallet("bob").pay(late, delay="61s")
    code = sb.static_charges.create(minAmount="1000", maxAmount="5000", description="Tips", allowedSlots=1)
    sb.wallet("ana").scan(code, amount=2000)
    sb.run("5m")
    return sb


def code_of(path: Path) -> list[str]:
    return [cell["source"] for cell in nbformat.read(path, as_version=4)["cells"] if cell["cell_type"] == "code"]


@deep("test_an_empty_world_is_exported_too")
def test_a_world_is_exported_and_its_notebook_runs(tmp_path: Path) -> None:
    sandbox = troubled()
    path = sandbox.notebook(tmp_path / "case.ipynb")
    node: Any = nbformat.read(path, as_version=4)
    nbformat.validate(node)
    done = execute(node)
    text = json.dumps(done["cells"])
    assert "the same sandbox, with the same journal" in text
    assert text.count("image/svg+xml") >= 6
    assert "INCORRECT_PAYMENT_DETAILS" in text


def test_equal_worlds_give_equal_files(tmp_path: Path) -> None:
    one, other = troubled().notebook(tmp_path / "one.ipynb"), troubled().notebook(tmp_path / "other.ipynb")
    assert one.read_bytes() == other.read_bytes()


def test_exporting_changes_nothing(tmp_path: Path) -> None:
    sandbox = troubled()
    before = sandbox.journal_hash, sandbox.now, sandbox.script()
    sandbox.notebook(tmp_path / "case.ipynb")
    assert (sandbox.journal_hash, sandbox.now, sandbox.script()) == before


def test_failures_are_shown_first(tmp_path: Path) -> None:
    sandbox = Sandbox(seed=7, start=START)
    good = [sandbox.charges.create(amount="1000", description=f"Tea {n}") for n in range(5)]
    for charge in good:
        sandbox.wallet("ana").pay(charge)
    bad = sandbox.charges.create(amount="1000", description="Cake")
    sandbox.wallet("bob").pay(bad, outcome="underpay")
    sandbox.run()
    pictures = [source for source in code_of(sandbox.notebook(tmp_path / "x.ipynb")) if "timeline" in source]
    assert f'sb.charges["{bad.id}"]' in pictures[0]
    assert len(pictures) == 3


def test_an_empty_world_is_exported_too(tmp_path: Path) -> None:
    sources = code_of(Sandbox(seed=7, start=START).notebook(tmp_path / "x.ipynb"))
    for source in sources:
        compile(source, "cell", "exec")
    assert not [source for source in sources if "timeline" in source]


def test_the_notebook_of_a_network_shows_the_routes(tmp_path: Path) -> None:
    sandbox = Sandbox(seed=7, start=START, network="line:4")
    sandbox.wallet("bob").pay(sandbox.charges.create(amount="1000", description="Tea"))
    sandbox.run("1m")
    sources = code_of(sandbox.notebook(tmp_path / "x.ipynb"))
    assert [source for source in sources if "sb.attempts" in source]
    namespace: dict[str, Any] = {}
    for source in sources:
        exec(compile(source, "cell", "exec"), namespace)


def test_text_from_a_customer_stays_text(tmp_path: Path) -> None:
    hostile = '```\n# Hello <script>alert(1)</script> [x](javascript:1) \u202e\x00 """ \' {} $x$'
    sandbox = Sandbox(seed=7, start=START)
    charge = sandbox.charges.create(amount="1000", description=hostile, internalId='"""\n')
    sandbox.wallet(hostile).pay(charge)
    sandbox.run()
    path = sandbox.notebook(tmp_path / "x.ipynb")
    cells = nbformat.read(path, as_version=4)["cells"]
    for cell in cells:
        if cell["cell_type"] == "markdown":
            loose = [line for line in cell["source"].splitlines() if not line.startswith("    ")]
            assert "script" not in "".join(loose)
    namespace: dict[str, Any] = {}
    for source in code_of(path):
        exec(compile(source, "cell", "exec"), namespace)
    assert namespace["sb"].charges[charge.id].data["description"] == hostile


def test_the_notebook_of_a_fork_starts_at_its_creation(tmp_path: Path) -> None:
    fork = troubled().fork("what if", reseed=3)
    fork.advance("1h")
    namespace: dict[str, Any] = {}
    for source in code_of(fork.notebook(tmp_path / "x.ipynb")):
        exec(compile(source, "cell", "exec"), namespace)
    assert namespace["sb"].label == "what if"


def test_a_sandbox_without_an_action_log_is_refused(tmp_path: Path) -> None:
    with Sandbox(seed=7, data=tmp_path / "data") as sandbox:
        sandbox.charges.create(amount="1000", description="Tea")
    with Sandbox(data=tmp_path / "data") as again, pytest.raises(ActionLogError, match="save"):
        again.notebook(tmp_path / "x.ipynb")
    assert not (tmp_path / "x.ipynb").exists()
