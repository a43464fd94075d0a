"""The linters and the type checker are part of the suite: what they refuse is not finished."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    "command",
    [["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"]],
    ids=["ruff check", "ruff format", "mypy --strict"],
)
def test_the_tools_have_nothing_to_say(command: list[str]) -> None:
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-2_000:]


def test_the_wheel_carries_the_specs_the_pages_and_the_notebooks(tmp_path: Path) -> None:
    script = f"from hatchling.build import build_wheel; print(build_wheel({str(tmp_path)!r}))"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    with zipfile.ZipFile(tmp_path / done.stdout.split()[-1]) as wheel:
        packed = set(wheel.namelist())
    written = (path for path in (ROOT / "specs").rglob("*.*") if path.parent.name != "__pycache__")
    expected = {str(path.relative_to(ROOT)) for path in written}
    expected |= {f"sim/desk/notebooks/{path.name}" for path in (ROOT / "notebooks").glob("*.ipynb")}
    expected |= {f"sim/desk/console.{kind}" for kind in ("html", "css", "js")}
    assert expected | {"server/docs.css", "sim/__main__.py"} <= packed
    assert not {name for name in packed if name.startswith(("tests/", "notebooks/")) or "__pycache__" in name}
