"""Seams: the places at which a service can be bent without knowing how it works inside.

Its ports, its handlers, its parts as they are put together, the contract it runs by. What travels over HTTP is bent
in `tests.seeded_defects.wire`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import leyden.server.service
import leyden.world.world
from leyden.server.app import ApiMount
from leyden.server.contract.load import load_contract
from leyden.server.contract.types import Contract
from leyden.server.service import Service
from tests.seeded_defects.defect import Plant

Document = dict[str, Any]
Edit = Callable[[Document], None]


def both(*plants: Plant) -> Plant:
    """Several plants at once."""

    @contextmanager
    def plant() -> Iterator[None]:
        with ExitStack() as stack:
            for one in plants:
                stack.enter_context(one())
            yield

    return plant


def attribute(owner: Any, name: str, make: Callable[[Any], Any]) -> Plant:
    """Let `owner.name` (a module's or a class's) be what `make` makes of it. Planting raises when there is none."""

    @contextmanager
    def plant() -> Iterator[None]:
        with patch.object(owner, name, make(inspect.getattr_static(owner, name))):
            yield

    return plant


class Through:
    """Something put before a part: what a subclass does not say is passed on.

    `late.service` is the service that it belongs to, once that is put together. Raises `AttributeError` when a subclass
    says something that the part itself does not have.
    """

    def __init__(self, inner: Any, late: SimpleNamespace) -> None:
        self.inner = inner
        self.late = late
        for name in vars(type(self)):
            if not name.startswith("_"):
                getattr(inner, name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def service(
    ports: Mapping[str, Callable[[Any, SimpleNamespace], Any]] | None = None,
    *,
    contract: Callable[[Contract], Contract] = lambda contract: contract,
    after: Callable[[Service], None] = lambda service: None,
) -> Plant:
    """Bend a service as it is put together: its named ports, its contract, or the finished whole."""

    def make(original: Callable[..., Service]) -> Callable[..., Service]:
        def build(given: Contract, store: Any, **named: Any) -> Service:
            late = SimpleNamespace()
            for name, wrap in (ports or {}).items():
                named[name] = wrap(named[name], late)
            late.service = original(contract(given), store, **named)
            after(late.service)
            return late.service  # type: ignore[no-any-return]

        return build

    return attribute(leyden.world.world, "Service", make)


def port(name: str, wrap: Callable[[Any, SimpleNamespace], Any]) -> Plant:
    """Put something before one of the service's ports: `clock`, `node`, `transport`, `new_id`, `jitter`, ..."""
    return service({name: wrap})


def handler(operation_id: str, wrap: Callable[[Service, Callable[..., Any]], Callable[..., Any]]) -> Plant:
    """Put something before the handler of an operation; it is given a `Request`, and may raise a `Problem`."""

    def after(made: Service) -> None:
        made.handlers = {**made.handlers, operation_id: wrap(made, made.handlers[operation_id])}

    return service(after=after)


def gate(name: str, wrap: Callable[[Any, SimpleNamespace], Any]) -> Plant:
    """Put something before what the door asks: `projects` for keys, `idempotency` for answers given before."""

    def after(made: Service) -> None:
        setattr(made.pipeline, name, wrap(getattr(made.pipeline, name), SimpleNamespace(service=made)))

    return service(after=after)


def part(name: str, module: Any = leyden.server.service, **wraps: Callable[[Any], Any]) -> Plant:
    """Bend what a part is given when a module makes it: `part("ChargeService", clock=...)`."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def build(*given: Any, **named: Any) -> Any:
            bound = inspect.signature(original).bind(*given, **named)
            for argument, wrap in wraps.items():
                bound.arguments[argument] = wrap(bound.arguments[argument])
            return original(*bound.args, **bound.kwargs)

        return build

    return attribute(module, name, make)


def changed(value: Any, **changes: Any) -> Any:
    """A copy of a value with other fields, whether it is a dataclass or a named tuple."""
    return value._replace(**changes) if hasattr(value, "_replace") else replace(value, **changes)


# The contract


def spec(*edits: Edit, overlays: tuple[str, ...] = ()) -> Plant:
    """Let the service run by an edited contract, while the document that it shows stays the true one."""
    known: dict[int, tuple[Contract, Contract]] = {}

    def edited(true: Contract) -> Contract:
        if id(true) not in known:
            document = deepcopy(dict(true.document))
            for edit in edits:
                try:
                    edit(document)
                except LookupError:
                    if not true.overlays:
                        raise  # where an overlay reads the spec otherwise there may be nothing to bend
            more = tuple(name for name in overlays if name not in true.overlays)
            false = load_contract(
                document, overlays=more, known_as="charges.openapi.yaml", mock_unbound=true.mock_unbound
            )
            known[id(true)] = true, changed(false, document=true.document, overlays=true.overlays)
        return known[id(true)][1]

    def build_app(original: Callable[..., Any]) -> Callable[..., Any]:
        def build(first: ApiMount, *more: Any, **named: Any) -> Any:
            # The first part is the service, what comes later the control plane.
            return original(changed(first, contract=edited(first.contract)), *more, **named)

        return build

    return both(service(contract=edited), attribute(leyden.world.world, "build_app", build_app))


def schema(name: str, *fields: str, **changes: Any) -> Edit:
    """Change keys of these properties of a schema, or of the schema itself when none is named."""

    def edit(document: Document) -> None:
        node = document["components"]["schemas"][name]
        for place in [node["properties"][field] for field in fields] or [node]:
            place.update(changes)

    return edit


def row(resource: str, source: str, trigger: str, **changes: Any) -> Edit:
    """Rewrite the rows of a lifecycle for (source, trigger) as one that always applies: `to=` with `effects=`, or with
    `when=` before what stands there. Raises `LookupError` when there is none."""

    def edit(document: Document) -> None:
        rows = document["components"]["schemas"][resource]["properties"]["status"]["x-lifecycle"]
        places = [place for place, one in enumerate(rows) if (one["from"], one["trigger"]) == (source, trigger)]
        if not places:
            raise LookupError(f"{resource} has no row for {source} and {trigger}")
        basis = {"basis": "decision", "decision": "static-lifecycle"}
        new = {"from": source, "trigger": trigger, "effects": [], **basis, **changes}
        kept = [rows[place] for place in places if "when" not in rows[place]] if "when" in changes else []
        rows[places[0] : places[-1] + 1] = [new, *kept]

    return edit


def refusal(resource: str, source: str, trigger: str) -> Edit:
    """Let only the refusals among the rows for (source, trigger) stand."""

    def edit(document: Document) -> None:
        rows = document["components"]["schemas"][resource]["properties"]["status"]["x-lifecycle"]
        kept = [one for one in rows if (one["from"], one["trigger"]) != (source, trigger) or "refuse" in one]
        if len(kept) == len(rows):
            raise LookupError(f"{resource} has no transition for {source} and {trigger}")
        rows[:] = kept

    return edit
