"""The floor of a create: parse, sign an invoice, append a line to a file and answer, under the server of `serve`."""

from __future__ import annotations

import os
import tempfile
from time import time
from uuid import uuid4

import orjson
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leyden.lightning.bolt11.codec import InvoiceSigner
from leyden.server.system.http_server.listening import base_url, open_listener, run_server

_SIGNER = InvoiceSigner(bytes(range(1, 33)))


def create_with(journal: int) -> Route:
    """The route that answers like the creation of a Charge; `journal` is an open file."""

    async def create(request: Request) -> Response:
        """A Charge, without validation, rows, clock or timers."""
        body = orjson.loads(await request.body())
        seconds, secret = int(time()), os.urandom(32)
        invoice = _SIGNER.sign(
            amount_msat=int(body["amount"]),
            timestamp_s=seconds,
            payment_hash=secret,
            payment_secret=secret,
            description=body["description"],
            expiry_s=body["expiresIn"],
        )
        charge = {
            "id": str(uuid4()),
            "unit": "msats",
            "status": "pending",
            **body,
            "createdAt": seconds,
            "expiresAt": seconds + body["expiresIn"],
            "confirmedAt": None,
            "invoice": {"request": invoice, "uri": f"lightning:{invoice}"},
        }
        os.write(journal, orjson.dumps(charge) + b"\n")
        answer = orjson.dumps({"success": True, "message": "Charge created", "data": charge})
        return Response(answer, media_type="application/json")

    return Route("/floor", create, methods=["POST"])


async def ready(request: Request) -> Response:
    """The first answer."""
    return Response(b"{}", media_type="application/json")


def main() -> None:
    """Serve until a signal stops it."""
    with tempfile.TemporaryFile() as journal:
        app = Starlette(routes=[create_with(journal.fileno()), Route("/ready", ready)])
        listener = open_listener("127.0.0.1", 0)
        run_server(app, listener, ready=lambda: print(f"floor listening on {base_url(listener)}", flush=True))


if __name__ == "__main__":
    main()
