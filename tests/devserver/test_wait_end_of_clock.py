"""At the end of the clock the note of a wait proposes nothing that is due later, and says of what is that it never
comes."""

from __future__ import annotations

import itertools
import random
import re
from contextlib import suppress

import pytest

from leyden import Sandbox
from leyden.errors import LeydenError
from tests.devserver.test_wait_claims import EVENTS, MORE, STATUSES
from tests.devserver.test_wait_facts import HOOKS, WAIT, create, create_static
from tests.support.deep import deep_or

END = "2999-12-31T23:59:59Z"
NEVER = r"(?!, which never comes, because the clock ends at 2999-12-31T23:59:59\.000Z)"


def noted(sandbox: Sandbox, **wanted: object) -> str:
    return str(sandbox.ask("POST", WAIT, {"timeout": 0, **wanted}).get("note", ""))


@pytest.mark.parametrize(
    ("start", "life"),
    [
        ("2999-12-31T23:59:59Z", None),
        ("2999-12-31T23:59:58.900Z", ", with an expiresIn of at most 1"),
        ("2999-12-31T23:49:59Z", ""),
        ("2999-12-31T23:50:00Z", ", with an expiresIn of at most 599"),
    ],
)
def test_the_expiry_of_a_new_charge_is_proposed_only_if_it_comes(start: str, life: str | None) -> None:
    with Sandbox(seed=1, start=start) as sandbox:
        any_event, expiry = noted(sandbox), noted(sandbox, event="charge.expired")
        assert "create one with a callbackUrl, then pay it" in any_event
        if life is None:
            assert "expires" not in any_event
            assert re.search(
                r"earliest expiry .* is 3000-01-01T00:00:00.000Z, which never comes, because .*: w", expiry
            )
            assert expiry.endswith(": wait for charge.completed or charge.error")
            return
        for note in (any_event, expiry):
            assert note.endswith(f"advance the clock until it expires{life}"), note
        limit = re.search(r"at most (\d+)", life)
        created = sandbox.charges.create(
            amount="1000", description="tea", callbackUrl=HOOKS[0], **({"expiresIn": int(limit[1])} if limit else {})
        )
        sandbox.ask("POST", "/sandbox/v1/clock/advance", {"to": END})
        assert created.status == "expired"


def test_a_part_of_a_payment_after_the_end_of_the_clock_never_comes() -> None:
    with Sandbox(seed=1, start=END) as sandbox:
        created = sandbox.charges.create(amount="1000", description="tea", callbackUrl=HOOKS[0])
        sandbox.wallet("ana").pay(created, delay="5s")
        note = noted(sandbox, chargeId=created.id)
        assert "of it is due at 3000-01-01T00:00:04.000Z, which never comes, because the clock ends at 2999" in note


def test_an_attempt_in_flight_beyond_the_end_of_the_clock_is_no_place_to_advance_to() -> None:
    with Sandbox(seed=1, start=END) as sandbox:
        sandbox.receiver("shop").always("timeout")
        for _ in range(10):
            sandbox.wallet("ana").pay(sandbox.charges.create(amount="1000", description="tea", callbackUrl=HOOKS[0]))
        sandbox.advance("0s")
        last = sandbox.ask("GET", "/sandbox/v1/deliveries?limit=1")["data"][0]["chargeId"]
        note = noted(sandbox, chargeId=last)
        assert re.search(r"waits until one of .*: attempt 1 of delivery \S+ ends at 3000-\S+Z, which never comes", note)
        assert "advance" not in note


@pytest.mark.parametrize("seed", range(deep_or(bounded=20, full=200)))
def test_no_instant_after_the_end_of_the_clock_is_named_as_one_that_comes(seed: int) -> None:
    draw = random.Random(seed)
    with Sandbox(seed=1, start=f"2999-12-31T23:59:{draw.choice([0, 50, 58, 59]):02}Z") as sandbox:
        for action in [draw.choice([create, create_static]), *draw.choices(MORE, k=draw.randint(2, 10))]:
            with suppress(LeydenError, IndexError):
                action(sandbox, draw)
        ids = [one.id for one in (*sandbox.charges, *sandbox.static_charges)]
        abouts = [{}, *({"chargeId": one} for one in draw.sample(ids, min(4, len(ids))))]
        for about, event, status, count in itertools.product(abouts, EVENTS, STATUSES, [1, 2]):
            wanted = {**about, "status": status, "count": count, **({} if event is None else {"event": event})}
            note = noted(sandbox, **wanted)
            assert not re.search(rf"\b3000-\S+?Z{NEVER}", note), note
