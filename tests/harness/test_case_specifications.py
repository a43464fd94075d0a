"""A case carries its specification, and a replay says only what it shows."""

from __future__ import annotations

import contextlib
import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
import pytest

from leyden.__main__ import main
from leyden.harness.reports.exports import EXPORTS, ExportError, as_curl, as_notebook, as_pytest, as_spec
from leyden.harness.runs.cases import Case, CaseError, play, read_case, replay, with_result
from leyden.harness.runs.specification import document_hash, patch_to, patched, spec_hash
from leyden.harness.targets.served import ExternalService
from leyden.harness.targets.target import InProcess
from leyden.server.contract.load import default_spec, load_contract
from leyden.world.config import packaged_contract
from tests.support.deep import deep
from tests.support.served import run_shell, served_leyden

CHANGED = load_contract(overlays=["payable-at-expiry"])
STEPS: Any = (
    {"do": "create_charge", "as": "c1", "body": {"amount": "1000", "description": "tea", "expiresIn": 60}},
    {"do": "pay", "as": "p1", "charge": "c1", "delay": 60_000},
    {"do": "advance", "by": 60_000},
)


def real_journal(target: InProcess, case: Case) -> str:
    """The hash of the journal of the sandbox that does the steps of the case without the checks."""
    requests = play(case, target).requests
    target.begin(case.seed, case.start_ms, case.overlays)
    for request in requests:
        target.send(*request)
    found = target.sandbox.journal_hash
    target.end()
    return found


@pytest.fixture(scope="module")
def found() -> Case:
    """A case of a sandbox whose specification is changed."""
    target = InProcess(CHANGED)
    result = play(Case(STEPS), target)
    assert result.violation is not None
    return read_case(json.loads(with_result(Case(STEPS), result, target).dumps()))


def test_the_journal_of_a_case_is_that_of_the_run_with_the_violation(found: Case) -> None:
    assert found.journal_hash == real_journal(InProcess(CHANGED), found)
    again = replay(found, InProcess(CHANGED))
    assert (again.same_violation, again.same_journal) == (True, True)
    fixed = replay(found, InProcess())
    assert (fixed.same_violation, fixed.same_journal) == (False, False)
    assert fixed.journal_hash == real_journal(InProcess(), found)


def test_hashes_of_two_specifications_are_shown_so_that_they_differ() -> None:
    here = spec_hash(())
    changed = [here[:at] + ("0" if here[at] != "0" else "1") + here[at + 1 :] for at in (0, 8, 63)]
    for other in (*changed, f"{here}0", here[:9]):
        with pytest.raises(CaseError) as refused:
            Case(STEPS, spec_hash=other).contract()
        [of_case, of_leyden] = re.findall(r"(?:specHash|Leyden's is) ([^,)]+)", str(refused.value))
        assert of_case != of_leyden == here


def test_a_case_is_replayed_with_its_own_specification(found: Case) -> None:
    assert document_hash(CHANGED.document) == found.spec_hash != spec_hash(())
    again = replay(found)
    assert (again.same_violation, again.same_journal) == (True, True)


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document["info"].update(title="x"),
        lambda document: document["info"].pop("description"),
        lambda document: document.update({"x-a/b~c": [None, {"d": 1}]}),
        lambda document: document["tags"].append({"name": "more"}),
        lambda document: document["tags"][0].update(name=None),
        lambda document: document["components"].update(schemas={}),
        lambda document: None,
    ],
)
def test_a_patch_leads_to_the_document(change: Any) -> None:
    base = packaged_contract("charges").document
    document = json.loads(json.dumps(base))
    change(document)
    patch = patch_to(document, ())
    assert patched(base, json.loads(json.dumps(patch))) == document
    assert packaged_contract("charges").document is base


def _written(case: Case, folder: Path, **members: Any) -> str:
    path = folder / "a.case.json"
    path.write_text(json.dumps({**case.document(), **members}))
    return str(path)


def test_a_case_of_another_specification_is_refused_with_the_mend(
    found: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _written(found, tmp_path, specHash="0" * 64)
    assert main(["replay", path]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert path in line
    assert "another specification" in line
    assert "--spec FILE" in line
    with pytest.raises(CaseError, match="another specification"):
        replay(read_case(path))
    spec = tmp_path / "spec.json"
    spec.write_text(as_spec(found))
    assert main(["replay", path, "--spec", str(spec)]) == 1
    output = capsys.readouterr()
    assert "another specification" in output.err
    assert "journal" in output.out
    assert "the same" in output.out


@pytest.mark.parametrize(
    "patch",
    [
        [{"op": "remove", "path": "/nothing"}],
        [{"op": "replace", "path": "", "value": 1}],
        [{"op": "add", "path": "/tags/x", "value": 1}],
        [{"op": "add", "path": "/info/title/x", "value": 1}],
        [{"op": "remove", "path": "/paths"}],
    ],
)
def test_a_patch_that_does_not_fit_is_refused_in_one_line(
    patch: Any, found: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _written(found, tmp_path, specPatch=patch)
    for words in ([], ["--export", "notebook"], ["--export", "spec"]):
        assert main(["replay", path, *words]) == 2
        [line] = capsys.readouterr().err.splitlines()
        assert path in line
        assert "specPatch" in line


def test_the_corrected_specification_proves_the_fix(
    found: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _written(found, tmp_path)
    assert main(["replay", path]) == 1
    assert f"journal {found.journal_hash}: the same" in capsys.readouterr().out
    for spec in ("packaged", str(default_spec())):
        assert main(["replay", path, "--spec", spec]) == 0
        output = capsys.readouterr()
        assert "does not occur any more" in output.out
        assert f"differs, the case has {found.journal_hash}" in output.out
        assert "another specification" in output.err


def test_the_exports_have_the_specification(found: Case) -> None:
    space: dict[str, Any] = {}
    exec(compile(as_pytest(found), "test_case.py", "exec"), space)
    with pytest.raises(AssertionError, match="Contract violation"):
        space["test_there_is_no_violation"]()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for cell in nbformat.reads(as_notebook(found), as_version=4).cells:
            if cell.cell_type == "code":
                exec(cell.source, space)
    assert '"status":"completed"' in printed.getvalue().splitlines()[-1]


def test_what_was_not_reproduced_in_process_is_not_exported_and_not_called_mended(
    found: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = with_result(Case(STEPS), play(Case(STEPS)))
    for where in ("", "served", "another implementation"):
        case = replace(plain, expectation=found.expectation, journal_hash=None, found_on=where)
        for export in EXPORTS.values():
            with pytest.raises(ExportError, match="leyden replay CASE URL"):
                export(case)
        assert main(["replay", _written(case, tmp_path)]) == 0
        output = capsys.readouterr().out
        assert "any more" not in output
        assert "says nothing about that service" in output
    assert main(["replay", _written(replace(case, steps=(), found_on=""), tmp_path)]) == 2
    assert "no steps" in capsys.readouterr().err


def test_a_case_of_another_implementation_claims_no_journal() -> None:
    target = ExternalService("http://127.0.0.1:1", "leyden")
    case = with_result(Case(STEPS), play(Case(STEPS)), target)
    assert (case.found_on, case.journal_hash, case.spec_patch) == ("another implementation", None, ())
    assert replay(case).same_journal is None


@pytest.fixture(scope="module")
def served_findings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """The cases that `leyden fuzz URL --cases` writes for a served specification with a change, and its address."""
    folder = tmp_path_factory.mktemp("served")
    text = default_spec().read_text().replace("when: before_expiry", "when: at_or_before_expiry")
    (folder / "spec.yaml").write_text(text)
    with served_leyden("--rate", "0", "--spec", str(folder / "spec.yaml")) as client:
        words = ["fuzz", client.url, "--engines", "conformance", "--cases", str(folder / "cases")]
        assert main(words) == 1
        yield folder / "cases", client.url


@deep("test_a_case_of_another_specification_is_refused_with_the_mend")
def test_a_case_of_a_served_specification_is_replayed_anywhere(
    served_findings: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, url = served_findings
    path = folder / "01-lifecycle.case.json"
    case = read_case(path)
    assert case.found_on == "served"
    assert case.spec_hash != spec_hash(())
    assert main(["replay", str(path)]) == 1
    output = capsys.readouterr().out
    assert "Contract violation" in output
    assert f"journal {case.journal_hash}: the same" in output
    assert main(["replay", str(path), url]) == 1
    assert "Contract violation" in capsys.readouterr().out
    assert main(["replay", str(path), "--spec", "packaged"]) == 0
    with served_leyden("--rate", "0") as client:
        capsys.readouterr()
        assert main(["replay", str(path), client.url]) == 0
        output = capsys.readouterr()
        assert f"does not occur at {client.url}" in output.out
        assert "another specification" in output.err


@deep("test_a_case_of_another_specification_is_refused_with_the_mend")
def test_the_pytest_file_of_a_served_case_passes_when_the_defect_is_fixed(served_findings: tuple[Path, str]) -> None:
    folder, _ = served_findings
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder)]
    words.append(str(folder / "test_01_lifecycle.py"))
    run: Any = {"cwd": Path(__file__).parents[2], "capture_output": True, "text": True, "timeout": 120, "check": False}
    assert "1 failed" in subprocess.run(words, **run).stdout
    case = read_case(folder / "01-lifecycle.case.json")
    space: dict[str, Any] = {}
    fixed = replace(case, spec_patch=(), spec_hash="")
    exec(compile(as_pytest(fixed), "test_case.py", "exec"), space)
    space["test_there_is_no_violation"]()


@deep("test_a_case_of_another_specification_is_refused_with_the_mend")
def test_the_script_of_a_served_case_shows_the_violation_when_its_header_is_followed(
    served_findings: tuple[Path, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = served_findings
    path = folder / "01-lifecycle.case.json"
    script = as_curl(read_case(path))
    [export] = re.findall(r"#   leyden (replay .* --export spec) > case.openapi.json", script)
    assert main(export.split()) == 0
    (tmp_path / "case.openapi.json").write_text(capsys.readouterr().out)
    [options] = re.findall(r"#   leyden serve --port 8402 (.*)", script)
    words = options.replace("case.openapi.json", str(tmp_path / "case.openapi.json")).split()
    with served_leyden(*words) as client:
        lines = run_shell(script, client.url)
    assert '"status":"completed"' in lines[-1]
