"""What is noted of a stored sandbox when a server opens it: its clock, its URLs and its seed, where they are others."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from leyden.devserver.clock_changes import mend_ahead, note, opened_texts, start_now
from leyden.world.time.process_clock import NOW
from leyden.world.world import World


def note_opening(
    world: World, saved: Mapping[str, Any], options: argparse.Namespace, now_ms: int, public_url: str, seed: int | None
) -> None:
    """Set the clock of a stored sandbox if that is asked for, and note what is otherwise than before. `seed` is that of
    the options, if they have one."""
    if options.start == NOW:
        texts = [start_now(world, saved["now"], now_ms)]
    else:
        texts = opened_texts(saved, world.config.rate, now_ms, lambda: mend_ahead(world, now_ms))
    if (former := world.moved_to(public_url)) is not None:
        texts.append(_moved_text(former, public_url))
    for text in texts:
        note(world, text)
    if seed is not None and world.config.seed != seed:
        world.run_notes.append(_other_seed_text(world.config.seed, seed))


def _moved_text(former: str, public_url: str) -> str:
    """That the LNURLs of Static Charges are others than before."""
    return (
        f"the LNURLs of this sandbox now lead to {public_url}, and those given before lead to {former}: get the Static"
        " Charges again, or start with the same --port and --public-url"
    )


def _other_seed_text(seed: int, given: int) -> str:
    """That a reset or a restore gave the run another seed than that of the option."""
    return (
        f"the present run has the seed {seed}, which a reset or a restore gave it, and not {given}, that of --seed: its"
        f' ids are others; POST /sandbox/v1/reset with {{"seed": {given}}} begins a run with that seed'
    )
