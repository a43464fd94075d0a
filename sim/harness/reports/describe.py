"""Telling: a step as a sentence, a finding as a story with its promise, what was seen, and the way to see it again."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from leyden.harness.checks.violations import CHECKS, shown
from leyden.server.contract.load import default_spec

Step = Mapping[str, Any]


def sentence(step: Step) -> str:
    """What a step does, in words."""
    label = step.get("as", "")
    who = " with another project's key" if step.get("by") == "rival" else ""
    once = f", under the Idempotency-Key {shown(step['once'], 40)}" if "once" in step else ""
    match step["do"]:
        case "create_charge":
            return f"create the Charge {label}{who}{once}: {shown(step['body'], 200)}"
        case "create_static":
            return f"create the Static Charge {label}{who}{once}: {shown(step['body'], 200)}"
        case "patch":
            return f"change {step['static']}{who}: {shown(step['body'], 200)}"
        case "get":
            return f"read {step['what']}{who}"
        case "list":
            of = f"the Charges of {step.get('static')}" if step["of"] == "children" else f"all {step['of']}"
            return f"list {of}{who}{', ' + shown(step['query']) if step.get('query') else ''}"
        case "wallet":
            return f"ask for the balance{who}"
        case "terms":
            return f"scan {step['static']}{' by its Lightning address' if step.get('address') else ''}"
        case "invoice":
            comment = f" with a comment of {len(step['comment'])} characters" if step.get("comment") else ""
            return f"ask {step['static']} for an invoice over {step.get('amount', 'nothing')}{comment}: {label}"
        case "verify":
            return f"ask without a key whether {step['charge']} was paid"
        case "pay":
            how = {"settle": "", "hold": ", to be held", "fail": ", without a route"}.get(
                step.get("outcome", "settle"), f", {step.get('outcome')}"
            )
            amount = f" with {step['amount']} msat" if "amount" in step else ""
            later = f", arriving {step['delay']} ms later" if step.get("delay") else ""
            return f"pay {step['charge']}{amount}{how}{later}: {label}"
        case "settle" | "cancel":
            return f"{step['do']} the held payment {step['payment']}"
        case "fail":
            return f"let the node lose the invoice of {step['charge']}"
        case "advance" if "to" in step:
            offset = step.get("offset", 0)
            when = "to the instant" if not offset else f"to {abs(offset)} ms {'before' if offset < 0 else 'after'}"
            what = "expiry" if step["to"][0] == "expiry" else "next callback"
            return f"let time pass {when} of {step['to'][1]}'s {what}"
        case "advance":
            return f"let {step.get('by', 0) / 1_000:g} s pass"
        case "receiver":
            then = f"answers {shown(step['answers'], 120)}, then " if step.get("answers") else ""
            return f"the receiver {step['host']} {then}always {step.get('always', 200)}"
        case "fault":
            rest = ", ".join(f"{name} {value}" for name, value in step.items() if name not in {"do", "kind"})
            return f"ask for the fault {step['kind']}{f' ({rest})' if rest else ''}"
        case "spare_key":
            return "give out a second API key, use it, and replace it"
        case "rotate":
            return "change the webhook secret"
        case "replay":
            return f"ask for the message about {step['charge']} once more"
        case "restart":
            return "stop the service and start it on its data"
        case "odd":
            return f"send {step['operation']} oddly: {step['kind']}"
    return shown(dict(step))


def story(steps: Sequence[Step], fact: Mapping[str, str], *, overlays: Sequence[str] = (), replay: str = "") -> str:
    """A finding for people: what was done, what was promised and where, what was seen, how to see it again."""
    lines = [f"A promise is broken ({fact['check']}: {CHECKS[fact['check']]})."]
    if overlays:
        lines.append(f"Under the overlays {', '.join(overlays)}.")
    lines += ["", "What was done"]
    lines += [f"  {number}. {sentence(step)}" for number, step in enumerate(steps, 1)]
    lines += ["", f"What was promised ({fact['clause']})"]
    words = promise_text(fact["clause"])
    lines += [f"  {words}"] if words else []
    lines += [f"  {fact['where']}: {fact['promised']}", "", "What was seen", f"  {fact['seen']}"]
    if replay:
        lines += ["", f"See it again: {replay}"]
    return "\n".join(lines)


def promise_text(clause: str) -> str:
    """The first sentences of the entry of DECISIONS.md that a clause names; empty for a row of a table."""
    entry = clause.removeprefix("DECISIONS ")
    if entry == clause:
        return ""
    text = default_spec().with_name("DECISIONS.md").read_text()
    found = re.search(rf"^## {re.escape(entry)}\n\n(.+?)\n\n", text, flags=re.MULTILINE | re.DOTALL)
    return "" if found is None else " ".join(found[1].split())
