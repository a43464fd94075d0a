"""No text of a case is HTML, a link or another mark in the Markdown of a notebook, or in a report."""

from __future__ import annotations

import json
from typing import Any

import pytest
from markdown_it import MarkdownIt

from leyden.harness.reports.exports import as_notebook
from leyden.harness.reports.formats import FORMATS
from leyden.harness.reports.results import CampaignReport, FoundViolation
from leyden.harness.runs.cases import read_case

PAYLOADS = (
    "x <script>alert(1)</script> <img src=x onerror=alert(1)>",
    "[a link](javascript:alert) ![image](http://x.example/y) <http://x.example>",
    "a\n# heading\n\n<script>alert(1)</script>\r\n[b](http://x.example)",
    "*bold* _it_ `code` &lt;b&gt; $x$ | ~~s~~ \\<script>",
)
CASE: dict[str, Any] = {
    "leydenCase": 3, "leyden": "", "name": "x", "specHash": "", "specPatch": [], "overlays": [], "seed": 0,
    "start": "2030-01-01T00:00:00.000Z", "disk": False, "foundOn": "another implementation",
    "target": "http://127.0.0.1:1", "adapter": "none", "journalHash": None,
    "steps": [{"do": "create_charge", "as": "c1", "body": {"amount": "1000", "description": "tea"}}],
    "expectation": {"check": "echo", "ruleId": "r", "where": "w", "expected": "e", "observed": "o"},
}  # fmt: skip
TEXTS = ("/name", "/target", "/adapter", "/steps/0/as", "/steps/0/body/description", "/leyden",
         *(f"/expectation/{name}" for name in ("ruleId", "where", "expected", "observed", "more")))  # fmt: skip
FOUND_ON = ("another implementation", "in process")


def changed(pointer: str, text: str, found_on: str) -> dict[str, Any]:
    document = json.loads(json.dumps({**CASE, "foundOn": found_on}))
    *parents, last = pointer.split("/")[1:]
    place: Any = document
    for name in parents:
        place = place[int(name) if isinstance(place, list) else name]
    if pointer == "/target":  # the schema of a case allows no other text
        text = f"http://a/{''.join(one for one in text if '!' <= one <= '~')}"
    place[last] = text
    return document  # type: ignore[no-any-return]


@pytest.mark.filterwarnings("ignore::leyden.files.json_files.VersionWarning")
@pytest.mark.parametrize("payload", PAYLOADS)
@pytest.mark.parametrize("pointer", TEXTS)
@pytest.mark.parametrize("found_on", FOUND_ON)
def test_no_text_of_a_case_is_markdown(pointer: str, payload: str, found_on: str) -> None:
    case = read_case(changed(pointer, payload, found_on))
    for cell in json.loads(as_notebook(case))["cells"]:
        if cell["cell_type"] == "markdown":
            page = MarkdownIt("commonmark").render("".join(cell["source"]))
            marks = ("<script", "<img", "<a ", "<em", "<strong", "<h2", "<h3")
            assert not [mark for mark in marks if mark in page], page
            assert page.count("<h1>") <= 1
    report = CampaignReport(violations=[FoundViolation("random-walk", case)])
    page = FORMATS["html"](report)
    assert "<script" not in page
    assert "<img" not in page
    lines = FORMATS["github"](report).splitlines()
    assert all(line.startswith("::") for line in lines)
