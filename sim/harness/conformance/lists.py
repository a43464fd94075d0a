"""Conformance scenarios for lists, for two projects, and for Idempotency-Keys."""

from __future__ import annotations

from leyden.harness.conformance.scenario import DAY_MS, Scenarios, advance, change, charge, invoice, pay, static
from leyden.harness.generators.bodies import AMOUNTS
from leyden.harness.steps import Step

_KEY = [["apikey", "{key}"]]


def list_scenarios() -> Scenarios:
    """Pages and filters, API keys of two projects, and Idempotency-Keys."""
    found: Scenarios = {}
    created: list[Step] = []
    for n, (amount, internal_id) in enumerate(zip(AMOUNTS[:6], ("a", "a", "b", None, "", "b"), strict=True), 1):
        created += [charge(f"c{n}", amount=amount, internalId=internal_id), advance(700)]
    created += [charge("c9", internalId="B"), charge("c10", internalId="a+b c&é"), advance(1)]
    created += [static("s1", internalId="a"), static("s2"), invoice("c7"), invoice("c8"), pay("c7", label="p1")]
    reads: list[Step] = []
    for query in (
        {}, {"limit": 1}, {"limit": 2}, {"limit": 8}, {"limit": 7}, {"limit": 1000}, {"internalId": "a"},
        {"internalId": ""}, {"internalId": "nobody"}, {"internalId": "B"}, {"internalId": "a+b c&é"},
        {"status": "pending"}, {"status": "completed"},
        {"status": "pending", "createdAfter": "2030-01-01T00:00:02Z", "createdBefore": "2030-01-01T00:00:03Z"},
        {"internalId": "a", "status": "pending", "createdBefore": "2030-01-01T00:00:01Z"},
        {"createdAfter": "2030-01-01T00:00:01.000Z"}, {"createdBefore": "2030-01-01T00:00:01.000Z"},
        {"createdAfter": "2030-01-01T00:00:00.999Z"}, {"createdAfter": "2030-01-01T01:30:02+01:30"},
        {"createdBefore": "2030-01-01T00:00:01.001Z", "limit": 1},
        {"createdAfter": "2030-01-01T00:00:01.0001Z"}, {"createdBefore": "2030-01-01T00:00:01.0000001Z"},
    ):  # fmt: skip
        reads.append({"do": "list", "of": "charges", "query": query})
        reads.append({"do": "list", "of": "children", "static": "s1", "query": query})
    reads.append({"do": "list", "of": "charges", "query": {"limit": 3}, "between": charge("c11")})
    reads += [{"do": "list", "of": "statics", "query": query} for query in ({}, {"limit": 1}, {"status": "active"})]
    found["lists"] = [*created, *reads]
    found["a request of each page"] = [
        static("s1"),
        *(step for n in range(1, 4) for step in (static(f"t{n}"), charge(f"c{n}"), invoice(f"d{n}"))),
        *(
            Step({"do": "request", "target": f"{path}?limit=2{after}", "headers": _KEY})
            for path in ("/v0/charges", "/v0/static-charges", "/v0/static-charges/{s1}/charges")
            for after in ("", "&after={next}")
        ),
    ]
    days = [f"{year}-{month:02}-{day:02}" for year in (2000, 2027, 2028, 2100) for month in range(13) for day in
            ((0, 1, 28, 29, 30, 31, 32) if year == 2027 or month == 2 else ())]  # fmt: skip
    found["digits of a number in a query"] = [
        charge("c1"),
        *(
            Step({"do": "request", "target": f"/v0/charges?limit={'0' * zeros}{text}", "headers": _KEY})
            for zeros in (0, 1, 15, 16, 17, 18)
            for text in ("1", "1000", "")
        ),
    ]
    found["the days of each month"] = [
        charge("c1"),
        *(
            Step({"do": "request", "target": f"/v0/charges?createdBefore={day}T00:00:00Z", "headers": _KEY})
            for day in days
        ),
    ]
    by_second: Step = {"by": "second"}
    found["two projects"] = [
        charge("c1"),
        {**charge("c2"), **by_second},
        static("s1"),
        {**static("s2"), **by_second},
        *(Step({"do": "get", "what": what, "by": by}) for what in ("c1", "c2", "s1", "s2") for by in ("own", "second")),
        {**change({"description": "mine"}), **by_second},
        change({"description": "mine"}, of="s2"),
        pay("c2", label="p1"),
        {"do": "wallet"},
        {"do": "wallet", **by_second},
        {"do": "list", "of": "charges", "query": {}},
        {"do": "list", "of": "statics", "query": {}, **by_second},
    ]
    tea, other = charge("c1"), charge("c2", amount="1001")
    tips = static("s1", minAmount="2000", maxAmount="1000")
    for at in (DAY_MS - 1, DAY_MS, DAY_MS + 1):
        keyed: Step = {"idempotency_key": "k1"}
        found[f"the same Idempotency-Key {at} ms later"] = [
            {**tea, **keyed},
            {**tea, **keyed, "as": "c3"},
            {**other, **keyed},
            {**charge("c4"), **keyed, **by_second},
            {**static("s2"), **keyed},
            advance(at),
            {**tea, **keyed, "as": "c5"},
            {**other, **keyed, "as": "c6"},
        ]
    found["Idempotency-Keys and errors"] = [
        {**charge("c1", amount="1"), "idempotency_key": "k1"},
        {**tea, "idempotency_key": "k1"},
        {**tips, "idempotency_key": "k2"},
        {**tips, "idempotency_key": "k2"},
        {**static("s3"), "idempotency_key": "k2"},
        *(
            Step({**charge(f"c{n}"), "idempotency_key": key})
            for n, key in enumerate(("", "x" * 255, "x" * 256, "a b"), 5)
        ),
    ]
    again: Step = {**tea, "idempotency_key": "k1", "body": dict(reversed(tea["body"].items()))}
    other_key: Step = {**charge("c3"), "idempotency_key": "k2"}
    found["the same members in another order, with another Idempotency-Key between"] = [
        {**tea, "idempotency_key": "k1"},
        again,
        advance(DAY_MS - 1),
        other_key,
        again,
        advance(1),
        {**again, "as": "c4"},
        other_key,
    ]
    found["more than a page"] = [
        *(charge(f"c{n}", callbackUrl="-") for n in range(101)),
        {"do": "list", "of": "charges", "query": {}},
        {"do": "list", "of": "charges", "query": {"limit": 101}},
    ]
    return found
