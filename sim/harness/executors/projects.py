"""The project of a step: that of the run, or the second one where a target has it."""

from __future__ import annotations

from leyden.harness.constants import NO_KEY
from leyden.harness.session.session import Session
from leyden.harness.steps import Step, StepImpossible
from leyden.harness.targets.target import PROJECT, SECOND_PROJECT

SECOND_CLOCK = "steps of a second project: its clock may be another one, as that of a served Leyden is"


def project_of(session: Session, step: Step, *, only_reads: bool = False) -> str:
    """The project whose API key the step uses, at any depth of a case. Raises `StepImpossible` for a second project
    without a key, and, except where the step `only_reads`, for one with a sandbox of its own: its clock and its data
    are not those of the run."""
    if step.get("by") != "second":
        return PROJECT
    if not session.target.shared and not only_reads:
        session.unchecked[SECOND_CLOCK] = None
        raise StepImpossible("the target has one project")
    if session.target.keys[SECOND_PROJECT] == NO_KEY:
        session.unchecked["isolation of projects: give --second-api-key"] = None
        raise StepImpossible("the target has no second API key")
    if session.others.have_the_ids:
        session.unchecked["isolation of projects: the second one's sandbox has the seed of a run, so the same ids"] = (
            None
        )
        raise StepImpossible("the second project has the ids of this run")
    return SECOND_PROJECT
