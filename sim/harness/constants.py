"""Names and defaults that the command line and the engines share. Nothing is imported here."""

from __future__ import annotations

API_KEY = "leyden"
NO_KEY = "nobody"  # in the place of an API key that was not given: no target accepts it
ENGINES = ("conformance", "obligations", "random-walk", "state-machine", "schemathesis")
DEFAULT_ENGINES = ("conformance", "obligations", "random-walk", "state-machine")
DEFAULT_SECONDS = 10.0
EXPORT_FORMATS = {"pytest": ".py", "curl": ".sh", "notebook": ".ipynb"}  # with the endings of the files
PACKAGED_SPEC = "packaged"  # in the place of a file: the specification of this Leyden
REPORT_FORMATS = {  # with the endings of the files
    "text": ".txt",
    "html": ".html",
    "json": ".json",
    "markdown": ".md",
    "junit": ".xml",
    "har": ".har",
    "github": ".github",
}

# A password in URLs, which no error text shows [statuses].
CREDENTIAL = "correct-horse-battery"
