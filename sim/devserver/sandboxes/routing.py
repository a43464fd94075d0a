"""Finds the world of a request: by the URL of a created sandbox, by its API key, or by the resource of its path."""

from __future__ import annotations

from typing import NamedTuple

from starlette.routing import compile_path
from starlette.types import Scope

from leyden.devserver.sandboxes.registry import SandboxRegistry
from leyden.server.app import BASE_PATH
from leyden.server.errors import Problem, Unauthorized
from leyden.server.http.authentication import challenge
from leyden.world.config import WorldConfig
from leyden.world.world import World

URL_PREFIX, ID_PREFIX = "/sandboxes/", "sbx_"


class Route(NamedTuple):
    """Where a request goes: to the world, or back with the refusal."""

    world: World
    refusal: Problem | None = None


def below_url(registry: SandboxRegistry, scope: Scope) -> tuple[Scope, str | None]:
    """The request as its sandbox sees it, and the id of the sandbox; `(scope, None)` for one at the root."""
    path: str = scope["path"]
    if not path.startswith(URL_PREFIX):
        return scope, None
    sandbox_id, slash, rest = path.removeprefix(URL_PREFIX).partition("/")
    if registry.of_id(sandbox_id) is None and registry.ended(sandbox_id) is None:
        return scope, None
    return {**scope, "path": slash + rest or "/", BASE_PATH: URL_PREFIX + sandbox_id}, sandbox_id


def route(registry: SandboxRegistry, scope: Scope, sandbox_id: str | None, header: bytes) -> Route:
    """The world of a request. `sandbox_id` and `scope` are those of `below_url`; `header` is the name of the key's
    header."""
    first = registry.first
    if registry.has_one:
        return Route(first)
    key = next((value for name, value in scope["headers"] if name == header), None)
    if sandbox_id is not None:
        sandbox = registry.of_id(sandbox_id)
        if sandbox is None:
            return Route(first, _ended(registry.ended(sandbox_id) or "", header))
        owner = None if key is None else registry.world_of_key(key)
        if owner is not None and owner is not sandbox.world:
            return Route(first, _of_another(header))
        return Route(sandbox.world)
    if key is not None:
        why = registry.ended(key)
        if why is not None:
            return Route(first, _ended(why, header))
        world = registry.world_of_key(key)
        if world is not None:
            return Route(world)
    return Route(registry.world_of_path(scope["path"]) or first)


def needs_key(config: WorldConfig, path: str) -> bool:
    """Whether an operation with this path, of the document or of its control plane, needs an API key."""
    contracts = [config.contract] if config.control is None else [config.contract, config.control()]
    return any(
        operation.secured and compile_path(operation.path)[0].match(path)
        for contract in contracts
        for operation in contract.operations.values()
    )


def _ended(why: str, header: bytes) -> Problem:
    return _unauthorized(f"{why}: create a new one with POST /sandbox/v1/sandboxes, and use its key", header)


def _of_another(header: bytes) -> Problem:
    return _unauthorized(
        "this key belongs to another sandbox than the one that the URL names: use both as the response of POST"
        " /sandbox/v1/sandboxes has them",
        header,
    )


def _unauthorized(detail: str, header: bytes) -> Problem:
    return Unauthorized(detail, headers=challenge(header))
