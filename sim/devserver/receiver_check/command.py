"""`leyden receiver-check URL`: runs the receiver check and writes its report."""

from __future__ import annotations

import argparse

import orjson

from leyden.devserver.receiver_check.check import Report, check_receiver
from leyden.devserver.receiver_check.report import report_resource, report_text
from leyden.devserver.receiver_check.report_html import report_html
from leyden.devserver.receiver_check.session import KnownIds
from leyden.devserver.report_page import check_report, write_report
from leyden.server.callbacks.egress import Egress
from leyden.server.system.event_loop import run_until_stopped
from leyden.server.system.http_client.transport import HttpTransport
from leyden.world.config import packaged_contract

INCOMPLETE = 3  # the exit status when something could not be checked


def receiver_check(options: argparse.Namespace) -> int:
    """Check an endpoint.

    Returns 0 if it reaches the wanted grade, 1 if not, and 3 if nothing could be sent or, with `--require-complete`,
    if something was not checked. Raises `LeydenError` when the check cannot be made, or a report cannot be written.
    """
    for place in (options.json, options.html):
        check_report(place)
    report = run_until_stopped(_run_check(options))
    if "-" not in (options.json, options.html):
        print(report_text(report), end="")
    write_report(options.json, orjson.dumps(report_resource(report), option=orjson.OPT_INDENT_2).decode() + "\n")
    write_report(options.html, report_html(report))
    if report.grade is None:
        return INCOMPLETE
    if not report.reaches(options.grade):
        return 1
    return INCOMPLETE if options.require_complete and report.not_checked else 0


async def _run_check(options: argparse.Namespace) -> Report:
    egress = Egress(options.egress, allow=options.egress_allow)
    transport = HttpTransport.within(egress)
    try:
        return await check_receiver(
            options.url,
            transport,
            secret=options.secret,
            contract=packaged_contract("charges", tuple(options.overlay)),
            known=KnownIds(options.internal_id, options.amount, options.charge_id),
            only=options.only,
            timeout_s=options.timeout,
        )
    finally:
        await transport.close()
