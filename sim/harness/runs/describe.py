"""Descriptions: a step as a sentence, a violation as a report."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from leyden.harness.checks.clauses import DOCUMENT, at_pointer
from leyden.harness.checks.violations import CHECKS, one_line
from leyden.harness.steps import Step
from leyden.server.contract.load import default_spec
from leyden.server.printable import printable

_SENTENCES = {
    "create_charge": "create the Charge {as}{who}: {body}",
    "create_static": "create the Static Charge {as}{who}: {body}",
    "patch": "change {static}{who}: {body}",
    "get": "read {what}{who}",
    "wallet": "read the balance{who}",
    "verify": "verify by LNURL whether {charge} was paid",
    "settle": "settle the held payment {payment}",
    "cancel": "cancel the held payment {payment}",
    "fail": "let the invoice of {charge} fail at the node",
    "spare_key": "create a second API key, use it, and rotate it",
    "rotate": "rotate the webhook secret",
    "reset": "reset the sandbox",
    "compact": "begin a compaction of the journal, which continues after the next commits",
    "replay": "replay the delivery about {charge}",
    "follow": "use {what} in every way: list, LNURL, invoice, payment, proof",
    "odd": "send an odd request: {operation}, {kind}",
    "control_counts": "compare the number {check} of the sandbox with the lists",
}

_STOPS = {
    "kill": " by a kill",
    "torn": " by a kill while it writes",
    "compact": " after a compaction of its journal",
    "twice": ", start it, stop it again",
    "replaced_key": ", start it with an API key that was replaced",
    "damaged": ", start it on damaged copies of its data, which it must refuse,",
}


def describe_step(step: Step) -> str:
    """A description of a step, in one sentence and one line."""
    return printable(_sentence(step))


def _sentence(step: Step) -> str:
    label = step.get("as", "")
    who = " with the second project's API key" if step.get("by") == "second" else ""
    if "idempotency_key" in step:
        who += f", with the Idempotency-Key {one_line(step['idempotency_key'], 40)}"
    match step["do"]:
        case "list":
            of = f"the Charges of {step.get('static')}" if step["of"] == "children" else f"all {step['of']}"
            return f"list {of}{who}{', ' + one_line(step['query']) if step.get('query') else ''}"
        case "pay_request":
            return f"read the LNURL of {step['static']}{' by its Lightning address' if step.get('address') else ''}"
        case "invoice":
            comment = f" with a comment of {len(step['comment'])} characters" if step.get("comment") else ""
            return f"request an invoice of {step['static']} for {step.get('amount', 'no amount')}{comment}: {label}"
        case "pay":
            outcome = step.get("outcome", "settle")
            result = {"settle": "", "hold": ", held by the receiver", "fail": ", without a route"}
            amount = f" with {step['amount']} msat" if "amount" in step else ""
            delay = f", arriving after {step['delay']} ms" if step.get("delay") else ""
            return f"pay {step['charge']}{amount}{result.get(outcome, f', {outcome}')}{delay}: {label}"
        case "host":
            options, steps = " ".join(step.get("options", ())), len(step.get("steps", ()))
            return f"host a server ({options}{', with a data directory' if step.get('disk') else ''}), {steps} requests"
        case "send":
            many = f" {step['count']} times" if "count" in step else ""
            return f"send {step['method']} {step['target']}{many}: {one_line(step.get('body'), 200)}"
        case "control_list":
            draws = "; ".join(f"{name}: {kind} of the {place} row" for name, place, kind in step.get("draw", ()))
            rest = "".join(f", {text}" for text in (draws, step.get("raw", "")) if text)
            changes = "".join(f", then {_sentence(one)}" for one in step.get("steps", ()))
            return f"compare {step['operation']} with the whole list: {step['check']}{rest}{changes}"
        case "control_replay":
            drawn = [f"{name} of the {place} row" for name, place, _ in step.get("draw", ())]
            what = f"{step['count']} ids" if "count" in step else ", ".join([one_line(step["body"]), *drawn])
            later = f", {step['delay']} ms later" if "delay" in step else ""
            return f"replay the deliveries of {what}{later}, and compare what was sent"
        case "control_kept":
            done = "; ".join(_sentence(one) for one in step["steps"])
            return f"compare a server after {step['how']} with one without it: {done}"
        case "control_payments":
            done = "; ".join(_sentence(one) for one in step["steps"])
            return f"compare the payments and the payers after each step: {done}"
        case "control_payment_request":
            amount = f" with {step['amount']} msat" if "amount" in step else ""
            return f"pay a request ({step['kind']}: {step['form']}){amount}"
        case "control_full_disk":
            return f"refuse this step on a full disk, and repeat it: {_sentence(step['refused'][0])}"
        case "control_late":
            return f"{step['how']} while receivers have yet to answer, and let them answer {step['status']}"
        case "control_stream":
            return f"compare the stream of events with the list: {'; '.join(_sentence(one) for one in step['then'])}"
        case "control_lost":
            return f"end the server ({step['how']}, {step['count']} times) while receivers have yet to answer"
        case "control_aged":
            done = "; ".join(_sentence(one) for one in step["steps"])
            return f"compare a server that keeps {step['count']} of what ended with one that keeps everything: {done}"
        case "control_apart":
            done = "; ".join(_sentence(one) for one in step["meanwhile"])
            return f"compare ({step['how']}) a sandbox and its copy, while one of them is changed: {done}"
        case "control_clock":
            return f"compare the clock and what is due: {'; '.join(_sentence(one) for one in step['steps'])}"
        case "passes":
            return f"let {_seconds(step['by'])} s of real time pass"
        case "control_search":
            _, place, kind = step["draw"][0]
            return f"search for texts ({kind}) of the {place} {step['kind']}, {step['count']} results of each kind"
        case "restart":
            if step.get("how") == "snapshot":
                return "take snapshots, delete one, and return to the last one"
            return f"stop the service{_STOPS.get(step.get('how', ''), '')} and start it on its data"
        case "crash":
            return f"kill the service after each commit of this step: {_sentence(step['steps'][0])}"
        case "advance" if "to" in step:
            offset = step.get("offset", 0)
            when = "to" if not offset else f"to {abs(offset)} ms {'before' if offset < 0 else 'after'}"
            instant = "expiry" if step["to"][0] == "expiry" else "next callback attempt"
            return f"advance the clock {when} the {instant} of {step['to'][1]}"
        case "advance":
            how = " in Python" if step.get("how") == "python" else ""
            return f"advance the clock by {_seconds(step.get('by', 0))} s{how}"
        case "receiver":
            first = f"{one_line(step['answers'], 120)}, then " if step.get("answers") else ""
            return f"let the receiver {step['host']} answer with {first}{step.get('always', 200)}"
        case "fault":
            rest = ", ".join(f"{name} {value}" for name, value in step.items() if name not in {"do", "kind"})
            return f"inject the fault {step['kind']}{f' ({rest})' if rest else ''}"
        case "clear_faults":
            which = f"the fault {step['count']}" if "count" in step else "all faults"
            return f"clear {which} of callbacks"
    words = {**step, "who": who, "body": one_line(step.get("body"), 200)}
    return _SENTENCES[step["do"]].format_map(words) if step["do"] in _SENTENCES else one_line(dict(step))


def _seconds(span_ms: int) -> str:
    """Milliseconds as seconds, with all digits: `353736.5`."""
    whole, rest = divmod(abs(span_ms), 1_000)
    digits = f"{whole}.{rest:03d}".rstrip("0").rstrip(".") if rest else str(whole)
    return f"-{digits}" if span_ms < 0 else digits


def describe_violation(
    steps: Sequence[Step], expectation: Mapping[str, str], *, overlays: Sequence[str] = (), replay: str = ""
) -> str:
    """The report of a violation: its steps, the rule, what was expected and observed, and the command to replay it."""
    lines = [f"Contract violation ({expectation['check']}: {CHECKS[expectation['check']]})"]
    if overlays:
        lines.append(f"Overlays: {', '.join(overlays)}")
    lines += ["", "Steps" if steps else "Steps: none"]
    lines += [f"  {number}. {describe_step(step)}" for number, step in enumerate(steps, 1)]
    lines += ["", f"Rule: {expectation['ruleId']}"]
    text = rule_text(expectation["ruleId"])
    lines += [f"  {text}"] if text else []
    lines += [
        "",
        f"Checked: {expectation['where']}",
        f"Expected: {expectation['expected']}",
        f"Observed: {expectation['observed']}",
    ]
    if replay:
        lines += ["", f"Replay: {replay}"]
    return "\n".join(map(printable, lines))


def rule_text(rule_id: str) -> str:
    """The first paragraph of the entry of DECISIONS.md with this id, or the description of a place of the document;
    empty for a row of a lifecycle table."""
    if rule_id.startswith(f"{DOCUMENT}#/"):
        place = at_pointer(rule_id.partition("#")[2])
        text = place.get("description", "") if isinstance(place, Mapping) else ""
        return " ".join(text.split()) if isinstance(text, str) else ""
    entry = rule_id.removeprefix("DECISIONS ")
    if entry == rule_id:
        return ""
    text = default_spec().with_name("DECISIONS.md").read_text()
    found = re.search(rf"^## {re.escape(entry)}\n\n(.+?)\n\n", text, flags=re.MULTILINE | re.DOTALL)
    return "" if found is None else " ".join(found[1].split())
