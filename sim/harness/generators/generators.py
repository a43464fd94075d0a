"""Rules: what may be done next, in plain steps. One set for the walk, the Hypothesis machine and everybody else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from leyden.harness.generators.choices import Dice, chance, pick
from leyden.harness.generators.payments import PAYING
from leyden.harness.generators.requests import ASKING
from leyden.harness.generators.world import WORLD
from leyden.harness.model.model import Model
from leyden.harness.runs.run_config import Rule, Scene, Step

START_MS = 1_893_456_000_000  # 2030-01-01T00:00:00Z
STEPS = 30  # of a run

RULES: Mapping[str, Rule] = {**ASKING, **PAYING, **WORLD}
_ALWAYS = ("create_charge", "pay", "advance_to", "advance")
# What a run can be about: the rules that take part then, some of them more often.
SUBJECTS: dict[str, tuple[str, ...]] = {
    "links": ("create_static", "invoice", "invoice", "pay_child", "patch", "terms", "verify", "list"),
    "slots": ("create_slots", "create_slots", "invoice", "invoice", "pay_child", "pay_child", "patch_slots", "resolve",
              "hold_child", "terms"),
    "money": ("pay_oddly", "pay_oddly", "hold", "resolve", "resolve", "fail", "short_charge", "wallet"),
    "callbacks": ("receiver", "receiver", "short_charge", "fail", "replay", "pay"),
    "faults": ("fault", "fault", "receiver", "short_charge", "rotate", "forget", "replay", "fail"),
    "bodies": ("bad_charge", "bad_charge", "bad_charge", "bad_static", "bad_static", "create_static", "patch"),
    "keys": ("once", "once", "once_more", "once_more", "once_more", "forget", "forget", "get",
             "spare_key"),
    "looks": ("get", "list", "list", "wallet", "create_static", "invoice", "pay_child"),
    "oddities": ("odd", "odd", "odd", "limit"),
    "restarts": ("restart", "receiver", "short_charge", "hold", "resolve", "create_slots",
                 "invoice", "pay_child", "once", "once_more"),
}  # fmt: skip
_CONTROLLED = frozenset(
    {"pay", "advance_to", "advance", "pay_oddly", "hold", "resolve", "fail", "receiver", "fault", "limit", "rotate",
     "replay", "restart", "pay_child", "hold_child", "spare_key"}
)  # fmt: skip


def scene(dice: Dice, *, overlays: Sequence[str] = (), controlled: bool = True, disks: bool = True) -> Scene:
    """Choose what a run is like: one or two subjects, and now and then all of them."""
    subjects = [name for name in SUBJECTS if name != "restarts" or disks]
    chosen = [pick(dice, subjects)]
    if dice.below(2):
        chosen.append(pick(dice, subjects))
    if chance(dice, 8):
        chosen = subjects
    start_ms = START_MS + pick(dice, (0, 1, 500, 999, 86_399_999))
    names = [*_ALWAYS, *(name for subject in chosen for name in SUBJECTS[subject])]
    known = tuple(name for name in names if controlled or name not in _CONTROLLED)
    return Scene(known, start_ms, tuple(overlays), disks and "restarts" in chosen)


def next_step(dice: Dice, model: Model, around: Scene) -> Step:
    """One step that makes sense now."""
    while True:
        name = pick(dice, around.rules)
        step = RULES[name](dice, model, around)
        if step is not None:
            return step
