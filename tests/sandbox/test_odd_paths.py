"""A path of the Python API at which no file can be is refused with one line."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from leyden import Sandbox, grid, sweep
from leyden.errors import LeydenError
from leyden.lab.parquet.reader import read
from tests.support.paths import KINDS, as_a_user, odd_path


def _sweep(sandbox: Sandbox, path: str) -> object:
    return sweep(lambda s: {"y": s.x}, grid(x=[1]), store=path, progress=False, workers=1)


CALLS: dict[str, tuple[str, Callable[[Sandbox, str], object]]] = {
    "data": ("", lambda sandbox, path: Sandbox(data=path)),
    "spec": (".yaml", lambda sandbox, path: Sandbox(spec=path)),
    "overlays": (".yaml", lambda sandbox, path: Sandbox(overlays=[path])),
    "network": (".json", lambda sandbox, path: Sandbox(network=path)),
    "save": (".json", lambda sandbox, path: sandbox.save(path)),
    "load": (".json", lambda sandbox, path: Sandbox.load(path)),
    "notebook": (".ipynb", lambda sandbox, path: sandbox.notebook(path)),
    "drawing": (".svg", lambda sandbox, path: sandbox.charges[0].lifecycle().save(path)),
    "spill": ("", lambda sandbox, path: sandbox.run("1s", spill=path)),
    "read": ("", lambda sandbox, path: read(path)),
    "sweep": (".jsonl", _sweep),
}


@pytest.mark.parametrize("kind", [*KINDS, "null byte"])
@pytest.mark.parametrize("call", CALLS)
def test_a_place_that_no_file_can_have_is_refused_in_one_line(call: str, kind: str, tmp_path: Path) -> None:
    suffix, use = CALLS[call]
    path = f"{tmp_path}/a\0b{suffix}" if kind == "null byte" else odd_path(kind, tmp_path, suffix)
    with Sandbox(seed=1) as sandbox:
        sandbox.charges.create(amount="1000", description="x")
        with as_a_user() if kind == "no permission" else nullcontext(), pytest.raises(LeydenError) as refused:
            use(sandbox, path)
    text = str(refused.value)
    assert len(text.splitlines()) == 1
    assert "Traceback" not in text
