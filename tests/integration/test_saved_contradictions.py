"""A directory with a changed row, and right checksums: it is saved to a file that loads, or the row is named."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from leyden import Sandbox
from leyden.__main__ import main
from leyden.errors import ApiError, ForkError, LeydenError, StoreError
from leyden.server.store.store import Store
from tests.integration.test_rewritten_journals import Bodies, last_change, last_row, rewritten
from tests.support import exercise
from tests.support.deep import deep_or
from tests.world.test_relations import _another, _leaves


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a Charge that was paid."""
    folder = tmp_path_factory.mktemp("written")
    with Sandbox(seed=1, data=folder) as sandbox:
        sandbox.wallet("ana").pay(sandbox.charges.create(amount="1000", description="x"))
        sandbox.run("1s")
    return folder


CHANGES: dict[str, tuple[str, Callable[[Bodies], object]]] = {
    "payment secret": ("invoices", lambda all: last_row(all, "invoices", "").update(payment_secret="00" * 32)),
    "part": ("invoices", lambda all: last_row(all, "invoices", "")["parts"][0].update(id="nobody")),
    "received": ("charges", lambda all: last_row(all, "charges", "").update(received_msat=999)),
    "funds": ("node", lambda all: last_row(all, "node", "").update(received_msat=999)),
    "attempt": ("invoices", lambda all: last_row(all, "payments", "")["attempts"][0].update(amount_msat=999)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_sandbox_whose_file_could_not_be_loaded_is_not_saved(change: str, written: Path, tmp_path: Path) -> None:
    table, edit = CHANGES[change]
    folder, file = rewritten(written, tmp_path / "data", edit), tmp_path / "saved.json"
    file.write_text("a former file")
    with Sandbox(data=folder) as sandbox:
        [note] = [each for each in sandbox.world.notes if "was changed" in each]
        row = note.partition("charges.journal, line ")[2].partition(": ")[2].partition(":")[0]
        assert f"table {table}, row 1" in row
        sandbox.charges.create(amount="2000", description="it works on")
        assert sandbox.ask("POST", "/sandbox/v1/snapshots", {})["id"] == "snapshot-1"
        for copy in (sandbox, sandbox.fork()):
            with pytest.raises(ForkError, match="is not saved, because its file could not be loaded") as refused:
                copy.save(file)
            assert row in str(refused.value)
            with pytest.raises(ApiError) as conflict:
                copy.ask("GET", "/sandbox/v1/export")
            assert conflict.value.status == 409
            assert row in str(conflict.value)
        sandbox.ask("POST", "/sandbox/v1/restore", {"snapshot": "snapshot-1"})
        with pytest.raises(ForkError, match="is not saved"):
            sandbox.save(file)
    assert file.read_text() == "a former file"
    with Sandbox(data=folder) as again:
        assert len(again.charges) == 2
        again.ask("POST", "/sandbox/v1/reset", {})  # the changed row is gone
        Sandbox.load(again.save(file)).close()


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # the end of a process closes a connection
def test_a_served_copy_of_such_a_sandbox_is_not_exported(
    written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = rewritten(written, tmp_path / "data", CHANGES["received"][1])
    with Sandbox(data=folder) as sandbox:
        url = sandbox.serve()
        assert main(["sandbox", "fork", "--url", url, "--api-key", sandbox.api_key, "--json"]) == 0
        copy = json.loads(capsys.readouterr().out)
        file = tmp_path / "saved.json"
        for place, key in ((url, sandbox.api_key), (copy["url"], copy["apiKey"])):
            assert main(["sandbox", "export", str(file), "--url", place, "--api-key", key]) == 1
            text = capsys.readouterr().err
            assert len(text.splitlines()) == 1
            assert "the table charges, row 1" in text
        assert not file.exists()


def test_a_number_that_no_world_gives_a_row_is_refused(written: Path, tmp_path: Path) -> None:
    def change(bodies: Bodies) -> None:
        doc_id, row = last_change(bodies, "wallets", "")
        bodies.append({"wallets": [[doc_id], [2**53 - 1, row]]})

    with pytest.raises(
        StoreError, match=r"line [0-9]+: the table wallets, row 9007199254740991 .* its number is above"
    ):
        Sandbox(data=rewritten(written, tmp_path / "data", change))


@pytest.mark.parametrize("network", ["direct", "line:4"])
def test_what_is_opened_with_one_changed_value_is_saved_to_a_file_that_loads_or_named(
    network: str, tmp_path: Path
) -> None:
    exercise.rich_sandbox(network, tmp_path / "written").close()
    with Store.open(tmp_path / "written") as store:
        tables = {name: deepcopy(dict(data.rows)) for name, data in store.tables.items()}
    kinds: dict[tuple[str, ...], list[tuple[str, int, tuple[Any, ...]]]] = {}
    for name, rows in tables.items():
        for doc_id, row in rows.items():
            for place in _leaves(row):
                kind = (name, *(step for step in place if isinstance(step, str)))
                kinds.setdefault(kind, []).append((name, doc_id, place))
    rng = random.Random(5)
    loaded = refused = named = 0
    for _ in range(deep_or(bounded=60, full=1_500)):
        of = [kind for kind in kinds if kind[0] in ("charges", "invoices", "payments")] if rng.random() < 0.5 else kinds
        name, doc_id, place = rng.choice(kinds[rng.choice([*of])])
        row = deepcopy(tables[name][doc_id])
        number = doc_id
        if not place or rng.random() < 0.08:
            number = rng.choice([2**53 - 1, 2**52 - 1, 10**6])
        else:
            container: Any = row
            for step in place[:-1]:
                container = container[step]
            other = _another(container[place[-1]])
            container[place[-1]] = rng.choice([other, other, None, 0, 2**53 - 1, "nobody", "00" * 32, "", True])
        changes = [[number, row]] if number == doc_id else [[doc_id], [number, row]]
        folder = rewritten(
            tmp_path / "written",
            tmp_path / "data",
            lambda bodies: bodies.append({name: changes}),  # noqa: B023
        )
        try:
            sandbox = Sandbox(data=folder)
        except LeydenError:
            continue
        with sandbox:
            try:
                file = sandbox.save(tmp_path / "saved.json")
            except ForkError as error:
                why, noted = str(error), [note for note in sandbox.world.notes if "was changed" in note]
                named += "the table " in why and noted != []
                refused += 1
                continue
        Sandbox.load(file).close()
        loaded += 1
    assert loaded > 5
    assert named == refused > 0
