"""All step generators, the configuration of random runs, and the choice of the next step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from leyden.harness.generators import payments, requests, world
from leyden.harness.generators.choices import Choices, one_in, pick
from leyden.harness.generators.run_config import RunConfig, StepGenerator
from leyden.harness.model.model import Model
from leyden.harness.steps import Step, public_functions

START_MS = 1_893_456_000_000  # 2030-01-01T00:00:00Z
STEPS = 30  # of a run of size 1
LARGE = 8  # the largest size
ROWS = 1_001  # that one run in four of the largest size begins with: more than the largest page

GENERATORS: Mapping[str, StepGenerator] = public_functions(requests, payments, world)
_ALWAYS = ("create_charge", "pay", "advance_to", "advance")
# The subjects of runs, each with its generators; a generator that is named twice is chosen twice as often.
SUBJECTS: dict[str, tuple[str, ...]] = {
    "links": ("create_static", "invoice", "invoice", "pay_child", "patch", "pay_request", "verify", "pages"),
    "slots": ("create_slots", "create_slots", "invoice", "invoice", "pay_child", "pay_child", "patch_slots", "resolve",
              "hold_child", "pay_request"),
    "money": ("pay_unusually", "pay_unusually", "hold", "resolve", "resolve", "fail", "short_charge", "wallet"),
    "callbacks": ("receiver", "receiver", "short_charge", "fail", "replay", "pay"),
    "faults": ("fault", "fault", "receiver", "short_charge", "rotate_secret", "advance_to_retention_end", "replay",
               "fail"),
    "bodies": ("invalid_charge", "invalid_charge", "invalid_charge", "invalid_static", "invalid_static",
               "create_static", "patch"),
    "keys": ("idempotent", "idempotent", "repeat_idempotent", "repeat_idempotent", "repeat_idempotent",
             "advance_to_retention_end", "advance_to_retention_end", "get", "rotate_key"),
    "reads": ("get", "list", "pages", "pages", "request", "wallet", "create_static", "invoice", "pay_child"),
    "odd requests": ("odd_request", "odd_request", "request", "request", "rate_limit"),
    "restarts": ("restart", "receiver", "short_charge", "hold", "resolve", "create_slots",
                 "invoice", "pay_child", "idempotent", "repeat_idempotent"),
}  # fmt: skip
# The generators that need a control plane.
_CONTROLLED = public_functions(payments, world).keys() - {"odd_request"}


def random_run_config(
    choices: Choices, *, overlays: Sequence[str] = (), controlled: bool = True, disks: bool = True
) -> RunConfig:
    """A configuration with one or two subjects; one time in eight with all of them.

    Without `controlled` (a control plane) or `disks` (restarts) the generators that need them are left out.
    """
    available = [name for name in SUBJECTS if name != "restarts" or disks]
    subjects = [pick(choices, available)]
    if choices.below(2):
        subjects.append(pick(choices, available))
    if one_in(choices, 8):
        subjects = available
    start_ms = START_MS + pick(choices, (0, 1, 500, 999, 86_399_999))
    names = [*_ALWAYS, *(name for subject in subjects for name in SUBJECTS[subject])]
    usable = tuple(name for name in names if controlled or name not in _CONTROLLED)
    # Most runs are small, some have dozens of rows and open invoices.
    size = LARGE if one_in(choices, 24) else 3 if one_in(choices, 8) else 1
    return RunConfig(usable, start_ms, tuple(overlays), disks and "restarts" in subjects, size)


def next_step(choices: Choices, model: Model, config: RunConfig) -> Step:
    """One step that is possible in the present state of the model."""
    while True:
        step = GENERATORS[pick(choices, config.generators)](choices, model, config)
        if step is not None:
            return step
