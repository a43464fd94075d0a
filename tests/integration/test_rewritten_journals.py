"""Data directories whose journal was rewritten with right checksums: they are opened, or refused with `StoreError`."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from leyden import Sandbox
from leyden.server.errors import StoreError
from leyden.server.store.journal import encode_line
from tests.support.mutations import HOSTILE, places, refusal
from tests.support.store_helpers import END, JOURNAL

Bodies = list[dict[str, Any]]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a payment, a callback and timers."""
    folder = tmp_path_factory.mktemp("written")
    with Sandbox(seed=3, data=folder) as sandbox:
        charge = sandbox.charges.create(amount="250000", description="x", callbackUrl="http://shop.localhost/a")
        sandbox.receiver("shop").answers([500, "timeout", 200])
        sandbox.wallet("ana").pay(charge, delay="3s")
        sandbox.advance("10s")
    return folder


def rewritten(written: Path, folder: Path, change: Callable[[Bodies], object]) -> Path:
    """A copy of a directory with other commits in its journal."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(written, folder)
    (folder / END).unlink()
    bodies: Bodies = [json.loads(line)[1] for line in (folder / JOURNAL).read_bytes().splitlines()]
    change(bodies)
    lines, chain = [], 0
    for body in bodies:
        line, chain = encode_line(json.dumps(body).encode(), chain)
        lines.append(line)
    (folder / JOURNAL).write_bytes(b"".join(lines))
    return folder


def last_row(bodies: Bodies, table: str, row_id: str) -> dict[str, Any]:
    rows = [change[1] for body in bodies[1:] for change in body.get(table) or () if len(change) == 2]
    return next(row for row in reversed(rows) if row["id"].startswith(row_id))


@pytest.mark.parametrize(
    "change",
    [
        lambda bodies: last_row(bodies, "world", "config").update(start_ms="soon"),
        lambda bodies: last_row(bodies, "world", "config").pop("start_ms"),
        lambda bodies: last_row(bodies, "world", "config").update(seed=None),
        lambda bodies: last_row(bodies, "world", "state")["streams"].update(ids=-0.0),
        lambda bodies: last_row(bodies, "world", "state").update(now=[]),
        lambda bodies: last_row(bodies, "world", "state").update(time_base=[1]),
        lambda bodies: last_row(bodies, "world", "receiver_answer").update(sequence="x"),
        lambda bodies: last_row(bodies, "receivers", "shop").update(id=[[]]),
        lambda bodies: bodies[-1].update(receivers=[[9, last_row(bodies, "receivers", "shop")]]),
        lambda bodies: bodies[-1].update(receivers=[["1", {"id": "other"}]]),
        lambda bodies: bodies[-1].update(receivers=[[0, {"id": "other"}]]),
        lambda bodies: bodies[-1].update(receivers=[[True, {"id": "other"}]]),
        lambda bodies: bodies[-1].update(receivers=[[9, ["id", "other"]]]),
    ],
)
def test_a_row_that_no_world_writes_is_a_store_error(written, tmp_path, change):
    folder = rewritten(written, tmp_path / "data", change)
    with pytest.raises(StoreError):
        Sandbox(data=folder)


def test_a_changed_journal_is_opened_or_refused(written, tmp_path):
    rng = random.Random(4)
    opened = refused = 0

    def change(bodies: Bodies) -> None:
        # The rows about the world, and the places of all rows.
        found = [place for body in bodies[1:] for place in places(body.get("world") or [])]
        found += [(row, at) for body in bodies[1:] for rows in body.values() for row in rows for at in range(len(row))]
        container, key = rng.choice(found)
        match rng.randrange(3):
            case 0:
                del container[key]
            case 1 if isinstance(container[key], int):
                container[key] = rng.choice([-0.0, float(container[key]), -container[key], 10**18])
            case _:
                container[key] = deepcopy(rng.choice([one for one in HOSTILE if one != "\ud800"]))

    for _ in range(120):
        folder = rewritten(written, tmp_path / "data", change)
        sandboxes: list[Sandbox] = []
        if refusal(lambda: sandboxes.append(Sandbox(data=folder))) is None:  # noqa: B023
            opened += 1
        else:
            refused += 1
        for sandbox in sandboxes:
            refusal(lambda: sandbox.advance("10s"))  # noqa: B023
            sandbox.close()
    assert opened > 10
    assert refused > 10
