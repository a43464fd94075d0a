"""Cases that somebody else wrote: they are refused in one line, and no text in them becomes code."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import nbformat
import pytest

from leyden.__main__ import main
from leyden.errors import ArgumentError, LeydenError
from leyden.files.json_files import VersionWarning, in_words
from leyden.harness.reports.exports import EXPORTS, PRINTED, as_curl, as_notebook, as_pytest
from leyden.harness.runs.cases import Case, play, read_case, replay, with_result
from leyden.lab.actions.source_text import shell_word
from leyden.server.version import VERSION
from tests.support.deep import deep_except, deep_or
from tests.support.mutations import mutated, places, refusal

BODY = {"amount": "1000", "description": "tea", "callbackUrl": "http://r1.inbox.localhost/hook"}
PLAIN = Case(
    (
        {"do": "receiver", "host": "r1.inbox", "answers": [500, "timeout"], "always": 200},
        {"do": "create_charge", "as": "c1", "body": BODY, "idempotency_key": "k1"},
        {"do": "pay", "as": "p1", "charge": "c1"},
        {"do": "fault", "kind": "drop", "charge": "c1", "attempt": 1},
        {
            "do": "list",
            "of": "charges",
            "query": {"limit": 1},
            "between": {"do": "create_charge", "as": "c2", "body": {}},
        },
        {"do": "advance", "to": ["retry", "c1"], "offset": 0},
        {"do": "odd", "operation": "createCharge", "kind": "body-array"},
    ),
    overlays=("strict",),
)
CASE = with_result(PLAIN, play(PLAIN))
EXPECTATION = {"check": "echo", "ruleId": "DECISIONS wallet", "where": "wallet", "expected": "0", "observed": "1"}
TEXTS = [
    form.replace("{}", "touch PWNED")
    for form in (
        "\n{}\n", "\r{}\r", "\x0c{}", "\u2028{}\u2029", "\x0b{}\x85{}", '"""\n{}\n"""', "'''\n{}\n'''", "'; {}; '",
        "$({})", "`{}`", '"; {}; "', "\\\n{}", "```\n\n{}", "@PWNED{}", "\ud800{}",
    )
]  # fmt: skip


PYTHON = re.compile(r"[A-Z][a-z]+Error\b|NoneType|object is not|must be \w+, not|64-bit")  # texts of Python about code


def assert_only_expected_code(form: str, text: str, folder: Path) -> None:
    """The product parses, and has only the statements that every product has."""
    text.encode()
    if form == "pytest":
        kinds = [type(node) for node in ast.parse(text).body]
        assert kinds[:3] == [ast.ImportFrom, ast.Assign, ast.FunctionDef]
        assert kinds[3:] in ([], [ast.FunctionDef])  # the journal of a case without a violation
        ast.literal_eval(ast.parse(text).body[1].value)  # type: ignore[attr-defined]
    elif form == "notebook":
        for cell in nbformat.reads(text, as_version=4).cells:
            if cell.cell_type == "code":
                for node in ast.walk(ast.parse(cell.source)):
                    assert not isinstance(node, ast.Name) or node.id != "touch"
    else:
        bash = shutil.which("bash")
        assert bash is not None
        (folder / "export.sh").write_text(text, encoding="utf-8")
        run = {"capture_output": True, "text": True, "cwd": folder}
        assert subprocess.run([bash, "-n", "export.sh"], check=False, **run).stderr == ""  # type: ignore[call-overload]
        # Every command word is curl, echo, base64 or set: the others are functions that only count here.
        functions = "".join(f"{name}() {{ :; }}; " for name in ("curl", "base64"))
        script = f"{functions}\n{text}"
        done = subprocess.run([bash, "-c", script], check=False, **run, env={"PATH": os.fspath(folder)})  # type: ignore[call-overload]
        assert done.stderr == "", done.stderr
        (folder / "export.sh").unlink()


def hostile_cases(text: str) -> list[Case]:
    """Cases with the text in each field, with and without a violation, and in the texts of the steps: in the profile
    `random` in every one, in a deep run in every third, so that each of them has five of the texts."""
    found = [
        replace(case, **{one.name: (text,) if one.name in {"steps", "overlays"} else text})
        for case in (CASE, replace(CASE, expectation=EXPECTATION))
        for one in fields(Case)
        if one.name not in {"steps", "overlays", "expectation", "origin"}
    ]
    found += [replace(CASE, expectation={**EXPECTATION, name: text}) for name in EXPECTATION if name != "check"]
    patch = [
        {"op": "replace", "path": "/info/title", "value": text},
        {"op": "add", "path": "/x-a", "value": {"a": text}},
    ]
    origins = {"origin": text, "spec_hash": "", "spec_patch": patch}
    found += [replace(CASE, **origins), replace(CASE, expectation=EXPECTATION, **origins)]  # type: ignore[arg-type]
    document = json.dumps(CASE.document()["steps"])
    turn, every = deep_or(bounded=(TEXTS.index(text) % 5, 5), full=(TEXTS.index(text) % 3, 3), random=(0, 1))
    for number in range(turn, len(places(json.loads(document))), every):
        steps = json.loads(document)
        container, key = places(steps)[number]
        if isinstance(container[key], str) and key not in {"do", "of", "operation", "kind", "host", "by"}:
            container[key] = text
            found.append(replace(CASE, steps=tuple(steps)))
    return found


@pytest.mark.parametrize("text", deep_except(TEXTS, TEXTS[0]), ids=range(len(TEXTS)))
def test_no_text_of_a_case_becomes_code(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written = dict.fromkeys(EXPORTS, 0)
    for case in hostile_cases(text):
        for form, export in EXPORTS.items():
            try:
                product = export(case)
            except (LeydenError, AttributeError, TypeError, ValueError):
                continue  # an object that no file has: `read_case` refuses it
            assert_only_expected_code(form, product, tmp_path)
            written[form] += 1
    assert min(written.values()) > 10
    assert os.listdir(tmp_path) == []


UNPRINTABLE = ("\ud800", "\udc80", "a\x1b[31mb", "\u202e%s\\'\"$x", "\x7f\n")
AT_TARGET = replace(CASE, expectation=EXPECTATION, found_on="served", target="http://127.0.0.1:1", journal_hash=None)


def cases_with(text: str) -> Iterator[dict[str, Any]]:
    """The documents of cases in process and at a target with the text in each member that is a text."""
    for case in (CASE, replace(CASE, expectation=EXPECTATION), AT_TARGET):
        written = case.dumps()
        for number in range(len(places(json.loads(written)))):
            document = json.loads(written)
            container, key = places(document)[number]
            if isinstance(container[key], str):
                container[key] = text
                yield document


@pytest.mark.parametrize("text", deep_except(UNPRINTABLE, "\ud800", "a\x1b[31mb"), ids=ascii)
def test_an_export_shows_no_text_that_cannot_be_printed(
    text: str, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    exported = 0
    for number, document in enumerate(cases_with(text)):
        (path := tmp_path / f"{number}.case.json").write_text(json.dumps(document))
        for form in PRINTED:
            status = main(["replay", str(path), "--export", form])
            printed, errors = capsysbinary.readouterr()
            assert status in (0, 1, 2)
            exported += status == 0
            assert (status == 0) == bool(printed)
            for line in (printed + errors).decode("utf-8").replace("\t", "").split("\n"):
                assert line.isprintable(), (form, document, line)
    assert exported > 20


def test_a_word_of_a_shell_script_is_the_text() -> None:
    texts = [*UNPRINTABLE, "", "a b", "'", "\n\n", "%d\\n\x01\n", "\xa0é\u2028\n", "0\x0210\x02"]
    words = " ".join(map(shell_word, texts))
    assert words.replace("\n", "").isprintable()
    for shell in filter(shutil.which, ("sh", "bash", "dash")):
        done = subprocess.run([shell, "-c", f"printf '%s\\0' {words}"], capture_output=True, check=True)
        found = done.stdout.removesuffix(b"\0").split(b"\0")
        assert found == [
            text.encode("utf-8", "surrogateescape" if "\ud800" not in text else "surrogatepass") for text in texts
        ]


def test_the_products_of_a_hostile_case_run_and_create_no_file(tmp_path: Path) -> None:
    text = "\n".join(TEXTS).replace("\ud800", "")
    hostile = replace(CASE, name=text, expectation={**EXPECTATION, "ruleId": text, "observed": text})
    (tmp_path / "test_case.py").write_text(as_pytest(hostile), encoding="utf-8")
    cells = [
        cell.source for cell in nbformat.reads(as_notebook(hostile), as_version=4).cells if cell.cell_type == "code"
    ]
    (tmp_path / "cells.py").write_text("\n".join(cells), encoding="utf-8")
    (tmp_path / "case.sh").write_text(as_curl(hostile), encoding="utf-8")
    before = sorted(os.listdir(tmp_path))
    run: dict[str, Any] = {"cwd": tmp_path, "capture_output": True, "check": False, "timeout": 60}
    code = "import test_case as t; t.test_there_is_no_violation(); import cells"
    done = subprocess.run([sys.executable, "-B", "-c", code], **run)
    assert done.returncode == 0, done.stderr
    subprocess.run(["bash", "case.sh"], env={"PATH": os.environ["PATH"], "LEYDEN": "http://127.0.0.1:1"}, **run)
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (KeyError("target"), "there is no 'target'"),
        (IndexError("list index out of range"), "a list is shorter than is needed"),
        (TypeError("string indices must be integers, not 'str'"), "a value has another type than its place takes"),
        (AttributeError("'NoneType' object has no attribute 'x'"), "a value has another type than its place takes"),
        (ValueError("Unknown format code 'd' for object of type 'float'"), "a value has another type than its place"),
        (TypeError("Integer exceeds 64-bit range"), "a number is too large"),
        (OverflowError("int too large to convert to float"), "a number is too large"),
        (RecursionError("maximum recursion depth exceeded"), "it is nested too deeply"),
        ("\udcff", "a text has characters that cannot be encoded"),
        (ArgumentError("by=-1 is negative: give a span"), "by=-1 is negative: give a span"),
        (AssertionError(), "its values contradict each other"),
    ],
    ids=str,
)
def test_an_error_about_data_is_in_words_about_data(error: Exception | str, words: str) -> None:
    if isinstance(error, str):
        with pytest.raises(UnicodeEncodeError) as raised:
            error.encode()
        error = raised.value
    assert in_words(error).startswith(words)
    assert not PYTHON.search(in_words(error))


def test_a_step_that_cannot_be_done_is_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "case.json"
    path.write_text(json.dumps({**CASE.document(), "specHash": "", "specPatch": [{"op": "add", "path": "/x"}]}))
    why = refusal(lambda: replay(read_case(path)))
    assert why is not None
    assert not PYTHON.search(why), why


@pytest.mark.parametrize("field", ["seed", "disk", "journalHash", "start", "leyden"])
def test_a_field_with_a_command_is_refused_by_the_command(
    field: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "case.json"
    path.write_text(json.dumps({**CASE.document(), field: "0)\ntouch PWNED"}))
    for form in EXPORTS:
        status = main(["replay", str(path), "--export", form])
        output = capsys.readouterr()
        if field == "leyden":
            assert_only_expected_code(form, output.out, tmp_path)
        else:
            assert status == 2
            assert len(output.err.splitlines()) == 1
            assert str(path) in output.err


@pytest.mark.filterwarnings("ignore::leyden.files.json_files.VersionWarning")
def test_a_mutated_case_is_read_or_refused_in_one_line_with_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "case.json"
    refused, number_of_files = 0, deep_or(bounded=80, full=240)
    for number, data in enumerate(mutated(CASE.document(), number_of_files)):
        path.write_bytes(data)
        why = refusal(lambda: replay(read_case(path)))
        if why is not None:
            assert str(path) in why
            assert not PYTHON.search(why), why
            refused += 1
        options = [] if number % 4 else ["--export", list(EXPORTS)[number // 4 % len(EXPORTS)]]
        if number % 2 == 0:
            assert main(["replay", str(path), *options]) in (0, 1, 2)
            assert "Traceback" not in capsys.readouterr().err
    assert number_of_files // 3 < refused < number_of_files


@pytest.mark.parametrize("url", ["", "http://127.0.0.1:1"])
@pytest.mark.parametrize(
    "step",
    [
        {"do": "odd", "operation": "createCharge", "kind": "x"},
        {"do": "odd", "operation": "createCharge", "kind": "no-id"},
        {"do": "fault", "kind": "x"},
        {"do": "fault", "kind": "drop", "event": "x"},
        {"do": "pay", "as": "p1", "charge": "c1", "outcome": "x"},
        {"do": "get", "what": "c1", "by": "x"},
        {"do": "list", "of": "charges", "between": {"do": "create_charge", "as": "c2", "body": {}, "by": "x"}},
        {"do": "pages", "target": "/v0/charges", "steps": [{"do": "odd", "operation": "getWallet", "kind": "x"}]},
        {"do": "list", "of": "charges", "query": {"limit": "x"}},
        {"do": "receiver", "host": "r1.inbox", "always": "x"},
    ],
    ids=str,
)
def test_every_export_and_the_replay_refuse_a_value_that_no_step_has(
    step: dict, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "case.json"
    create = {"do": "create_charge", "as": "c1", "body": BODY}
    case = replace(CASE, overlays=(), steps=(create, step))
    if url:
        case = replace(case, found_on="another implementation", target=url, journal_hash=None, expectation=EXPECTATION)
    path.write_text(json.dumps({**case.document(), "specHash": ""}))
    lines = set()
    for form in (*EXPORTS, None):
        assert main(["replay", str(path), *(["--export", form] if form else [])]) == 2
        [line] = capsys.readouterr().err.splitlines()
        lines.add(line)
    assert len(lines) == 1, lines
    assert str(path) in lines.pop()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"[" * 100_000, "nests deeper than 100"),
        (b'{"leydenCase": 2, "leydenCase": 2}', "twice"),
        (b'{"leydenCase": NaN}', "NaN is not JSON"),
        (b"{" + b",".join(b'"%d":0' % n for n in (*range(200_000), 7)) + b"}", "an object has the name '7' twice"),
        (b'{"leydenCase": 1e999}', "out of range"),
        (b'{"leydenCase": ' + b"9" * 10_000 + b"}", "10000 digits"),
        (b'{"leydenCase": "\xff"}', "byte 16 is not UTF-8"),
        (b"\xef\xbb\xbf{}", "it begins with a byte order mark"),
        (b'{"leydenCase": 2', "line 1"),
        (b'{"leydenCase": true}', "the known formats"),
    ],
)
def test_the_refusal_says_what_is_wrong(
    data: bytes, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "case.json"
    path.write_bytes(data)
    assert main(["replay", str(path)]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"leyden replay: {path}")
    assert why in line


def test_a_case_of_another_version_is_read_with_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "case.json"
    path.write_text(json.dumps({**CASE.document(), "leyden": "0.0.7"}))
    with pytest.warns(VersionWarning, match=f"Leyden 0.0.7, and this is Leyden {VERSION}"):
        assert read_case(path).steps == CASE.steps
    assert main(["replay", str(path)]) == 0
    [line] = capsys.readouterr().err.splitlines()
    assert (
        line == f"leyden replay: {path} was written by Leyden 0.0.7, and this is Leyden {VERSION}: results may differ"
    )
    for form, export in EXPORTS.items():
        assert f"Written by Leyden {VERSION}" in export(CASE), form


@pytest.mark.parametrize("module", ["1 +", "raise ValueError('x\\ny')", "class adapter:\n  def __init__(self): 1 / 0"])
def test_an_adapter_that_fails_is_one_line(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "failing_adapter.py").write_text(module)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "failing_adapter", raising=False)
    assert main(["conformance", "http://127.0.0.1:1", "--adapter", "failing_adapter:adapter"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "failing_adapter:adapter" in line


@pytest.mark.parametrize("text", ["", "<!-- leyden:table routes -->", "<!-- leyden:table routes -->\n" * 2])
def test_a_page_without_its_markers_is_one_line(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    assert main(["table", "--into", str(page)]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "<!-- leyden:table routes -->" in line


def test_a_page_that_is_not_utf8_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_bytes(b"\xff")
    assert main(["table", "--into", str(page)]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "byte 0 is not UTF-8" in line


@pytest.mark.parametrize(
    "options",
    [
        ["--data", "{folder}/theirs"], ["--data={folder}/theirs"], ["--spec", "{folder}/secret"],
        ["--overlay", "{folder}/secret"], ["--network", "{folder}/graph.json"], ["--ready-file", "{folder}/ready"],
        ["--egress", "loopback"], ["--egress", "none", "--egress-allow", "10.0.0.0/8"], ["--host", "0.0.0.0"],
        ["--rate", "x"], ["--help"], ["more"],
    ],
    ids=" ".join,
)  # fmt: skip
@pytest.mark.parametrize("do", ["host", "control_kept", "restart"])
def test_a_hosted_server_has_no_option_for_a_file_or_an_address(
    do: str, options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [text.format(folder=tmp_path) for text in options]
    host: Any = {"do": "host", "options": ["--rate", "0"], "disk": True}
    steps: dict[str, list[Any]] = {
        "host": [{"do": "host", "options": given}],
        "control_kept": [{"do": "control_kept", "how": "kill", "options": given, "steps": []}],
        "restart": [host, {"do": "control_clock", "steps": [{"do": "restart", "how": "close", "options": given}]}],
    }
    (tmp_path / "secret").write_text("hidden")
    file = tmp_path / "hostile.case.json"
    file.write_text(Case(tuple(steps[do])).dumps())
    before = sorted(tmp_path.iterdir())
    assert main(["replay", str(file)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("leyden replay: a case cannot host a server with these options: ")
    assert captured.err.count("\n") == 1
    assert "hidden" not in captured.err
    assert sorted(tmp_path.iterdir()) == before


def test_a_hosted_server_sends_nothing_to_the_network() -> None:
    body = {"amount": "1000", "description": "tea", "expiresIn": 1, "callbackUrl": "http://127.0.0.1:2000/hook"}
    requests: list[Any] = [
        {"do": "send", "method": "POST", "target": "/v0/charges", "body": body},
        {"do": "send", "method": "POST", "target": "/sandbox/v1/clock/advance", "body": {"by": "1h"}},
        {"do": "send", "method": "POST", "target": "/sandbox/v1/deliveries/wait", "body": {"status": "blocked"}},
    ]
    result = play(Case(({"do": "host", "options": ["--rate", "0"], "steps": requests},)))
    assert result.violation is None
    assert result.done == 1


@pytest.mark.parametrize("seed", [2**53, 10**18, -1])
def test_a_seed_that_no_sandbox_takes_is_refused_at_its_place(seed: int, tmp_path: Path) -> None:
    file = tmp_path / "seed.case.json"
    file.write_text(json.dumps({**CASE.document(), "seed": seed}))
    with pytest.raises(LeydenError, match=rf"seed\.case\.json is no case: /seed: {seed} is "):
        read_case(file)
