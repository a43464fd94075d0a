"""A campaign as JUnit XML: a test suite for each engine, a failure for each violation, a skip for what is not checked.

The cases of the conformance run are test cases of their own. The runs of another engine are one test case, because
their number has no limit.
"""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from leyden.harness.reports.results import CampaignReport, FoundViolation

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def as_junit(report: CampaignReport) -> str:
    """The report as JUnit XML."""
    root = Element("testsuites", name="leyden")
    coverage = report.coverage
    for engine in coverage.runs:
        suite = _suite(root, engine)
        mine = [found for found in report.violations if found.engine == engine]
        if engine == "conformance":
            by_case = {found.case.name: found for found in mine}
            for name, failed in report.cases.items():
                test = _test(suite, engine, name)
                if failed:
                    _fail(test, by_case.get(name))
        else:
            _test(suite, engine, f"{coverage.runs[engine]} runs, {coverage.steps[engine]} steps")
            for found in mine:
                _fail(_test(suite, engine, f"{found.case.name}: {found.key[0]}, {found.key[1]}"), found)
    rest = _suite(root, "completeness")
    for what in coverage.unchecked:
        SubElement(_test(rest, "not checked", what), "skipped", message=_xml(what))
    if report.cut_short:
        SubElement(_test(rest, "campaign", "completed"), "error", message=_xml(f"Cut short: {report.cut_short}"))
    for element in (*root, root):
        for name, tag in (("tests", "testcase"), ("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            element.set(name, str(sum(1 for _ in element.iter(tag))))
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _suite(root: Element, name: str) -> Element:
    return SubElement(root, "testsuite", name=f"leyden {name}")


def _test(suite: Element, group: str, name: str) -> Element:
    return SubElement(suite, "testcase", classname=f"leyden.{group}", name=_xml(name), time="0")


def _fail(test: Element, found: FoundViolation | None) -> None:
    """Add the failure; None: the same check and rule as in a case with fewer steps."""
    if found is None:
        SubElement(test, "failure", message="the same violation as in another case of this report")
        return
    expectation = found.case.expectation or {}
    message = f"{expectation.get('where')}: expected {expectation.get('expected')}, observed"
    failure = SubElement(test, "failure", message=_xml(f"{message} {expectation.get('observed')}"))
    failure.set("type", expectation.get("check", ""))
    failure.text = _xml(found.case.describe())


def _xml(text: str) -> str:
    """The text with escapes for the characters that XML does not allow."""
    return _NOT_XML.sub(lambda char: f"\\x{ord(char[0]):02x}", text)
