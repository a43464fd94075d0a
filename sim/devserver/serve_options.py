"""The options of `leyden serve`."""

from __future__ import annotations

import argparse

from leyden.devserver.argument_types import (
    admin_token,
    autopay,
    base_url,
    callback_timeout,
    count,
    data_folder,
    host_name,
    ip_range,
    listen_host,
    port,
    rate,
    request_count,
    seed,
    start_instant,
    text_or_file,
    webhook_secret,
)
from leyden.server.callbacks.egress import MODES
from leyden.server.gc_pause import gc_paused

OVERLAY = "an overlay for the spec: strict, lenient, ... (an unknown name lists them all), or a file; repeatable"


def describe_serve(serve: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    serve.add_argument(
        "--host", default="127.0.0.1", type=listen_host, help="address to listen on (default: %(default)s)"
    )
    serve.add_argument(
        "--port", default=8402, type=port, help="port to listen on; 0 picks a free one (default: %(default)s)"
    )
    serve.add_argument(
        "--data",
        default=":memory:",
        type=data_folder,
        metavar="DIR",
        help="directory to store all data in (default: %(default)s, which is lost at the end)",
    )
    serve.add_argument(
        "--durability",
        choices=("os", "interval", "always"),
        default="os",
        help="what a response waits for, with --data: os, the data is with the operating system (it survives the end of"
        " this process, not a power failure); interval, the same, and it is on the disk within about a second; always,"
        " it is on the disk (default: %(default)s)",
    )
    serve.add_argument(
        "--api-key",
        action="append",
        metavar="KEY",
        help="the API key of a project; repeat for more projects; with --data, a key that was issued there opens its"
        " project (default: leyden, or a random one when other machines reach the server)",
    )
    serve.add_argument(
        "--start",
        type=start_instant,
        metavar="TIME",
        help="the instant at which the clock starts (default: real time); now sets the clock of an existing --data to"
        " the system clock",
    )
    serve.add_argument(
        "--rate",
        type=rate,
        help="sandbox seconds per real second; 0 pauses the clock (default: 1, or the rate at which --data was left)",
    )
    serve.add_argument("--seed", type=seed, help="seed of all random choices (default: random)")
    serve.add_argument(
        "--keep",
        type=count,
        metavar="N",
        help="of the Charges, Static Charges, payments and callbacks that ended, and of journal entries, posts of an"
        " inbox and idempotency keys, keep the last N each, and posts of the N inboxes (at least 100) that received"
        " last, to bound the memory (default: remove only journal entries before the last 100,000, and posts before the"
        " last 10,000)",
    )
    serve.add_argument("--spec", metavar="FILE", help="serve this document instead of the packaged one")
    serve.add_argument("--overlay", action="append", default=[], type=text_or_file, metavar="NAME", help=OVERLAY)
    serve.add_argument(
        "--egress",
        choices=MODES,
        help="addresses to which callbacks are sent: loopback, 127.0.0.0/8 and ::1; public, public addresses; none,"
        " they are only recorded (default: loopback when listening on loopback, public otherwise)",
    )
    serve.add_argument(
        "--egress-allow",
        action="append",
        default=[],
        type=ip_range,
        metavar="CIDR",
        help="additional network to which callbacks are sent; repeatable",
    )
    serve.add_argument(
        "--callback-timeout",
        type=callback_timeout,
        metavar="SPAN",
        help="the longest wait for the response of a receiver on the network, in real time: 100ms to 60s (default: that"
        " of the specification, 15s)",
    )
    serve.add_argument(
        "--webhook-secret",
        type=webhook_secret,
        metavar="whsec_...",
        help="the secret that signs callbacks (default: derived from the seed; equal seeds give equal secrets)",
    )
    serve.add_argument(
        "--public-url",
        type=base_url,
        metavar="URL",
        help="base URL of the LNURLs for wallets (default: the address of this server); one of another host is that of"
        " a proxy, through which other machines reach the server",
    )
    serve.add_argument(
        "--allow-host",
        type=host_name,
        action="append",
        default=[],
        metavar="NAME",
        help="additional name for which requests are answered, besides localhost and the names below it, IP"
        " addresses, the name of this machine and that of --public-url; repeatable",
    )
    serve.add_argument(
        "--lnurl-budget",
        type=request_count,
        default=3_000,
        metavar="N",
        help="requests to LNURL without an API key that one address may send at once, and again as many in each minute"
        " of real time; all addresses five times as many; 0: any number (default: %(default)s)",
    )
    serve.add_argument(
        "--admin-token",
        type=admin_token,
        metavar="TOKEN",
        help="the token with which sandboxes are created, listed, reset and deleted (POST /sandbox/v1/sandboxes); by"
        " default none is needed, or a random one when other machines reach the server",
    )
    serve.add_argument(
        "--ready-file",
        metavar="FILE",
        help="write the URL to this file when requests are accepted, and remove the file at the end",
    )
    serve.add_argument(
        "--pid-file", metavar="FILE", help="write the process id to this file, and remove the file at the end"
    )
    serve.add_argument(
        "--no-control", action="store_true", help="do not serve the control plane (/sandbox/v1) and the console"
    )
    serve.add_argument(
        "--network",
        type=text_or_file,
        metavar="WHAT",
        help="how payments are made: direct, or over a simulated network such as scale-free:400, hub:50, line:4 or"
        " star:12, or over that of a file that LND or Core Lightning printed, such as graph.json,shop=ACINQ, or of"
        " CLoTH, channels.csv,edges=edges.csv; conditions may follow, such as star:12,ideal or"
        " star:12,liquidity=bimodal,shop=random,payer=lnd (default: direct, or"
        " the network of --data)",
    )
    serve.add_argument(
        "--autopay",
        action="append",
        default=[],
        type=autopay,
        metavar="RULE",
        help="a payer that pays each new Charge by itself: after=2s, or outcome=hold,share=0.5,description=*tip*;"
        " repeatable, the first rule that matches a Charge pays it; the rules of this start replace those of an"
        " earlier one with the same --data",
    )
    serve.add_argument(
        "--mock-unbound", action="store_true", help="answer operations that have no handler with their examples"
    )
    serve.set_defaults(run=_serve)


def _serve(options: argparse.Namespace) -> int:
    from leyden.server.system.stop_signals import stop_signals_held

    # The collector would take a third of the start (`serve` pauses it again while it builds the worlds).
    with gc_paused(freeze=True), stop_signals_held():
        from leyden.devserver.serve import serve

    return serve(options)
