"""Each seeded defect is detected when it is planted and only then, and it violates an existing rule."""

from __future__ import annotations

import re
from collections import Counter
from importlib.resources import files
from typing import Any

import pytest

from leyden import Sandbox
from leyden.server.callbacks.outbox import Outbox
from leyden.server.errors import ContractError
from leyden.world.config import packaged_contract
from tests.seeded_defects.__main__ import main
from tests.seeded_defects.catalogue import DEFECTS, DEFECTS_BY_NAME
from tests.seeded_defects.defect import KINDS, Defect, planted, seeded
from tests.seeded_defects.patches import (
    Wrapper,
    attribute,
    component,
    handler,
    pipeline_part,
    port,
    refusal,
    row,
    schema,
    spec,
)
from tests.seeded_defects.probing import CHARGES, new_charge, send
from tests.support.deep import sampled


@pytest.mark.parametrize("defect", sampled(DEFECTS, 8), ids=lambda defect: defect.name)
def test_a_defect_is_detected_when_it_is_planted_and_only_then(defect: Defect) -> None:
    assert defect.probe(Sandbox) is False, "detected without being planted"
    with planted(defect):
        assert defect.probe(Sandbox) is True, "planted and not detected"
        assert defect.probe(Sandbox) is True, "planted and detected in the first sandbox only"
    assert defect.probe(Sandbox) is False, "detected after the context has ended"


def test_every_defect_has_a_unique_name() -> None:
    assert [name for name, count in Counter(defect.name for defect in DEFECTS).items() if count > 1] == []
    assert [defect.name for defect in DEFECTS_BY_NAME.values()] == list(DEFECTS_BY_NAME)


def test_there_are_several_defects_of_every_kind() -> None:
    counts = Counter(defect.kind for defect in DEFECTS)
    assert set(counts) == set(KINDS)
    assert min(counts.values()) >= 4
    assert len(DEFECTS) >= 70


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_a_description_is_one_sentence_and_the_violated_rule_exists(defect: Defect) -> None:
    assert re.fullmatch(r"[^\n]{20,160}[.]", defect.description)
    form, _, where = defect.violates.partition(": ")
    contract = packaged_contract("charges")
    if form == "decision":
        assert f"\n## {where}\n" in files("leyden.specs").joinpath("DECISIONS.md").read_text()
    elif form == "row":
        resource, source, trigger = where.split()
        assert any((one.source, one.trigger) == (source, trigger) for one in contract.lifecycles[resource].rows)
    else:
        assert form == "spec"
        node: Any = contract.document
        for step in where.split("/")[1:]:
            node = node[step.replace("~1", "/").replace("~0", "~")]


@pytest.mark.parametrize("name", ["description-too-long", "paid-charge-expires", "no-retry"])
def test_a_defective_service_serves_the_unchanged_document(name: str) -> None:
    with Sandbox() as clean, planted(DEFECTS_BY_NAME[name]), Sandbox() as defective:
        assert defective.ask("GET", "/openapi.json") == clean.ask("GET", "/openapi.json")
        assert defective.world.config.contract is clean.world.config.contract


def test_an_earlier_sandbox_keeps_its_contract_and_its_ports() -> None:
    with (
        Sandbox() as clean,
        planted(DEFECTS_BY_NAME["expires-early"]),
        planted(DEFECTS_BY_NAME["amount-with-leading-zeros"]),
    ):
        assert send(clean, "POST", CHARGES, {"amount": "01000", "description": ""}).status == 400
        charge = new_charge(clean, expiresIn=60)
        clean.advance("59.999s")
        assert charge.status == "pending"


def test_two_defects_can_be_planted_at_once() -> None:
    with planted(DEFECTS_BY_NAME["expires-late"]) as late, planted(DEFECTS_BY_NAME["no-retry"]) as once:
        assert late.probe(Sandbox)
        assert once.probe(Sandbox)


@pytest.mark.parametrize("name", ["expired-callback-too-early", "ids-repeated", "invoice-used-twice"])
def test_a_run_with_a_defect_is_deterministic(name: str) -> None:
    def run() -> str:
        with Sandbox(seed=3) as sandbox:
            for amount in ("1000", "2000", "2000"):
                new_charge(sandbox, amount=amount, callbackUrl="http://shop.localhost/")
            sandbox.run()
            return sandbox.world.journal.hash

    with planted(DEFECTS_BY_NAME[name]):
        assert run() == run()


class Renamed(Wrapper):
    """A wrapper around a part whose changed method no longer exists."""

    def no_longer_there(self) -> None:
        """No effect."""


@pytest.mark.parametrize(
    ("plant", "error"),
    [
        (attribute(Outbox, "no_longer_there", lambda original: original), AttributeError),
        (port("no_longer_there", Renamed), LookupError),
        (port("clock", Renamed), AttributeError),
        (pipeline_part("no_longer_there", Renamed), AttributeError),
        (handler("noLongerThere", lambda service, original: original), LookupError),
        (component("NoLongerThere", clock=lambda clock: clock), AttributeError),
        (component("ChargeService", no_longer_there=lambda clock: clock), LookupError),
        (spec(schema("Charge", "noLonger", maxLength=1)), LookupError),
        (spec(row("Charge", "pending", "no_longer", to="expired")), LookupError),
        (spec(refusal("Charge", "completed", "expiry_reached")), LookupError),
        (spec(row("Charge", "pending", "expiry_reached", to="lost")), ContractError),
    ],
)
def test_code_that_no_longer_exists_is_reported(plant: Any, error: type[Exception]) -> None:
    defect = seeded("state", "No effect.", violates="", plant=plant)(lambda make: make() is None)
    with pytest.raises(error), planted(defect):
        defect.probe(Sandbox)


def test_the_table_names_each_defect_with_its_rule(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["expires-late", "races", "--descriptions"]) == 0
    output = capsys.readouterr().out
    assert "| expires-late " in output
    assert DEFECTS_BY_NAME["expires-late"].description in output
    assert sum(line.count("| races ") for line in output.splitlines()) >= 4
    with pytest.raises(SystemExit):
        main(["expires-lately"])
    assert "expires-lately" in capsys.readouterr().err
