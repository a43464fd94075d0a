"""Completion in a notebook shows the fields of the specification and the public names of the package."""

from __future__ import annotations

from typing import Any

import pytest

import leyden
from leyden import Sandbox

jedi = pytest.importorskip("jedi", reason="completion in notebooks needs ipykernel")


def completed(code: str, **names: Any) -> list[str]:
    return [found.name for found in jedi.Interpreter(code, [names]).complete()]


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("sb.charges.create(am", "amount="),
        ("sb.charges.create(amount='1', expires", "expiresIn="),
        ("sb.static_charges.create(min", "minAmount="),
        ("sb.traffic(ra", "rate="),
        ("sb.charges.ta", "table"),
    ],
)
def test_the_arguments_of_a_sandbox_are_completed(sandbox: Sandbox, code: str, name: str) -> None:
    assert name in completed(code, sb=sandbox)


def test_the_package_shows_its_public_names_before_they_are_imported() -> None:
    assert {*leyden.__all__} <= {*dir(leyden)}
    assert not {"TYPE_CHECKING", "annotations"} & {*dir(leyden)}
    assert "sweep" in completed("leyden.sw", leyden=leyden)
