"""SIGTERM while many callbacks are due: the process ends by itself, and the next one continues."""

from __future__ import annotations

import hashlib
import signal
import socket
import threading
from collections import Counter
from http.client import HTTPException
from pathlib import Path

from leyden import Sandbox
from leyden.server.callbacks.attempts import AttemptLog
from tests.support.deep import deep_or
from tests.support.forked import forked_leyden
from tests.support.served import Client

COUNT = deep_or(bounded=1_000, full=3_000)


def test_a_stop_while_thousands_of_callbacks_are_due_loses_nothing(tmp_path: Path) -> None:
    folder = tmp_path / hashlib.sha256(b"leyden").hexdigest()[:16]
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # nothing listens there
        url = f"http://127.0.0.1:{bound.getsockname()[1]}/hook"
        with Sandbox(seed=7, data=folder) as sandbox:
            ids = [
                sandbox.charges.create(amount="1000", description="tea", expiresIn=60, callbackUrl=url).id
                for _ in range(COUNT)
            ]
        process = forked_leyden("serve", "--port", "0", "--rate", "0", "--data", str(tmp_path))
        try:
            assert process.stdout is not None
            client = Client(process.stdout.readline().split()[-1])

            def advance() -> None:
                try:
                    client("POST", "/sandbox/v1/clock/advance", {"by": "24h"})
                except (OSError, HTTPException):
                    """The server ended first."""

            moving = threading.Thread(target=advance)
            moving.start()
            while not client.ok("POST", "/sandbox/v1/deliveries/wait", {"status": "any", "timeout": 0})["reached"]:
                """Wait until the first Charge has expired."""
            extra = client.ok("POST", "/v0/charges", {"amount": "1000", "description": "during the advance"})["data"]
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
            moving.join(60)
        finally:
            process.kill()
            process.communicate()
    with Sandbox(data=folder) as sandbox:
        charges = list(sandbox.world.service.charges.charges)
        deliveries = sandbox.world.service.outbox.deliveries()
        assert [row["id"] for row in charges if row["id"] != extra["id"]] == ids
        assert [row["description"] for row in charges if row["id"] == extra["id"]] == ["during the advance"]
        expired = [row["id"] for row in charges if row["status"] == "expired" and row["id"] != extra["id"]]
        assert [row["resource_id"] for row in deliveries] == expired
        assert expired
        sandbox.run()
        rows = sandbox.world.service.outbox.deliveries()
        assert len(rows) == COUNT
        assert Counter(row["status"] for row in rows).keys() <= {"blocked", "exhausted"}
        assert all(AttemptLog(row).attempt_count for row in rows)
