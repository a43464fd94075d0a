"""A hosted server in a process of its own: `python -m leyden.harness.control.other_process` reads the directory, the
options and the steps as JSON, and writes the answers and the state."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from leyden.harness.control.host import Host
from leyden.harness.control.state_checks import do, kept_state
from leyden.harness.targets.hosted import ENDS, HostedServer


def run(given: Any) -> dict[str, Any]:
    """Do the steps, and return the answers and the state."""
    server = HostedServer(given["options"], Path(given["folder"]), real_ms=given["now"])
    try:
        host = Host(server)
        host.answers = given["answers"]
        for one in given["steps"]:
            do(host, one)
        return {"answers": host.answers, "state": kept_state(host, ENDS[0])}
    finally:
        server.close()


if __name__ == "__main__":
    json.dump(run(json.load(sys.stdin)), sys.stdout)
