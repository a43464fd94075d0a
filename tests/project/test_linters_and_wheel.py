"""The linters and the type checker are part of the suite."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.core_environment import build_wheel
from tests.support.deep import deep_except

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "command",
    [["ruff", "check", "."], ["ruff", "format", "--check", "."]],
    ids=["ruff check", "ruff format"],
)
def test_ruff_has_nothing_to_say(command: list[str]) -> None:
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-2_000:]


@pytest.mark.parametrize("what", deep_except(["parts", "server", "everything"], "parts"))
def test_mypy_has_nothing_to_say(tmp_path: Path, what: str) -> None:
    """The type checker reads the package where it stands under its own name, which in a checkout is nowhere.

    `leyden.server` imports nothing else of the package, and four of its folders no large package: the default run reads
    only these. `tests.support` is checked with the whole. The other tests are not: `tests/README.md` says why.
    """
    package = tmp_path / "leyden"
    package.mkdir()
    around = [path for path in (ROOT / "sim").iterdir() if what == "everything" or path.name == "py.typed"]
    for path in (*around, ROOT / "server", ROOT / "specs"):
        if path.name != "__pycache__":
            (package / path.name).symlink_to(path)
    folders = ("callbacks", "charges", "contract", "store") if what == "parts" else ("",)
    packages = tuple(word for folder in folders for word in ("-p", f"leyden.server.{folder}".rstrip(".")))
    if what == "everything":
        (package / "notebooks").mkdir()
        (package / "notebooks" / "__init__.py").symlink_to(ROOT / "notebooks" / "__init__.py")
        (tmp_path / "tests").mkdir()
        for name in ("__init__.py", "support"):
            (tmp_path / "tests" / name).symlink_to(ROOT / "tests" / name)
        packages = ("-p", "leyden", "-p", "tests.support")
    else:
        (package / "__init__.py").touch()
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), *packages],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(tmp_path), "MYPY_CACHE_DIR": str(ROOT / ".mypy_cache" / what)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-2_000:]


def test_the_wheel_carries_the_package_and_nothing_else(tmp_path: Path) -> None:
    """All that is installed lies below `leyden/`: the specs, the pages and the notebooks among it."""
    with zipfile.ZipFile(build_wheel(tmp_path)) as wheel:
        packed = set(wheel.namelist())
    expected = {
        str(Path("leyden", into, path.relative_to(ROOT / folder)))
        for folder, into in (("sim", ""), ("server", "server"), ("specs", "specs"))
        for path in (ROOT / folder).rglob("*.*")
        if path.parent.name != "__pycache__"
    }
    expected |= {f"leyden/notebooks/{path.name}" for path in (ROOT / "notebooks").glob("*.*")}
    assert {name for name in packed if ".dist-info/" not in name} == expected
