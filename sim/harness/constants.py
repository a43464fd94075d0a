"""Names and defaults that the command line and the engines share. Nothing heavy is imported here."""

from __future__ import annotations

from dataclasses import fields

from leyden.harness.model.rules import Interpretation

API_KEY = "leyden"
NO_KEY = "nobody"  # in the place of an API key that was not given: no target accepts it
ENGINES = ("conformance", "random-walk", "state-machine", "schemathesis")
DEFAULT_ENGINES = ("conformance", "random-walk", "state-machine")
DEFAULT_SECONDS = 10.0
OVERLAYS = tuple(switch.name.replace("_", "-") for switch in fields(Interpretation))
EXPORT_FORMATS = {"pytest": ".py", "curl": ".sh", "notebook": ".ipynb"}  # with the endings of the files
