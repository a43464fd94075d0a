"""Checks of the rules of an inbox: each post is answered by the oldest rule that matches it and is not used up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from leyden.harness.control.host import Host, violation

_ENDS = ("pay", "fail", "pay")
_LATER_S = 86_400


def check_inbox_rules(host: Host, step: Mapping[str, Any]) -> None:
    """{"do": "control_inbox", "rules": [{"say": status, "event"?, "attempt"?, "charge"?: number, "count"}, ...]}: three
    Charges are paid, fail and are paid, and their callbacks get the answers of the rules, otherwise 204."""
    inbox = (
        f"rules-{host.accepted('POST', '/v0/charges', {'amount': '1000', 'description': 'name'})['data']['id'][:13]}"
    )
    fields = {"amount": "1000", "description": "rules", "callbackUrl": f"http://{inbox}.localhost/hook"}
    charges = [host.accepted("POST", "/v0/charges", fields)["data"] for _ in _ENDS]
    path = f"/sandbox/v1/inboxes/{inbox}"
    rules = []
    for rule in step["rules"]:
        found = {name: value for name, value in rule.items() if name != "charge"}
        rules.append({**found, **({"chargeId": charges[rule["charge"]]["id"]} if "charge" in rule else {})})
    host.accepted("PUT", f"{path}/script", {"rules": rules, "always": 204})
    for charge, end in zip(charges, _ENDS, strict=True):
        if end == "pay":
            host.accepted("POST", "/sandbox/v1/payments", {"request": charge["invoice"]["request"]})
        else:
            host.accepted("POST", f"/sandbox/v1/charges/{charge['id']}/fail")
        host.accepted("POST", "/sandbox/v1/clock/advance", {"by": 1})
    host.accepted("POST", "/sandbox/v1/clock/advance", {"by": _LATER_S})
    left = [rule["count"] for rule in rules]
    posts = host.read(f"{path}?limit=1000")["posts"]
    for post in posts:
        body = orjson.loads(post["body"])
        about = body.get("data", body)["id"]
        wanted = 204
        for number, rule in enumerate(rules):
            is_match = (
                rule.get("event") in (None, post["event"])
                and rule.get("attempt") in (None, post["attempt"])
                and rule.get("chargeId") in (None, about)
            )
            if is_match and left[number] != 0:
                left[number] = None if left[number] is None else left[number] - 1
                wanted = rule["say"]
                break
        if post["answer"] != wanted:
            where = f"the answer to attempt {post['attempt']} of {post['event']}, with the rules {step['rules']}"
            raise violation(where, wanted, post["answer"])
