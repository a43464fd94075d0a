"""The conformance run of Leyden on a service: one test for each group of cases."""

from __future__ import annotations

import os

import leyden
from leyden.harness.pytest_conformance import ConformanceGroup


@leyden.conformance(
    os.environ.get("LEYDEN_URL", "http://127.0.0.1:8402"),  # each case resets the sandbox of this key
    api_key=os.environ.get("LEYDEN_API_KEY", "leyden"),
    adapter="",  # for another implementation: the file of its adapter, or "none"
)
def test_the_service_conforms(group: ConformanceGroup) -> None:
    group.check()
