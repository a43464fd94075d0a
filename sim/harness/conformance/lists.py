"""The tour, lists: pages and filters, two projects beside each other, and requests that are sent twice."""

from __future__ import annotations

from collections.abc import Iterator

from leyden.harness.conformance.callbacks import DAY_MS, Step, Story, advance, charge, invoice, pay, static
from leyden.harness.generators.bodies import AMOUNTS


def list_stories() -> Iterator[Story]:
    """Lists, keys of two kinds, and two projects."""
    made: list[Step] = []
    for n, (amount, told) in enumerate(zip(AMOUNTS[:6], ("a", "a", "b", None, "", "b"), strict=True), 1):
        made += [charge(f"c{n}", amount=amount, internalId=told), advance(700)]
    made += [charge("c9", internalId="B"), charge("c10", internalId="a+b c&é"), advance(1)]
    made += [static("s1", internalId="a"), static("s2"), invoice("s1", "c7"), invoice("s1", "c8"), pay("p1", "c7")]
    looks: list[Step] = []
    for query in (
        {}, {"limit": 1}, {"limit": 2}, {"limit": 8}, {"limit": 7}, {"limit": 1000}, {"internalId": "a"},
        {"internalId": ""}, {"internalId": "nobody"}, {"internalId": "B"}, {"internalId": "a+b c&é"},
        {"status": "pending"}, {"status": "completed"},
        {"status": "pending", "createdAfter": "2030-01-01T00:00:02Z", "createdBefore": "2030-01-01T00:00:03Z"},
        {"internalId": "a", "status": "pending", "createdBefore": "2030-01-01T00:00:01Z"},
        {"createdAfter": "2030-01-01T00:00:01.000Z"}, {"createdBefore": "2030-01-01T00:00:01.000Z"},
        {"createdAfter": "2030-01-01T00:00:00.999Z"}, {"createdAfter": "2030-01-01T01:30:02+01:30"},
        {"createdBefore": "2030-01-01T00:00:01.001Z", "limit": 1},
    ):  # fmt: skip
        looks.append({"do": "list", "of": "charges", "query": query})
        looks.append({"do": "list", "of": "children", "static": "s1", "query": query})
    looks.append({"do": "list", "of": "charges", "query": {"limit": 3}, "between": charge("c11")})
    looks += [{"do": "list", "of": "statics", "query": query} for query in ({}, {"limit": 1}, {"status": "active"})]
    yield "lists", [*made, *looks]
    theirs = {"by": "rival"}
    yield (
        "two projects",
        [
            charge("c1"),
            {**charge("c2"), **theirs},
            static("s1"),
            {**static("s2"), **theirs},
            *({"do": "get", "what": what, "by": by} for what in ("c1", "c2", "s1", "s2") for by in ("own", "rival")),
            {"do": "patch", "static": "s1", "body": {"description": "mine"}, **theirs},
            {"do": "patch", "static": "s2", "body": {"description": "mine"}},
            pay("p1", "c2"),
            {"do": "wallet"},
            {"do": "wallet", **theirs},
            {"do": "list", "of": "charges", "query": {}},
            {"do": "list", "of": "statics", "query": {}, **theirs},
        ],
    )
    tea, other = charge("c1"), charge("c2", amount="1001")
    tips = static("s1", minAmount="2000", maxAmount="1000")
    for at in (DAY_MS - 1, DAY_MS, DAY_MS + 1):
        once = {"once": "k1"}
        yield (
            f"the same key {at} ms later",
            [
                {**tea, **once},
                {**tea, **once, "as": "c3"},
                {**other, **once},
                {**charge("c4"), **once, **theirs},
                {**static("s2"), **once},
                advance(at),
                {**tea, **once, "as": "c5"},
                {**other, **once, "as": "c6"},
            ],
        )
    yield (
        "keys and refusals",
        [
            {**charge("c1", amount="1"), "once": "k1"},
            {**tea, "once": "k1"},
            {**tips, "once": "k2"},
            {**tips, "once": "k2"},
            {**static("s3"), "once": "k2"},
            *({**charge(f"c{n}"), "once": key} for n, key in enumerate(("", "x" * 255, "x" * 256, "a b"), 5)),
        ],
    )
    again = {**tea, "once": "k1", "body": dict(reversed(tea["body"].items()))}
    aside = {**charge("c3"), "once": "k2"}
    yield (
        "the same in another order, with another key between",
        [{**tea, "once": "k1"}, again, advance(DAY_MS - 1), aside, again, advance(1), {**again, "as": "c4"}, aside],
    )
    yield (
        "more than a page",
        [
            *(charge(f"c{n}", callbackUrl="-") for n in range(101)),
            {"do": "list", "of": "charges", "query": {}},
            {"do": "list", "of": "charges", "query": {"limit": 101}},
        ],
    )
