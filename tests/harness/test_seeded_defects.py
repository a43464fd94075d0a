"""The defect gallery: each defect is really there when it is planted, is nowhere else, and breaks a promise made."""

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
from tests.seeded_defects.catalogue import CATALOGUE, DEFECTS
from tests.seeded_defects.defect import KINDS, Defect, planted, seeded
from tests.seeded_defects.probing import CHARGES, new_charge, send
from tests.seeded_defects.seams import Through, attribute, gate, handler, part, port, refusal, row, schema, spec


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_a_defect_shows_when_it_is_planted_and_only_then(defect: Defect) -> None:
    assert defect.probe(Sandbox) is False, "the clean service has it"
    with planted(defect):
        assert defect.probe(Sandbox) is True, "planted, and not seen"
        assert defect.probe(Sandbox) is True, "planted, and seen in the first sandbox only"
    assert defect.probe(Sandbox) is False, "it stayed behind"


def test_every_defect_has_a_name_of_its_own() -> None:
    assert [name for name, count in Counter(defect.name for defect in DEFECTS).items() if count > 1] == []
    assert [defect.name for defect in CATALOGUE.values()] == list(CATALOGUE)


def test_there_are_several_of_every_kind_and_many_in_all() -> None:
    counts = Counter(defect.kind for defect in DEFECTS)
    assert set(counts) == set(KINDS)
    assert min(counts.values()) >= 4
    assert len(DEFECTS) >= 70


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_a_story_is_one_sentence_and_the_promise_it_breaks_was_made(defect: Defect) -> None:
    assert re.fullmatch(r"[^\n]{20,160}[.]", defect.story)
    form, _, where = defect.breaks.partition(": ")
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
def test_a_defective_service_shows_the_true_document(name: str) -> None:
    with Sandbox() as clean, planted(CATALOGUE[name]), Sandbox() as bent:
        assert bent.ask("GET", "/openapi.json") == clean.ask("GET", "/openapi.json")
        assert bent.world.config.contract is clean.world.config.contract


def test_a_sandbox_made_before_keeps_its_contract_and_its_ports() -> None:
    with Sandbox() as clean, planted(CATALOGUE["expires-early"]), planted(CATALOGUE["amount-with-leading-zeros"]):
        assert send(clean, "POST", CHARGES, {"amount": "01000", "description": ""}).status == 400
        charge = new_charge(clean, expiresIn=60)
        clean.advance("59.999s")
        assert charge.status == "pending"


def test_two_defects_can_be_planted_at_once() -> None:
    with planted(CATALOGUE["expires-late"]) as late, planted(CATALOGUE["no-retry"]) as once:
        assert late.probe(Sandbox)
        assert once.probe(Sandbox)


@pytest.mark.parametrize("name", ["told-before-it-is-so", "ids-repeated", "invoice-used-twice"])
def test_a_planted_run_can_be_repeated_to_the_byte(name: str) -> None:
    def run() -> str:
        with Sandbox(seed=3) as sandbox:
            for amount in ("1000", "2000", "2000"):
                new_charge(sandbox, amount=amount, callbackUrl="http://shop.localhost/")
            sandbox.run()
            return sandbox.world.journal.hash

    with planted(CATALOGUE[name]):
        assert run() == run()


class Renamed(Through):
    """Something put before a part that no longer does what is bent here."""

    def no_longer_there(self) -> None:
        """Nothing."""


@pytest.mark.parametrize(
    ("plant", "error"),
    [
        (attribute(Outbox, "no_longer_there", lambda original: original), AttributeError),
        (port("no_longer_there", Renamed), LookupError),
        (port("clock", Renamed), AttributeError),
        (gate("no_longer_there", Renamed), AttributeError),
        (handler("noLongerThere", lambda made, original: original), LookupError),
        (part("NoLongerThere", clock=lambda clock: clock), AttributeError),
        (part("ChargeService", no_longer_there=lambda clock: clock), LookupError),
        (spec(schema("Charge", "noLonger", maxLength=1)), LookupError),
        (spec(row("Charge", "pending", "no_longer", to="expired")), LookupError),
        (spec(refusal("Charge", "completed", "expiry_reached")), LookupError),
        (spec(row("Charge", "pending", "expiry_reached", to="lost")), ContractError),
    ],
)
def test_a_place_that_is_gone_is_said_aloud(plant: Any, error: type[Exception]) -> None:
    defect = seeded("state", "Nothing.", breaks="", plant=plant)(lambda make: make() is None)
    with pytest.raises(error), planted(defect):
        defect.probe(Sandbox)


def test_the_table_names_each_defect_with_its_promise(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["expires-late", "races", "--stories"]) == 0
    said = capsys.readouterr().out
    assert "| expires-late " in said
    assert CATALOGUE["expires-late"].story in said
    assert sum(line.count("| races ") for line in said.splitlines()) >= 4
    with pytest.raises(SystemExit):
        main(["expires-lately"])
    assert "expires-lately" in capsys.readouterr().err
