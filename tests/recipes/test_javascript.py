"""The recipe for JavaScript: with each runner four workers at once have a sandbox each, and nothing leaks."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.deep import deep, deep_except
from tests.support.served import ROOT, Client, served_leyden

RECIPE = ROOT / "tests" / "recipes" / "javascript"
README = (ROOT / "tests" / "recipes" / "README.md").read_text()
# Runner -> the first line of each test file, and the command.
RUNNERS = {
    name: (line, command) for name, line, command in re.findall(r"^\| (.+) \| `(.+)` \| `(.+)` \|$", README, re.M)
}
WORKERS = 4

# Each worker imports this: it waits until all are there, so the runner runs them at once.
BARRIER = """
import { readdirSync, writeFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";

writeFileSync(`FOLDER/${process.pid}`, "");
const end = Date.now() + 60_000;
while (readdirSync("FOLDER").length < WORKERS) {
  if (Date.now() > end) throw new Error("the workers do not run at once");
  await pause(10);
}
"""


def copied(packages: Path, folder: str, first_line: str) -> Path:
    """A copy of the recipe below the packages, whose test files are for another runner."""
    copy = packages / folder
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(RECIPE, copy)
    for file in copy.glob("*.test.js"):
        lines = file.read_text().splitlines()
        assert lines[0] == RUNNERS["Node.js"][0], "the README says what the first line of each test file is"
        file.write_text("\n".join([first_line, *lines[1:]]) + "\n")
    return copy


def run(command: str, folder: Path, client: Client, waiting: Path) -> subprocess.CompletedProcess[str]:
    """Run a shell command in the folder, with a barrier for its workers."""
    (folder / "barrier.js").write_text(BARRIER.replace("FOLDER", str(waiting)).replace("WORKERS", str(WORKERS)))
    module = folder / "leyden.js"
    module.write_text('import "./barrier.js";\n' + module.read_text())
    return subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env={**os.environ, "LEYDEN_URL": client.url},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_readme_names_three_runners() -> None:
    assert set(RUNNERS) == {"Node.js", "Vitest", "Jest"}
    assert all(str(WORKERS) in command for _, command in RUNNERS.values())


@pytest.mark.parametrize("runner", deep_except(["Node.js", "Vitest", "Jest"], "Node.js"))
def test_four_workers_have_a_sandbox_each(runner: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    first_line, command = RUNNERS[runner]
    packages: Path = request.getfixturevalue("packages" if runner == "Node.js" else "runners")
    folder = copied(packages, runner.lower().replace(".", ""), first_line)
    with served_leyden() as client:
        done = run(command, folder, client, tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        assert re.search(r"# pass 8|Tests:? .*8 passed", done.stdout + done.stderr), done.stdout + done.stderr
        assert len(list(tmp_path.iterdir())) == WORKERS
        assert client.ok("GET", "/sandbox/v1/sandboxes")["data"] == [], "each file deletes its sandbox"
        assert client.ok("GET", "/v0/charges")["data"] == [], "the sandbox of the server itself has no charge"


@deep("test_four_workers_have_a_sandbox_each")
def test_a_sandbox_that_the_workers_share_is_found(packages: Path, tmp_path: Path) -> None:
    folder = copied(packages, "shared", RUNNERS["Node.js"][0])
    module = folder / "leyden.js"
    with served_leyden("--rate", "0") as client:
        secret = client.ok("GET", "/sandbox/v1/webhook-secret")["secrets"][0]["secret"]
        shared = {"id": "none", "url": client.url, "serverUrl": client.url, "apiKey": "leyden", "webhookSecret": secret}
        text = module.read_text()
        made = re.search(r"await request\(\"POST\", SANDBOXES.*AUTHORIZATION\)", text)
        assert made is not None
        module.write_text(text.replace(made[0], repr(shared)))
        done = run(RUNNERS["Node.js"][1], folder, client, tmp_path)
    assert done.returncode != 0
    assert "not ok" in done.stdout
    assert "the sandbox has only the charges of this file" in done.stdout
