"""A HAR file (HTTP Archive 1.2) with the requests and responses of the cases that have a violation."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from leyden.harness.model.rules import iso
from leyden.harness.reports.results import CampaignReport, FoundViolation
from leyden.harness.session.exchanges import Exchange
from leyden.server.version import VERSION

_UNKNOWN = -1  # of a size or a time, in HAR
_HTTP = "HTTP/1.1"
_IN_PROCESS_URL = "http://localhost"


def as_har(report: CampaignReport) -> str:
    """The report as HAR: a page for each violation. Times are those of the service's clock."""
    pages, entries = [], []
    for number, found in enumerate(report.violations, 1):
        page = f"violation_{number}"
        started_ms = found.exchanges[0].at_ms if found.exchanges else found.case.start_ms
        title = f"{found.key[0]}, {found.key[1]}: {found.case.name}"
        pages.append({
            "startedDateTime": iso(started_ms), "id": page, "title": title, "pageTimings": {},
            "comment": found.case.describe(),
        })  # fmt: skip
        entries += [_entry(page, found, one) for one in found.exchanges]
    creator = {"name": "Leyden", "version": VERSION}
    log = {"version": "1.2", "creator": creator, "pages": pages, "entries": entries, "comment": report.summary()}
    return json.dumps({"log": log}, indent=1) + "\n"


def _entry(page: str, found: FoundViolation, one: Exchange) -> dict[str, Any]:
    request, response = one.request, one.response
    url = (found.url or _IN_PROCESS_URL) + request.path
    sent: dict[str, Any] = {
        "method": request.method,
        "url": url,
        "httpVersion": _HTTP,
        "cookies": [],
        "headers": _pairs(request.headers),
        "queryString": _pairs(parse_qsl(urlsplit(url).query, keep_blank_values=True)),
        "headersSize": _UNKNOWN,
        "bodySize": len(request.body),
    }
    if request.body:
        media = next((value for name, value in request.headers if name.lower() == "content-type"), "")
        sent["postData"] = {"mimeType": media, "params": [], "text": request.body.decode("utf-8", "replace")}
    got = {
        "status": response.status,
        "statusText": HTTPStatus(response.status).phrase if response.status in set(HTTPStatus) else "",
        "httpVersion": _HTTP,
        "cookies": [],
        "headers": _pairs(response.headers.items()),
        "content": {
            "size": len(response.body),
            "mimeType": response.headers.get("content-type", ""),
            "text": response.body.decode("utf-8", "replace"),
        },
        "redirectURL": response.headers.get("location", ""),
        "headersSize": _UNKNOWN,
        "bodySize": len(response.body),
    }
    timings = {"send": 0, "wait": 0, "receive": 0}
    return {
        "pageref": page, "startedDateTime": iso(one.at_ms), "time": 0, "request": sent, "response": got, "cache": {},
        "timings": timings,
    }  # fmt: skip


def _pairs(values: Any) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in values]
