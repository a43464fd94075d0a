"""Files of an earlier version can be opened: data directories, saved sandboxes and cases of format 1.

`vectors/format-1.zip` was written by the last version of that format: a sandbox with direct payments and one with a
network, each in a directory and in a saved file, and every case of the conformance run.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from leyden import Sandbox
from leyden.files.json_files import VersionWarning
from leyden.harness.runs.cases import play, read_case
from leyden.harness.targets.target import InProcess
from tests.support.deep import deep_or

ARCHIVE = Path(__file__).parents[1] / "vectors" / "format-1.zip"
NETWORKS = {"direct": "direct", "network": "scale-free:40"}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked archive."""
    folder = tmp_path_factory.mktemp("format-1")
    with zipfile.ZipFile(ARCHIVE) as archive:
        archive.extractall(folder)
    return folder


def facts(written: Path, name: str) -> dict[str, object]:
    return json.loads((written / "facts.json").read_text())[name]  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", NETWORKS)
def test_a_directory_of_format_1_is_opened_and_continues(written: Path, name: str) -> None:
    with Sandbox(data=str(written / name), network=NETWORKS[name]) as sb:
        assert sb.now == facts(written, name)["now"]
        sb.advance("2d")
        assert {charge.id: charge.status for charge in sb.charges} == facts(written, name)["reopened_after_two_days"]


@pytest.mark.parametrize("name", NETWORKS)
def test_a_saved_sandbox_of_format_1_is_loaded_and_continues(written: Path, name: str) -> None:
    with Sandbox.load(written / f"{name}.json") as sb:
        assert sb.now == facts(written, name)["now"]
        sb.advance("2d")
        assert {charge.id: charge.status for charge in sb.charges} == facts(written, name)["saved_after_two_days"]


def test_every_case_of_format_1_is_replayed_without_a_violation(written: Path) -> None:
    with pytest.warns(VersionWarning, match="an earlier Leyden"):
        cases = [read_case(path) for path in sorted((written / "cases").iterdir())]
    assert len(cases) > 50
    target = InProcess()
    for case in cases[:: deep_or(bounded=5, full=1)]:
        result = play(case, target)
        assert result.violation is None, case.name
        assert result.done > 0, case.name
