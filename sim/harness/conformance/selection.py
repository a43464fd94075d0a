"""Which conformance cases `leyden conformance` leaves to the obligations, so that it ends in some seconds.

The rule: a case is left to them if it costs at least `LEAST_MS` of CPU time and is not needed. A case is needed if
without it the cases that stay do not reach a declared item of coverage, or do not find a seeded defect of the charge
service (`tests/seeded_defects`, but for those of copies). `leyden conformance --deep` asks what was left out, and
`leyden fuzz` asks it before the obligations.
"""

from __future__ import annotations

from collections.abc import Mapping

LEAST_MS = 10
# Groups of which no case is needed. Their cases ask obligations, whose derivation costs as much again.
LEFT_OUT_GROUPS: Mapping[str, int] = {"refusals": 480, "control plane": 1_600}
# The cases of the other groups, with the ms of CPU time that each costs.
LEFT_OUT: Mapping[str, Mapping[str, int]] = {
    "lists": {
        "more than a page": 73, "the days of each month": 20,
    },
    "requests": {
        "bodies of a change": 74, "bodies of a static, from 180": 33, "maximum depth and length": 16,
    },
    "restarts": {
        "restart: a cursor stays valid": 46,
    },
    "callbacks": {
        "Retry-After at most doubles each delay": 27, "at most eight attempts in flight": 26,
        "payments of a Static Charge, attempts fail": 23, "what receivers reply is shown": 19,
        "expired, reply reset": 18, "410 stops the callbacks of one Static Charge": 17, "attempt 9 succeeds": 15,
        "completed, reply reset": 14, "burst: two of three, then the third": 14, "attempt 8 succeeds": 13,
        "attempt 7 succeeds": 13, "attempt 6 succeeds": 13, "attempt 5 succeeds": 13,
        "410 while another attempt is in flight": 13, "fault drop": 12, "receiver replies endless": 11,
        "callbacks about expiry and failure": 11, "attempt 4 succeeds": 11, "reorder: two of three": 10,
        "receiver replies 28": 10, "receiver replies 27": 10, "receiver replies 25": 10, "receiver replies 24": 10,
        "attempt 3 succeeds": 10, "an old secret is one of the project, before and after its rotation": 10,
    },
    "static charges": {
        "held while the last slot is used": 14, "a Static Charge ends at a whole second": 14,
    },
}  # fmt: skip


def is_left_out(group: str, name: str) -> bool:
    """Whether a case of a group is left to the obligations."""
    return group in LEFT_OUT_GROUPS or name in LEFT_OUT.get(group, ())
