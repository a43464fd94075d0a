"""Loads a contract: reads the document, applies the overlays and compiles the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import leyden.specs
from leyden.server.contract.compile import compile_contract
from leyden.server.contract.document.parse_cache import PackagedDocument, checker_hash
from leyden.server.contract.json_pointer import as_written, suggestion
from leyden.server.contract.types import Contract
from leyden.server.errors import ContractError
from leyden.server.pipes import read_file
from leyden.server.printable import printable

if TYPE_CHECKING:
    from leyden.server.contract.document.overlay import Overlay

DOCUMENTS = ("charges", "sandbox", "server")
_SPEC = ".openapi.yaml"
_OVERLAY = ".overlay.yaml"
_FOLDER = Path(leyden.specs.__path__[0])
_OVERLAYS = _FOLDER / "overlays"
_MAX_BYTES = 64 * 1024 * 1024

OverlaySource = str | Path | Mapping[str, Any]


def default_spec(name: str = "charges") -> Path:
    """The packaged document `charges` (the service), `sandbox` (the control plane) or `server` (its sandboxes)."""
    if name not in DOCUMENTS:
        raise ContractError(f"no packaged spec {name!r}" + suggestion(name, DOCUMENTS))
    return _FOLDER / (name + _SPEC)


def known_overlays() -> tuple[str, ...]:
    """The names of the packaged overlays, sorted."""
    return tuple(sorted(file.name.removesuffix(_OVERLAY) for file in _OVERLAYS.glob("*" + _OVERLAY)))


def load_contract(
    spec: Path | str | Mapping[str, Any] | None = None,
    *,
    overlays: Sequence[OverlaySource] = (),
    mock_unbound: bool = False,
    known_as: str | None = None,
) -> Contract:
    """Read, overlay and compile a spec; the packaged `charges.openapi.yaml` when none is given.

    `overlays` are applied in order: a name from `known_overlays()`, a path, or a parsed overlay document. An overlay
    whose `extends` names another document is refused. For a spec under a file name of its own, `known_as` says which
    document it stands in for (`charges.openapi.yaml`); without it every overlay is applied. `mock_unbound` lets
    operations without a handler answer their own example.

    A parsed document is never changed. Raises `ContractError` naming the location and the correction.
    """
    packaged = None
    if isinstance(spec, Mapping):
        document: Any = spec
        name = known_as or ""
    else:
        file = default_spec() if spec is None else Path(spec)
        name = file.name
        document, packaged = _document(file, "spec", name if spec is None else str(spec))
    if not isinstance(document, dict):
        given = "the spec" if spec is None or isinstance(spec, Mapping) else f"{spec}"
        raise ContractError(f"{printable(given)} is not an OpenAPI document: its root must be a mapping")
    documents = [document_name + _SPEC for document_name in DOCUMENTS]
    extended_name = known_as or (name if name in documents else None)
    applied: list[Overlay] = []
    for source in overlays:
        overlay = _overlay(source)
        if extended_name is not None and overlay.extended_name not in (None, extended_name):
            raise _extends_another(overlay, extended_name, documents)
        # Imported here: a start without overlays does not need it.
        from leyden.server.contract.document.overlay import apply_overlay, copied

        if isinstance(spec, Mapping) and not applied:
            document = copied(document)
        apply_overlay(document, overlay)
        applied.append(overlay)
    x_schema = _read(_FOLDER / "extensions.schema.json", "schema of the x- keys")
    checker = checker_hash(x_schema)
    if packaged is not None and not applied and packaged.was_checked(checker):
        return compile_contract(document, name=name, extensions=None, mock_unbound=mock_unbound)
    # Imported here: a packaged document that has passed its checks needs none.
    from leyden.server.contract.document.extensions import Extensions

    try:
        contract = compile_contract(
            document,
            name=name,
            extensions=Extensions.read(x_schema),
            mock_unbound=mock_unbound,
            overlays=[overlay.source for overlay in applied],
        )
    except ContractError as error:
        problem = _with_path(as_written(str(error), document), spec)
        if applied:
            problem += f"; this is the document after {named_overlays([overlay.source for overlay in applied])}"
        raise ContractError(problem) from None
    if packaged is not None and not applied:
        packaged.keep_checked(checker)
    return contract


def _extends_another(overlay: Overlay, name: str, documents: Sequence[str]) -> ContractError:
    """The error for an overlay that names another document than the one of this name."""
    named = f"overlay {overlay.source}: extends names {overlay.extends!r}"
    if overlay.extended_name in documents:
        return ContractError(
            f"{named}, and overlays change {name} here; name that in extends, or leave the overlay out"
        )
    return ContractError(f"{named}, which is not a document here" + suggestion(str(overlay.extended_name), [name]))


def named_overlays(sources: Sequence[str]) -> str:
    """The overlays that were applied, by their paths or names, for an error about the document after them."""
    return f"the overlay{'s' * (len(sources) > 1)} {', '.join(sources)}"


def _with_path(problem: str, spec: Path | str | Mapping[str, Any] | None) -> str:
    """An error that starts with the file name of the spec, with its path as given, unless that is a packaged one."""
    path = Path("" if spec is None or isinstance(spec, Mapping) else spec)
    if not path.name or _FOLDER in path.parents:
        return problem
    return f"{spec}{problem.removeprefix(path.name)}" if problem.startswith(path.name) else problem


def _overlay(source: OverlaySource) -> Overlay:
    from leyden.server.contract.document.overlay import read_overlay

    if isinstance(source, Mapping):
        info = source.get("info")
        title = info.get("title") if isinstance(info, dict) else None
        return read_overlay(source, str(title or "overlay"))
    file = overlay_file(source)
    named = str(source)
    return read_overlay(_document(file, "overlay", named)[0], named)


def is_overlay_name(source: str | Path) -> bool:
    """Whether this is written as the name of a packaged overlay, and not as a path."""
    return isinstance(source, str) and "/" not in source and not source.endswith((".yaml", ".yml", ".json"))


def overlay_file(source: str | Path) -> Path:
    """The file of an overlay: a path, or a name from `known_overlays()`. Raises `ContractError` for any other name."""
    if not is_overlay_name(source):
        return Path(source)
    known = known_overlays()
    if source not in known:
        is_file = f": for the file write ./{source}" if Path(source).is_file() else ""
        raise ContractError(f"no overlay {source!r}{is_file}; there are: {', '.join(known) or 'none'}")
    return _OVERLAYS / f"{source}{_OVERLAY}"


def _document(file: Path, noun: str, named: str) -> tuple[Any, PackagedDocument | None]:
    """The content of a file, which errors call `named`, and its entry in the cache if the file is packaged."""
    data = _read(file, noun)
    if _FOLDER in file.parents:
        packaged = PackagedDocument(file, data)
        return packaged.content, packaged
    from leyden.server.contract.document.yaml_loader import read_yaml

    return read_yaml(data, named), None


def _read(file: Path, noun: str) -> bytes:
    try:
        data = read_file(file, _MAX_BYTES + 1)
    except OSError as error:
        raise ContractError(f"{file}: cannot read this {noun} ({error.strerror or error}); check the path") from None
    if len(data) > _MAX_BYTES:
        raise ContractError(f"{file}: this {noun} has more than {_MAX_BYTES} bytes; give a smaller file")
    return data
