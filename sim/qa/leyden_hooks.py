"""Registers the checks of Leyden with Schemathesis; `schemathesis.toml` loads this file."""

from __future__ import annotations

import os

from leyden.schemathesis import register_checks

register_checks(
    api_key=os.environ["LEYDEN_API_KEY"],
    second_api_key=os.environ.get("LEYDEN_SECOND_API_KEY"),
    overlays=(),  # those that the service is served with, for example ("strict",)
)
