"""Client generators, linters and a mock server on the served documents: `python -m tests.project.generators`.

Runs each tool on `/openapi.json` and on `/sandbox/v1/merged.json` and prints one line for each: the tool with its
version, the document, and `ok` or the number of problems. An error and a warning are both a problem; the tool's output
follows. The generated clients are compiled. Returns 1 if there is a problem.

Needs `npm` (Node.js 20 or newer) and package registries. The tools are installed in `build/generators`, and stay there;
`--folder DIR` chooses another place, `--only TOOL` (repeatable) some of the tools.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from leyden import Sandbox
from leyden.world.loopback import send_request

ROOT = Path(__file__).parents[2]
DOCUMENTS = {"openapi": "/openapi.json", "merged": "/sandbox/v1/merged.json"}
# openapi-typescript and openapi-ts use TypeScript's own library, and need its version 5.
TYPESCRIPT = "typescript@5"
TIME_LIMIT_S = 300
# The project states no licence, and a document must not invent one.
REDOCLY_SKIPPED = "info-license"
OPTIONS = {
    "NO_COLOR": "1",
    "NO_UPDATE_NOTIFIER": "1",
    "REDOCLY_TELEMETRY": "off",
    "REDOCLY_SUPPRESS_UPDATE_NOTICE": "1",
}


@dataclass(frozen=True, slots=True)
class Workplace:
    """The folder with the installed tools, the documents and what is generated from them."""

    folder: Path

    def document(self, name: str) -> str:
        return f"./{name}.json"  # a relative path must begin with a point: hey-api takes others for names of projects

    def run(self, *command: str) -> tuple[bool, str]:
        """Run a program of the folder; whether it succeeded, and what it printed."""
        search = os.pathsep.join(
            [str(self.folder / "venv" / "bin"), str(self.folder / "node_modules" / ".bin"), os.environ["PATH"]]
        )
        done = subprocess.run(
            command,
            cwd=self.folder,
            env={**os.environ, **OPTIONS, "PATH": search},
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT_S,
        )
        return done.returncode == 0, done.stdout + done.stderr

    def output(self, name: str) -> str:
        """A path for generated files; what was there is removed."""
        path = self.folder / "generated" / name
        shutil.rmtree(path, ignore_errors=True)
        path.parent.mkdir(exist_ok=True)
        return f"./generated/{name}"


# Each returns the problems: nothing, or what the tool printed.


def python_client(work: Workplace, name: str) -> str:
    package = work.output(f"python_{name}")
    generate = ("--path", work.document(name), "--output-path", package, "--meta", "none", "--overwrite")
    passed, output = work.run("openapi-python-client", "generate", *generate, "--fail-on-warning")
    if not passed:
        return output
    passed, output = work.run("python", "-c", f"import generated.python_{name}.models, generated.python_{name}.client")
    return "" if passed else output


def openapi_typescript(work: Workplace, name: str) -> str:
    types = work.output(f"{name}.d.ts")
    passed, output = work.run("openapi-typescript", work.document(name), "--default-non-nullable=false", "-o", types)
    if not passed or "warn" in output.lower():
        return output
    return _compiled(work, types)


def hey_api(work: Workplace, name: str) -> str:
    client = work.output(f"hey_{name}")
    passed, output = work.run("openapi-ts", "-i", work.document(name), "-o", client)
    if not passed or "warn" in output.lower():
        return output
    return _compiled(work, f"{client}/index.ts")


def _compiled(work: Workplace, file: str) -> str:
    modern = ("--target", "es2022", "--module", "esnext", "--moduleResolution", "bundler", "--lib", "es2022,dom")
    passed, output = work.run("tsc", "--noEmit", "--strict", *modern, file)
    return "" if passed else output


def redocly(work: Workplace, name: str) -> str:
    _, output = work.run("redocly", "lint", work.document(name), "--skip-rule", REDOCLY_SKIPPED, "--format", "json")
    found = re.search(r"^\{.*^\}", output, re.MULTILINE | re.DOTALL)
    if found is None:
        return output
    problems = json.loads(found[0])["problems"]
    return "\n".join(f"{one['ruleId']} {one['location'][0].get('pointer')}: {one['message']}" for one in problems)


def spectral(work: Workplace, name: str) -> str:
    rules = work.folder / "spectral.yaml"
    rules.write_text('extends: ["spectral:oas"]\n')
    command = ("spectral", "lint", work.document(name), "--ruleset", rules.name, "--fail-severity", "hint")
    passed, output = work.run(*command)
    return "" if passed else output


def prism(work: Workplace, name: str) -> str:
    """Starts the mock server; each document's example of a new Charge must be accepted and answered."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = work.folder / "prism.log"
    program = str(work.folder / "node_modules" / ".bin" / "prism")
    with log.open("w") as written:
        server = subprocess.Popen(
            [program, "mock", work.document(name), "--port", str(port), "--errors"],
            cwd=work.folder, env={**os.environ, **OPTIONS}, stdout=written, stderr=written,
        )  # fmt: skip
    try:
        url = f"http://127.0.0.1:{port}"
        while "is listening" not in log.read_text():
            if server.poll() is not None:
                return log.read_text()
            time.sleep(0.2)
        order = {"amount": "250000", "description": "Coffee"}
        for method, path, body in (("POST", "/v0/charges", order), ("GET", "/v0/charges", None)):
            status, answer = _ask(method, url + path, body)
            if status != 200:
                return f"{method} {path} is answered with {status}: {answer}"
        return ""
    finally:
        server.terminate()
        server.wait(TIME_LIMIT_S)


def _ask(method: str, url: str, body: object) -> tuple[int, str]:
    data = None if body is None else json.dumps(body).encode()
    headers = {"apikey": "leyden", "content-type": "application/json"}
    request = urllib.request.Request(url, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


# Tool -> the package that installs it, and its run.
TOOLS: dict[str, tuple[str, Callable[[Workplace, str], str]]] = {
    "openapi-python-client": ("openapi-python-client", python_client),
    "openapi-typescript": ("openapi-typescript", openapi_typescript),
    "hey-api": ("@hey-api/openapi-ts", hey_api),
    "redocly": ("@redocly/cli", redocly),
    "spectral": ("@stoplight/spectral-cli", spectral),
    "prism": ("@stoplight/prism-cli", prism),
}


def install(work: Workplace, tools: Sequence[str]) -> str:
    """Install what is missing. Returns nothing, or what the installation printed."""
    npm = [TOOLS[tool][0] for tool in tools if tool != "openapi-python-client"]
    missing = [name for name in npm if not (work.folder / "node_modules" / name).exists()]
    steps: list[tuple[str, ...]] = []
    if missing:
        steps += [("npm", "install", "--no-audit", "--no-fund", "--save-exact", TYPESCRIPT, *missing)]
    if "openapi-python-client" in tools and not (work.folder / "venv" / "bin" / "openapi-python-client").exists():
        steps += [(sys.executable, "-m", "venv", "venv")]
        steps += [("python", "-m", "pip", "install", "--quiet", "openapi-python-client", "ruff")]
    for step in steps:
        passed, output = work.run(*step)
        if not passed:
            return output
    return ""


def version(work: Workplace, tool: str) -> str:
    """The installed version."""
    package = TOOLS[tool][0]
    if tool == "openapi-python-client":
        read = f"from importlib.metadata import version; print(version({package!r}))"
        return work.run("python", "-c", read)[1].strip()
    manifest = json.loads((work.folder / "node_modules" / package / "package.json").read_text())
    return str(manifest["version"])


def write_documents(folder: Path) -> None:
    """Write the documents as a server sends them."""
    with Sandbox(seed=5) as sandbox:
        for name, path in DOCUMENTS.items():
            (folder / f"{name}.json").write_bytes(send_request(sandbox.app, "GET", path).body)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    summary = (__doc__ or "").splitlines()[0]
    parser = ArgumentParser(prog="python -m tests.project.generators", description=summary)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "generators", metavar="DIR")
    parser.add_argument(
        "--only", action="append", choices=list(TOOLS), metavar="TOOL", help=f"one of {', '.join(TOOLS)}"
    )
    options = parser.parse_args(arguments)
    tools = options.only or list(TOOLS)
    options.folder.mkdir(parents=True, exist_ok=True)
    work = Workplace(options.folder.resolve())
    write_documents(work.folder)
    if failure := install(work, tools):
        print(f"the tools could not be installed:\n{failure}", file=sys.stderr)
        return 1
    failed = False
    for tool in tools:
        for name, path in DOCUMENTS.items():
            problems = TOOLS[tool][1](work, name).strip()
            print(f"{tool} {version(work, tool)} {path}: {'PROBLEMS' if problems else 'ok'}", flush=True)
            if problems:
                failed = True
                print(problems, flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
