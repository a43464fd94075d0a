"""Patches of the service: its ports, its handlers, the arguments of its components, and its contract.

HTTP requests and responses are changed in `tests.seeded_defects.middleware`.
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
import leyden.world.components
from leyden.server.app import ApiMount
from leyden.server.contract.load import load_contract
from leyden.server.contract.types import Contract
from leyden.server.service import Service
from tests.seeded_defects.defect import Plant

Document = dict[str, Any]
Edit = Callable[[Document], None]


def both(*plants: Plant) -> Plant:
    """Several patches together."""

    @contextmanager
    def plant() -> Iterator[None]:
        with ExitStack() as stack:
            for one in plants:
                stack.enter_context(one())
            yield

    return plant


def attribute(owner: Any, name: str, make: Callable[[Any], Any]) -> Plant:
    """Replace `owner.name`, an attribute of a module or a class, by `make(original)`. Raises if it does not exist."""

    @contextmanager
    def plant() -> Iterator[None]:
        with patch.object(owner, name, make(inspect.getattr_static(owner, name))):
            yield

    return plant


class Wrapper:
    """A wrapper around an object; what a subclass does not define is forwarded.

    `late.service` is the service, after it has been built. Raises `AttributeError` if a subclass defines an attribute
    that the object does not have.
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
    """Patch a service while it is built: wrap ports, change the contract, or change the built service."""

    def make(original: Callable[..., Service]) -> Callable[..., Service]:
        def build(given: Contract, store: Any, **named: Any) -> Service:
            late = SimpleNamespace()
            for name, wrap in (ports or {}).items():
                named[name] = wrap(named[name], late)
            late.service = original(contract(given), store, **named)
            after(late.service)
            return late.service  # type: ignore[no-any-return]

        return build

    return attribute(leyden.world.components, "Service", make)


def port(name: str, wrap: Callable[[Any, SimpleNamespace], Any]) -> Plant:
    """Wrap a port of the service: `clock`, `node`, `transport`, `new_id`, `jitter`, ..."""
    return service({name: wrap})


def handler(operation_id: str, wrap: Callable[[Service, Callable[..., Any]], Callable[..., Any]]) -> Plant:
    """Wrap the handler of an operation, which takes a `Request` and may raise a `Problem`."""

    def after(service: Service) -> None:
        service.handlers = {**service.handlers, operation_id: wrap(service, service.handlers[operation_id])}

    return service(after=after)


def pipeline_part(name: str, wrap: Callable[[Any, SimpleNamespace], Any]) -> Plant:
    """Wrap a part of the request pipeline: `authenticate` (API keys) or `idempotency` (earlier responses)."""

    def after(service: Service) -> None:
        setattr(service.pipeline, name, wrap(getattr(service.pipeline, name), SimpleNamespace(service=service)))

    return service(after=after)


def component(name: str, module: Any = leyden.server.service, **wraps: Callable[[Any], Any]) -> Plant:
    """Wrap arguments of a component when a module creates it: `component("ChargeService", clock=...)`."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def build(*given: Any, **named: Any) -> Any:
            bound = inspect.signature(original).bind(*given, **named)
            for argument, wrap in wraps.items():
                bound.arguments[argument] = wrap(bound.arguments[argument])
            return original(*bound.args, **bound.kwargs)

        return build

    return attribute(module, name, make)


def changed(value: Any, **changes: Any) -> Any:
    """A copy of a dataclass or named tuple with other fields."""
    return value._replace(**changes) if hasattr(value, "_replace") else replace(value, **changes)


# The contract


def spec(*edits: Edit, overlays: tuple[str, ...] = ()) -> Plant:
    """Run the service by an edited contract; the document that it serves does not change."""
    known: dict[int, tuple[Contract, Contract]] = {}

    def edited(original: Contract) -> Contract:
        if id(original) not in known:
            document = deepcopy(dict(original.document))
            for edit in edits:
                try:
                    edit(document)
                except LookupError:
                    if not original.overlays:
                        raise  # an overlay may have removed what the edit changes
            more = tuple(name for name in overlays if name not in original.overlays)
            defective = load_contract(
                document, overlays=more, known_as="charges.openapi.yaml", mock_unbound=original.mock_unbound
            )
            known[id(original)] = original, changed(defective, document=original.document, overlays=original.overlays)
        return known[id(original)][1]

    def build_app(original: Callable[..., Any]) -> Callable[..., Any]:
        def build(first: ApiMount, *more: Any, **named: Any) -> Any:
            # The first mount is the service, the next one the control plane.
            return original(changed(first, contract=edited(first.contract)), *more, **named)

        return build

    return both(service(contract=edited), attribute(leyden.world.components, "build_app", build_app))


def schema(name: str, *fields: str, **changes: Any) -> Edit:
    """Change keywords of these properties of a schema, or of the schema itself if none is given."""

    def edit(document: Document) -> None:
        node = document["components"]["schemas"][name]
        for place in [node["properties"][field] for field in fields] or [node]:
            place.update(changes)

    return edit


def row(resource: str, source: str, trigger: str, **changes: Any) -> Edit:
    """Replace the rows of a lifecycle for (source, trigger) by one without a guard; with `when=`, add it before them.

    Raises `LookupError` if there is no such row.
    """

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
    """Remove the rows for (source, trigger) that are no refusals. Raises `LookupError` if there are none."""

    def edit(document: Document) -> None:
        rows = document["components"]["schemas"][resource]["properties"]["status"]["x-lifecycle"]
        kept = [one for one in rows if (one["from"], one["trigger"]) != (source, trigger) or "refuse" in one]
        if len(kept) == len(rows):
            raise LookupError(f"{resource} has no transition for {source} and {trigger}")
        rows[:] = kept

    return edit
