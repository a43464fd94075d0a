"""DECISIONS.md and the documents agree: every mark names an entry, and every entry has its mark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from leyden.server.contract.document.yaml_loader import read_yaml
from leyden.server.contract.load import DOCUMENTS, default_spec, known_overlays

SPECS = Path(__file__).parents[2] / "specs"
DECISIONS = (SPECS / "DECISIONS.md").read_text()
SLUGS = re.findall(r"^## (\S+)$", DECISIONS, flags=re.MULTILINE)


@cache
def documents() -> dict[str, Any]:
    return {f"{name}.openapi.yaml": read_yaml(default_spec(name).read_bytes(), name) for name in DOCUMENTS}


def marks(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if "decision" in (value.get("x-basis"), value.get("basis")):
            yield value.get("x-decision") or value["decision"]
        for item in value.values():
            yield from marks(item)
    elif isinstance(value, list):
        for item in value:
            yield from marks(item)


def test_every_decision_mark_has_its_entry_and_every_entry_its_mark() -> None:
    found = {slug for document in documents().values() for slug in marks(document)}
    assert found == set(SLUGS)


def test_no_decision_is_written_twice() -> None:
    assert len(SLUGS) == len(set(SLUGS))


@pytest.mark.parametrize("pointer", re.findall(r"`((?:charges|sandbox|server)\.openapi\.yaml#[^`]+)`", DECISIONS))
def test_every_pointer_leads_into_the_spec(pointer: str) -> None:
    name, _, path = pointer.partition("#/")
    value = documents()[name]
    for step in path.split("/"):
        value = value[step.replace("~1", "/").replace("~0", "~")]


@pytest.mark.parametrize("name", known_overlays())
def test_every_overlay_is_explained(name: str) -> None:
    assert f"{name}.overlay.yaml" in DECISIONS
