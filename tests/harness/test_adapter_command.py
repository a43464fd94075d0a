"""`leyden adapter` writes a template and checks each method of an adapter."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from leyden.__main__ import main
from leyden.harness.targets import adapter as adapters
from leyden.harness.targets.adapter import ADAPTER_METHODS
from tests.foreign_service.service import Service, foreign_service
from tests.support.deep import deep_except
from tests.support.store_helpers import failing

CHECK = ["adapter", "--check", "shop:adapter"]


def checked(service: Service, adapter: object, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr("leyden.harness.adapter_command.load_adapter", lambda name: adapter)
    return main([*CHECK, service.url, "--api-key", "key-1"])


def test_the_template_has_every_method_and_is_not_written_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "shop.py"
    assert main(["adapter", "--new", os.fspath(path)]) == 0
    loaded = adapters.load_adapter(os.fspath(path))
    for name in ADAPTER_METHODS:
        method = adapters.adapter_method(loaded, name)
        assert method is not None
        with pytest.raises(NotImplementedError, match=name):
            method(*["1"] * (method.__code__.co_argcount - 1))
    before = path.read_text()
    assert main(["adapter", "--new", os.fspath(path)]) == 2
    assert path.read_text() == before


def test_a_full_disk_leaves_no_part_of_a_template(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as full:
        full.setattr(os, "fsync", failing)
        assert main(["adapter", "--new", os.fspath(tmp_path / "shop.py")]) == 2
    assert os.strerror(errno.ENOSPC) in capsys.readouterr().err
    assert [*tmp_path.iterdir()] == []
    assert main(["adapter", "--new", os.fspath(tmp_path / "shop.py")]) == 0


def test_each_method_is_tried(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with foreign_service() as service:
        assert checked(service, service, monkeypatch) == 0
    said = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert set(said) == {"callback_url", *ADAPTER_METHODS}
    assert said["pay"] == "ok: returned None; the Charge is completed"
    assert said["advance"] == "ok: returned None; 60 s passed"
    assert said["inbox"].startswith("ok: returned list; 2 callbacks")
    assert said["hold"] == "absent: held payments are not checked"


class Wrong:
    callback_url = "shop"

    def __init__(self, service: Service) -> None:
        self._service = service

    def pay(self, request: str) -> None:
        """Pay nothing."""

    def now(self) -> str:
        return "2030-01-01"

    def advance(self, seconds: float) -> None:
        raise OSError("no route to the clock")

    def secret(self) -> str:
        return "secret"


def test_wrong_answers_are_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with foreign_service() as service:
        wrong = Wrong(service)
        assert checked(service, wrong, monkeypatch) == 1
    said = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert said["now"] == "wrong: returned str; 2030-01-01, expected a number of seconds since 1970"
    assert "no route to the clock" in said["advance"]
    assert said["pay"].startswith("wrong")
    assert said["secret"].startswith("wrong")
    assert said["callback_url"].startswith("wrong")


def test_a_method_is_called_by_a_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "shop.py"
    path.write_text(
        "class Adapter:\n    def now(self): return 1.5\n    def secret(self): return 'whsec_x'\n"
        "    def inbox(self, url): return [({'a': url}, 'body')]\n"
    )
    for words in (["now"], ["secret"], ["inbox", "http://x"]):
        assert main(["adapter", "--call", os.fspath(path), *words]) == 0
    assert capsys.readouterr().out.splitlines() == ["1.5", "whsec_x", '{"headers": {"a": "http://x"}, "body": "body"}']
    assert main(["adapter", "--call", os.fspath(path), "pay", "x"]) == 2


ATTRIBUTES_THAT_RAISE = (
    "class Adapter:\n    @property\n    def pay(self): raise RuntimeError('no\\nwallet')\n",
    "class Adapter:\n    @property\n    def callback_url(self): raise OSError('no address')\n",
    "class Adapter:\n    def __getattr__(self, name): raise ValueError(name)\n",
    "class Adapter:\n    def __getattr__(self, name): return 1 / 0\n",
    "def __getattr__(name): raise RuntimeError(name)\n",
    "import sys\nclass Other:\n    def __getattr__(self, name): raise KeyError(name)\nadapter = Other()\n",
    "raise SystemExit(3)\n",
    "raise GeneratorExit\n",
    "class Adapter:\n    def __getattr__(self, name): raise GeneratorExit\n",
)
METHODS_THAT_FAIL = (
    "class Adapter:\n    def pay(self, request): raise ValueError('no\\n\\x1b[31mwallet')\n",
    "class Adapter:\n    def pay(self, request): raise GeneratorExit\n",
    "class Adapter:\n    def pay(self): return None\n",
    "class Adapter:\n    def pay(self, request): return object()\n",
    "class Adapter:\n    def pay(self, request): raise NotImplementedError('pay')\n",
)


@pytest.mark.parametrize("source", METHODS_THAT_FAIL)
def test_a_method_that_fails_is_one_line(source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "shop.py"
    path.write_text(source)
    assert main(["adapter", "--call", str(path), "pay", "x"]) == 1
    printed, error = capsys.readouterr()
    assert printed == ""
    assert len(error.splitlines()) == 1, error
    assert error.startswith("leyden adapter: pay() of the adapter failed with ")
    assert "\x1b" not in error


@pytest.mark.parametrize(
    "source",
    [
        "raise KeyboardInterrupt\n",
        "class Adapter:\n    def pay(self, request): raise KeyboardInterrupt\n",
        "class Adapter:\n    def __getattr__(self, name): raise KeyboardInterrupt\n",
    ],
)
def test_an_interrupt_within_an_adapter_is_no_success(source: str, tmp_path: Path) -> None:
    path = tmp_path / "shop.py"
    path.write_text(source)
    assert main(["adapter", "--call", str(path), "pay", "x"]) == 3


@pytest.mark.parametrize("source", ATTRIBUTES_THAT_RAISE)
@pytest.mark.parametrize("command", ["fuzz", "conformance", "check", "call"])
def test_an_adapter_whose_attribute_raises_is_refused_in_one_line(
    source: str, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "shop.py"
    path.write_text(source)
    words = {
        "fuzz": ["fuzz", "http://127.0.0.1:9", "--adapter", str(path), "--seconds", "1"],
        "conformance": ["conformance", "http://127.0.0.1:9", "--adapter", str(path)],
        "check": ["adapter", "--check", str(path), "http://127.0.0.1:9"],
        "call": ["adapter", "--call", str(path), "pay", "x"],
    }
    assert main(words[command]) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1, error
    assert "correct the" in error


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def raising(*_: object) -> None:
    raise Unprintable


def ending(*_: object) -> None:
    raise SystemExit("a\nb")


FAILING: list[tuple[str, Any, str]] = [
    ("now", lambda: "soon", "now() of the adapter returned what is not a number of seconds since 1970"),
    ("now", lambda: float("nan"), "now() of the adapter returned what is not a number"),
    ("now", lambda: 1e300, "now() of the adapter returned what is not a number"),
    ("now", object, "now() of the adapter returned what is not a number"),
    ("now", raising, "now() of the adapter failed with Unprintable"),
    ("secret", lambda: None, "secret() of the adapter returned what is not a text that begins with whsec_"),
    ("inbox", lambda _: 5, "inbox() of the adapter returned what is not a list of (headers, body)"),
    ("inbox", lambda _: [({"a": 1}, "")], "inbox() of the adapter returned what is not a list"),
    ("pay", raising, "pay() of the adapter failed with Unprintable"),
    ("pay", ending, "pay() of the adapter failed with SystemExit: a\\nb"),
]


@pytest.mark.parametrize(("name", "method", "words"), deep_except(FAILING, FAILING[0], FAILING[5]))
def test_an_adapter_that_fails_in_a_run_is_named(
    name: str, method: Any, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with foreign_service() as service:
        monkeypatch.setattr(service, name, method)
        monkeypatch.setattr("leyden.harness.command.load_adapter", lambda _: service)
        status = main(["conformance", service.url, "--api-key", "key-1", "--adapter", "shop.py"])
    written = capsys.readouterr()
    assert status == 3
    assert words in written.out + written.err
    assert "Traceback" not in written.out + written.err
