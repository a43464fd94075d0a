"""The reference of the Python API: complete, and up to date."""

from __future__ import annotations

import inspect
import re

import pytest

import leyden
from leyden.lab.actions import script_writer
from leyden.lab.api_reference import REFRESH, entries, main, missing, reference_file, text


def test_every_public_object_has_a_docstring() -> None:
    assert missing() == []


def test_the_reference_is_what_the_docstrings_give(capsys: pytest.CaptureFixture[str]) -> None:
    assert reference_file().read_text(encoding="utf-8") == text(), f"refresh with: {REFRESH}"
    assert main([]) == 0
    assert capsys.readouterr().out == "API.md: up to date\n"


def test_every_public_name_is_in_the_reference() -> None:
    names = {name for _, name, _ in entries()}
    assert {f"leyden.{name}" for name in leyden.__all__} <= names
    members = [name for name, _ in inspect.getmembers(leyden.Sandbox) if not name.startswith("_")]
    assert {f"Sandbox.{name}" for name in members} <= names


def test_what_a_script_calls_on_the_session_is_in_the_reference() -> None:
    source = inspect.getsource(script_writer)
    called = set(re.findall(r"sb\.session\.([a-z_]+)", source))
    assert called == {"refused", "respond"}
    assert {f"Session.{name}" for name in called} <= {name for _, name, _ in entries()}
