"""Checks of commits that a disk refuses: nothing was changed, and the request can be repeated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from leyden.harness.control.host import Host, violation
from leyden.harness.control.state_checks import ORIGIN, compare, compare_values, do
from leyden.harness.steps import Step
from leyden.harness.targets.disk import PARTIAL, REFUSED, Disk, Fault
from leyden.harness.targets.hosted import ENDS

SYNC = "sync"  # the commit is written, and the disk refuses to keep it
FULL = (REFUSED, PARTIAL, SYNC)  # nothing of the commit is written, or half of it, or all
LEFT = "left"  # the refused request is not repeated
_FULL_STATUS = 507


def check_full_disk(make: Callable[[bool], Host], step: Mapping[str, Any]) -> None:
    """{"do": "control_full_disk", "how": one of `FULL`, "options"?, "steps", "refused": [step], "end"?: one of `ENDS`,
    "check"?: "left", "then"}: do the steps at two servers. The disk of one of them refuses the commit of the step
    `refused`: its response is 507, and everything is as at the other server, also after a start. When there is room, it
    is repeated, and done at the other one; everything is the same, also after the steps of `then`. With `SYNC`
    (`--durability always`) the change was made, and stays: it is not repeated. With "left" it was not made, and is not
    repeated: nothing that it would have begun comes later."""
    reference, other = make(False), make(True)
    for one in step["steps"]:
        do(reference, one)
        do(other, one)
    [refused] = step["refused"]
    answers = {label: list(found) for label, found in other.answers.items()}
    disk = Disk(other.server.store_folder)
    with disk.in_use():
        disk.arm(Fault("fsync", 1, REFUSED) if step["how"] == SYNC else Fault("write", 1, step["how"]))
        other.send({**refused, "status": _FULL_STATUS, "count": 1})
    where, mask = "after a request whose commit the disk refused", ORIGIN
    if not disk.failed:
        raise violation(f"{refused['method']} {refused['target']}", "it writes a commit", "nothing is written")
    other.answers = answers
    again: tuple[Step, ...] = (refused,)
    if step["how"] == SYNC:
        once: Any = {**refused, "count": 1}
        do(reference, once)
        reference.answers = {label: list(found) for label, found in answers.items()}
        where, again = "after a request whose commit the disk did not confirm", ()
    elif step.get("check") == LEFT:
        again = ()
    compare(reference, other, mask, where, filtered=False)
    if "end" in step:
        other.server.restart(step["end"])
        other.forget()
        where, mask = f"{where}, {step['end']} and a start", ENDS[0]
    for one in (*again, *step["then"]):
        do(reference, one)
        do(other, one)
    compare_values(reference.answers, other.answers, mask, f"the answers {where}")
    compare(reference, other, mask, f"{where}, and the steps after it", filtered=False)
