"""The steps of a case: JSON objects that the generators make and the executors carry out."""

from __future__ import annotations

from collections.abc import Callable
from inspect import getmembers, isfunction
from types import ModuleType
from typing import Any, TypedDict

# `do` names the executor, whose docstring says which of the other members the step has. `as` is the label of what the
# step creates (c1, s1, p1); later steps refer to it by `charge`, `static`, `payment` or `what`.
Step = TypedDict(
    "Step",
    {
        "do": str,
        "as": str,
        "by": Any,  # of a request: "second", the second project's API key; of advance: ms
        "idempotency_key": str,
        "body": dict[str, Any],
        "charge": str,
        "static": str,
        "payment": str,
        "what": str,
        "of": str,  # charges, statics or children
        "query": dict[str, Any],
        "between": "Step",
        "address": bool,
        "amount": Any,  # of a payment in msat; of an invoice as the wallet sends it
        "comment": str,
        "twice": bool,
        "extra": bool,
        "outcome": str,
        "delay": int,  # ms
        "to": list[str],  # expiry or retry, and a label
        "offset": int,  # ms
        "host": str,
        "answers": list[Any],
        "always": Any,
        "kind": str,
        "form": str,
        "how": str,  # of a restart: one of `RESTARTS`; of an advance: "python", by the sandbox in this process
        "count": int,
        "event": str,
        "attempt": int,
        "value": str,  # of a fault: the other content type, the unknown field or the unknown status
        "names": list[str],  # of the headers that a fault leaves out
        "operation": str,
        "method": str,
        "target": str,
        "headers": list[list[str]],
        "raw": str,
        "steps": list["Step"],
        "meanwhile": list["Step"],
        "refused": list["Step"],
        "obligation": str,
        "options": list[str],  # of `leyden serve`
        "disk": bool,
        "then": list["Step"],
        "probe": list["Step"],
        "status": int,
        "check": str,
        "mistakes": list[str],
        "policy": str,  # of a store: one of `POLICIES`
        "compaction": str,
        "fault": list[Any],  # of a disk: the call, which one, and what it does
        "every": int,  # of the rows that are chosen, from the newest
        "draw": list[list[str]],  # of a filter: the parameter, the place of a row, which value, the kind of value
    },
    total=False,
)


class StepImpossible(LookupError):
    """The object of a step does not exist, or the target cannot do the step. The step had no effect."""


def public_functions(*modules: ModuleType) -> dict[str, Callable[..., Any]]:
    """The functions of modules, except those that begin with `_`, by name without a `_` at its end."""
    return {
        name.rstrip("_"): function
        for module in modules
        for name, function in getmembers(module, isfunction)
        if function.__module__ == module.__name__ and not name.startswith("_")
    }
