"""A case of another implementation is run again there: by the command, by a pytest file and by a notebook."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import nbformat
import pytest

from leyden.__main__ import main
from leyden.harness.checks.violations import ContractViolation
from leyden.harness.command import _write_cases
from leyden.harness.conformance.scenario import advance, charge, pay, to
from leyden.harness.reports.exports import ExportError, as_curl, as_notebook, as_pytest
from leyden.harness.reports.results import CampaignReport, FoundViolation
from leyden.harness.runs.cases import Case, play, read_case, with_result
from leyden.harness.steps import Step
from leyden.harness.targets.adapter import TargetError
from leyden.harness.targets.served import ExternalService, public_url, target_at
from tests.foreign_service.service import foreign_service
from tests.support.deep import deep
from tests.support.http_servers import handling
from tests.support.served import listening_receiver, served_leyden

BODY = {"amount": "1000", "description": "tea", "internalId": ""}
STEPS = ({"do": "create_charge", "as": "c1", "body": {"amount": "1000", "description": "tea"}},
         {"do": "get", "what": "c1"}, {"do": "create_charge", "as": "c2", "body": BODY})  # fmt: skip


@pytest.fixture(scope="module")
def strict() -> Iterator[str]:
    """A service with another interpretation of the specification, which stands for another implementation."""
    with served_leyden("--rate", "1", "--overlay", "strict", "--api-key", "key-1") as client:
        yield client.url


@pytest.fixture(scope="module")
def mended() -> Iterator[str]:
    with served_leyden("--rate", "1", "--api-key", "key-1") as client:
        yield client.url


@pytest.fixture
def found(strict: str, tmp_path: Path) -> Path:
    target = ExternalService(strict.replace("://", "://user:password@"), "key-1", adapter_name="none")
    case = with_result(Case(STEPS), play(Case(STEPS), target), target)
    path = tmp_path / "found.case.json"
    path.write_text(case.dumps())
    return path


def test_a_case_remembers_its_target_without_secrets(found: Path, strict: str) -> None:
    case = read_case(found)
    assert (case.target, case.adapter, case.found_on) == (strict, "none", "another implementation")
    assert "key-1" not in found.read_text()
    assert public_url("https://ana:secret@shop.example:8443/pay/?token=x#y") == "https://shop.example:8443/pay"


def test_the_command_runs_a_case_where_it_was_found(
    found: Path, mended: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", str(found), "--api-key", "key-1"]) == 1
    assert "Contract violation" in capsys.readouterr().out
    assert main(["replay", str(found), mended, "--api-key", "key-1"]) == 0
    shown = f"The violation does not occur at {mended}. It was found at {read_case(found).target}."
    assert shown in capsys.readouterr().out


def test_the_pytest_file_fails_as_long_as_the_target_has_the_violation(
    found: Path, mended: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEYDEN_API_KEY", "key-1")
    space: dict[str, Any] = {}
    exec(compile(as_pytest(read_case(found)), "test_case.py", "exec"), space)
    with pytest.raises(AssertionError, match="Contract violation"):
        space["test_there_is_no_violation"]()
    monkeypatch.setenv("LEYDEN_TARGET", mended)
    space["test_there_is_no_violation"]()


def test_the_notebook_fails_as_long_as_the_target_has_the_violation(
    found: Path, mended: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEYDEN_API_KEY", "key-1")
    book = nbformat.reads(as_notebook(read_case(found)), as_version=4)
    nbformat.validate(book)
    cells = [cell.source for cell in book.cells if cell.cell_type == "code"]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), pytest.raises(ContractViolation, match="expected 200, observed 400"):
        run_cells(cells)
    assert "POST /v0/charges" in printed.getvalue()
    monkeypatch.setenv("LEYDEN_TARGET", mended)
    with contextlib.redirect_stdout(io.StringIO()):
        run_cells(cells)


def run_cells(cells: list[str]) -> None:
    space: dict[str, Any] = {}
    for source in cells:
        exec(source, space)


def test_an_adapter_that_a_case_names_is_not_run_by_itself(
    found: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    adapter = tmp_path / "shop adapter.py"
    marker = os.fspath(tmp_path / "PWNED")
    adapter.write_text(f"import pathlib\npathlib.Path({marker!r}).touch()\nclass Adapter: pass")
    document = {**json.loads(found.read_text()), "adapter": os.fspath(adapter)}
    found.write_text(json.dumps(document))
    assert main(["replay", str(found), "--api-key", "key-1"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert f"--adapter '{adapter}'" in line
    assert not (tmp_path / "PWNED").exists()
    assert main(["replay", str(found), "--api-key", "key-1", "--adapter", os.fspath(adapter)]) == 1
    assert (tmp_path / "PWNED").exists()


@pytest.mark.parametrize("form", ["pytest", "curl", "notebook"])
def test_an_export_runs_the_adapter_that_a_case_names_only_where_an_option_names_it(
    form: str, found: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = os.fspath(tmp_path / "shop adapter.py")
    found.write_text(json.dumps({**json.loads(found.read_text()), "adapter": name}))
    words = ["replay", str(found), "--export", form]
    assert main(words) == 2
    printed, errors = capsys.readouterr()
    assert (printed, errors.count("\n")) == ("", 1)
    assert f"add --adapter '{name}', or --adapter none" in errors
    with pytest.raises(SystemExit, match="2"):  # as with a variable that is not set
        main([*words, "--adapter", ""])
    capsys.readouterr()
    assert main([*words, "--adapter", name]) == 0
    assert f"# This runs the adapter {name}, a program." in capsys.readouterr().out
    assert main([*words, "--adapter", "none"]) == 0
    assert name not in capsys.readouterr().out
    assert main([*words[:-1], "spec"]) == 0  # runs nothing


def test_the_command_of_a_found_case_has_its_adapter(
    strict: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    adapter = tmp_path / "shop adapter.py"
    adapter.write_text("class Adapter: pass")
    words = [
        "--engines",
        "conformance",
        "--adapter",
        str(adapter),
        "--api-key",
        "key-1",
        "--cases",
        str(tmp_path / "c"),
    ]
    assert main(["fuzz", strict, *words]) == 1
    [command] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Replay: ")]
    _, *again = shlex.split(command.removeprefix("Replay: "))
    assert again[-2:] == ["--adapter", str(adapter)]
    assert main([*again, "--api-key", "key-1"]) == 1
    assert f"Replay: {shlex.join(['leyden', *again])}\n" in capsys.readouterr().out


@contextlib.contextmanager
def without_created_at() -> Iterator[str]:
    """A service whose Charges have no members."""

    class Handler(BaseHTTPRequestHandler):
        def respond(self) -> None:
            self.rfile.read(int(self.headers["content-length"] or 0))
            body = b'{"success":true,"data":{}}'
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = respond

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    with handling(Handler) as url:
        yield url


@deep("test_the_command_of_a_found_case_has_its_adapter")
def test_a_violation_at_the_start_of_a_run_has_no_steps_and_is_replayed(
    tmp_path: Path, mended: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with without_created_at() as url:
        words = ["--adapter", "none", "--api-key", "key-1", "--cases", str(tmp_path)]
        assert main(["conformance", url, *words]) == 1
        assert "\nSteps: none\n" in capsys.readouterr().out
        [path, *_] = sorted(tmp_path.glob("*.case.json"))
        case = read_case(path)
        assert (case.steps, case.target, case.found_on) == ((), url, "another implementation")
        assert main(["replay", str(path), "--api-key", "key-1"]) == 1
        assert "\nSteps: none\n" in capsys.readouterr().out
        assert main(["replay", str(path), mended, "--api-key", "key-1"]) == 0
        assert f"The violation does not occur at {mended}. It was found at {url}." in capsys.readouterr().out
        monkeypatch.setenv("LEYDEN_API_KEY", "key-1")
        space: dict[str, Any] = {}
        exec(compile(as_pytest(case), "test_case.py", "exec"), space)
        with pytest.raises(AssertionError, match="Contract violation"):
            space["test_there_is_no_violation"]()
        with pytest.raises(ExportError, match=r"has no steps: .*; export it as pytest or notebook"):
            as_curl(case)
    schemathesis = replace(case, target="", found_on="", name="schemathesis POST /v0/charges, seed 1")
    path.write_text(schemathesis.dumps())
    assert main(["replay", str(path)]) == 2
    assert "run `leyden fuzz --engines schemathesis` again" in capsys.readouterr().err


def test_a_served_leyden_with_other_overlays_is_refused_with_what_helps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = Case(STEPS, overlays=("strict",))
    path = tmp_path / "strict.case.json"
    path.write_text(with_result(case, play(case)).dumps())
    with served_leyden("--rate", "0") as client:
        assert main(["replay", str(path), client.url]) == 3
    refusal = capsys.readouterr().err
    assert (
        "is served with the overlays none, this run needs strict: serve it with these (`leyden serve --ove" in refusal
    )


def test_whoever_is_no_charge_service_gets_no_write(strict: str) -> None:
    methods = []

    class Handler(BaseHTTPRequestHandler):
        def respond(self) -> None:
            methods.append(self.command)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        do_GET = do_POST = respond

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    with handling(Handler) as url:
        for kind in ("another implementation", "served"):
            with pytest.raises(TargetError, match=r"check the URL|give the URL of a served Leyden"):
                play(Case(STEPS), target_at(kind, url))
    assert set(methods) == {"GET"}
    with pytest.raises(TargetError, match=r"refused the API key: .*give the key with --api-key"):
        play(Case(STEPS), target_at("another implementation", strict, api_key="wrong"))
    with listening_receiver() as (url, _), pytest.raises(TargetError):
        play(Case(STEPS), target_at("another implementation", url))


@pytest.mark.skipif(shutil.which("curl") is None, reason="install curl to run the scripts that call it")
def test_the_script_fails_as_long_as_the_target_has_the_violation(tmp_path: Path) -> None:
    adapter = tmp_path / "shop.py"
    steps: tuple[Step, ...] = (charge("c1", description=" tea "), {**charge("c2"), "idempotency_key": "k1"})
    for mistake in ("trimmed", ""):
        with foreign_service(mistake) as service:
            target = ExternalService(service.url, "key-1", adapter=service, adapter_name=os.fspath(adapter))
            adapter.write_text(f"class Adapter:\n    callback_url = {service.callback_url!r}\n")
            result = play(Case(steps), target)
            if mistake:
                case = with_result(Case(steps), result, target)
            environment = {**os.environ, "LEYDEN_API_KEY": "key-1", "LEYDEN_TARGET": service.url}
            environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
            run: dict[str, Any] = {"env": environment, "capture_output": True, "text": True, "timeout": 60}
            done = subprocess.run(["sh", "-c", as_curl(case)], check=False, **run)
            assert done.returncode == (1 if mistake else 0), done.stdout + done.stderr
            assert ('"description":" tea " expected' in done.stdout) == bool(mistake)


@pytest.mark.parametrize("text", ["'; touch PWNED; '", "$(touch PWNED)", "`touch PWNED`", "}\ntouch PWNED\n"])
def test_no_text_of_a_case_becomes_a_command_of_the_script(text: str, tmp_path: Path, found: Path) -> None:
    case = read_case(found)
    steps: tuple[Step, ...] = ({**charge(text, description=text), "idempotency_key": "k"}, {"do": "get", "what": text})
    script = as_curl(replace(case, name=text, target=text, adapter=text, steps=steps))
    for name in ("curl", "leyden"):
        (tmp_path / name).write_text("#!/bin/sh\nprintf '{\"data\": 1}\\n200'\n")
        (tmp_path / name).chmod(0o755)
    script = script.replace("fail() { ", "fail() { return; ").replace('[ "$status" = 200 ] ||', "true ||")
    environment = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    run: dict[str, Any] = {"cwd": tmp_path, "env": environment, "capture_output": True, "text": True, "check": False}
    done = subprocess.run(["sh", "-c", script], **run)
    assert "no violation" in done.stdout, done.stderr
    assert not (tmp_path / "PWNED").exists()


def script_of(case: Case, adapter: Path, url: str) -> subprocess.CompletedProcess[str]:
    """A run of the script of the case at the URL; the adapter writes its calls below."""
    adapter.write_text(
        "import pathlib\n\n\nclass Adapter:\n    callback_url = 'http://shop.example/hook'\n\n"
        "    def __getattr__(self, name):\n        if name not in ('pay', 'hold', 'settle', 'cancel', 'rotate'):\n"
        "            raise AttributeError(name)\n"
        f"        file = pathlib.Path({os.fspath(adapter.parent / 'calls')!r}).open('a')\n"
        "        return lambda *given: print(name, len(given), file=file) or file.close()\n"
    )
    environment = {**os.environ, "LEYDEN_API_KEY": "key-1", "LEYDEN_TARGET": url, "LEYDEN_ADAPTER": os.fspath(adapter)}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    run: dict[str, Any] = {"env": environment, "capture_output": True, "text": True, "timeout": 60, "check": False}
    return subprocess.run(["sh", "-c", as_curl(case)], **run)


@pytest.mark.skipif(shutil.which("curl") is None, reason="install curl to run the scripts that call it")
def test_the_script_has_a_command_for_each_step_of_an_adapter(tmp_path: Path, found: Path) -> None:
    """The adapter of this test does nothing, so a script that calls it sees a Charge that stays pending."""
    hold: Step = {"do": "pay", "as": "p1", "charge": "c1", "outcome": "hold"}
    ends: dict[str, Step] = {
        "settle 1": {"do": "settle", "payment": "p1"},
        "cancel 1": {"do": "cancel", "payment": "p1"},
    }
    with foreign_service() as service:
        for call, step in {**ends, "rotate 0": {"do": "rotate"}}.items():
            case = replace(read_case(found), steps=(charge("c1"), hold, step))
            done = script_of(case, tmp_path / "shop.py", service.url)
            shown = f'violation: "status":"{"completed" if call == "settle 1" else "error"}" expected'
            assert done.stdout.splitlines()[-1].endswith(shown if call in ends else "no violation"), done.stdout
            assert done.returncode == (call in ends)
            calls = (tmp_path / "calls").read_text().splitlines()
            assert calls[-2:] == ["hold 1", call]


def finding(expected: str, observed: str, where: str = "c1") -> dict[str, str]:
    return {"check": "echo", "ruleId": "DECISIONS ids", "where": where, "expected": expected, "observed": observed}


@pytest.mark.skipif(shutil.which("curl") is None, reason="install curl to run the scripts that call it")
@pytest.mark.parametrize(
    ("expectation", "more", "words"),
    [
        (finding("{'expiresAt': '2030-01-01T00:10:00.000Z'}", "{'expiresAt': '2030-01-01T00:10:00.001Z'}"), (), "c1, "),
        (finding("{'invoice': {'uri': 'lightning:x'}}", "{'invoice': {'uri': 'x'}}"), (), "c1, where"),
        (finding("application/json", "text/plain", "c1: content-type"), (), "c1: content-type, where"),
        (finding("{'status': 'OK'}", "{'status': 'NO'}") | {"ruleId": "DECISIONS lnurl-pay"}, (), "c1, where"),
        (finding("200", "400 {}", "c1: status"), ({"do": "restart"},), "this step has no command here: stop the"),
        (finding("200", "400 {}", "c1: status"), (), ""),
        (finding("{'amount': '1000'}", "{'amount': 1000}"), (), ""),
        (finding("{'amount': '1000'}", "{'amount': 1000}"), ({"do": "list", "of": "charges"},), ""),
    ],
)
def test_a_script_that_does_not_compare_what_the_case_found_says_so(
    expectation: dict[str, str], more: tuple[Step, ...], words: str, tmp_path: Path, found: Path
) -> None:
    case = replace(read_case(found), steps=(charge("c1"), *more), expectation=expectation)
    with foreign_service() as service:
        done = script_of(case, tmp_path / "shop.py", service.url)
    assert done.returncode == (3 if words else 0), done.stdout + done.stderr
    assert f"not checked: {words}" in done.stdout if words else done.stdout.endswith("\nno violation\n")


MONTH: Step = charge("c1", expiresIn=2_592_000)
DAY: Step = advance(86_400_000)
PENDING, EXPIRED = finding("{'status': 'pending'}", "{'status': 'x'}"), finding("{'status': 'expired'}", "{'x': 1}")


@pytest.mark.parametrize(
    ("steps", "expectation", "is_compared"),
    [
        ((charge("c1"), to("expiry", "c1")), PENDING, False),  # a sandbox in process expects another state
        ((charge("c1"), to("expiry", "c1")), EXPIRED, False),  # as the target may at this instant
        ((charge("c1"), to("expiry", "c1", 10_000)), EXPIRED, True),
        ((charge("c1"), to("expiry", "c1", 10_000)), PENDING, False),
        ((charge("c1"), charge("c2", expiresIn=600), to("expiry", "c1", 10_000)), PENDING, False),
        ((MONTH, DAY), PENDING, True),  # compared at the end only
        ((MONTH, DAY), finding("{'amount': '1001'}", "{'amount': '1000'}"), False),
        ((MONTH, DAY), finding("404", "200 {}", "c1: status"), False),
        ((MONTH, DAY), finding("200", "404 {}", "c1: status"), True),
    ],
)
def test_a_script_compares_what_the_case_expected_or_says_that_it_does_not(
    steps: tuple[Step, ...], expectation: dict[str, str], *, is_compared: bool, found: Path
) -> None:
    script = as_curl(replace(read_case(found), steps=steps, expectation=expectation))
    assert script.endswith("echo 'no violation'\n" if is_compared else "exit 3\n")
    assert ("not checked: c1" in script) != is_compared


@pytest.mark.skipif(shutil.which("curl") is None, reason="install curl to run the scripts that call it")
def test_a_script_finds_nothing_about_an_expiry_at_a_service_without_a_defect(tmp_path: Path, found: Path) -> None:
    """The steps of the script are at other instants than those of a replay, by less than a second."""
    adapter = tmp_path / "shop.py"
    steps = (charge("c1"), to("expiry", "c1", -1), pay("c1"), to("expiry", "c1"), advance(10_000))
    with served_leyden("--rate", "0", "--api-key", "key-1", "--start", "2030-01-01T00:00:00.999Z") as client:
        adapter.write_text(
            "import json, urllib.request\n\n\ndef post(path, body):\n"
            "    headers = {'apikey': 'key-1', 'content-type': 'application/json'}\n"
            f"    url = {client.url!r} + '/sandbox/v1/' + path\n"
            "    urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers))\n\n\n"
            "class Adapter:\n"
            "    def advance(self, seconds): post('clock/advance', {'by': f'{round(seconds * 1_000)}ms'})\n"
            "    def pay(self, request): post('payments', {'request': request})\n"
        )
        script = as_curl(replace(read_case(found), steps=steps, expectation=PENDING))
        environment = {**os.environ, "LEYDEN_API_KEY": "key-1", "LEYDEN_TARGET": client.url}
        environment |= {"LEYDEN_ADAPTER": os.fspath(adapter)}
        environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        run: dict[str, Any] = {"env": environment, "capture_output": True, "text": True, "timeout": 120}
        done = subprocess.run(["sh", "-c", script], check=False, **run)
        assert client.ok("GET", "/sandbox/v1/charges?status=expired")["data"], "the payment came before the expiry"
    assert done.returncode == 3, done.stdout + done.stderr


@pytest.mark.skipif(shutil.which("curl") is None, reason="install curl to run the scripts that call it")
def test_what_is_written_finds_a_relative_adapter_from_its_own_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with foreign_service("trimmed") as service:
        (tmp_path / "shop.py").write_text(f"class Adapter:\n    callback_url = {service.callback_url!r}\n")
        monkeypatch.chdir(tmp_path)
        steps: tuple[Step, ...] = (charge("c1", description=" tea ", callbackUrl="http://r1.inbox.localhost/hook"),)
        target = target_at("another implementation", service.url, api_key="key-1", adapter="shop.py")
        case = with_result(Case(steps), play(Case(steps), target), target)
        report = CampaignReport(violations=[FoundViolation("random-walk", case, (), service.url)])
        assert case.adapter == "shop.py"
        _write_cases(report, "found/cases")
        environment = {**os.environ, "LEYDEN_API_KEY": "key-1"}
        environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        [script] = (tmp_path / "found" / "cases").glob("*.sh")
        [test] = (tmp_path / "found" / "cases").glob("*.py")
        for place in (tmp_path, script.parent, Path("/")):
            monkeypatch.chdir(place)
            run: dict[str, Any] = {"env": environment, "capture_output": True, "text": True, "check": False}
            done = subprocess.run(["sh", os.path.relpath(script)], **run)
            assert done.returncode == 1, done.stdout + done.stderr
            space: dict[str, Any] = {"__file__": os.path.relpath(test)}
            monkeypatch.setenv("LEYDEN_API_KEY", "key-1")
            exec(compile(test.read_text(), test.name, "exec"), space)
            with pytest.raises(AssertionError, match="Contract violation"):
                space["test_there_is_no_violation"]()
    assert main(["adapter", "--check", "shop.py", service.url]) == 2
    words = "there is no adapter 'shop.py' in the directory from which this is run: give its path"
    assert words in capsys.readouterr().err
