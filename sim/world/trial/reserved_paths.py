"""The paths that Leyden itself answers: a document cannot have operations there."""

from __future__ import annotations

from leyden.server.contract.json_pointer import child, contract_error
from leyden.server.contract.types import Contract
from leyden.world.components import DOCS_PATH, DOCUMENT_PATH
from leyden.world.config import HEALTH_PATH, READY_PATH

# First segments: the control planes, the URLs of sandboxes, and the console
RESERVED_SEGMENTS = ("sandbox", "sandboxes", "console")
# The document, its page, and the health checks of `leyden serve`
RESERVED_PATHS = (DOCUMENT_PATH, DOCS_PATH, HEALTH_PATH, READY_PATH)


def check_reserved(contract: Contract) -> None:
    """Raises `ContractError` for an operation of the document whose path Leyden answers itself."""
    for path in contract.by_path():
        segment = path.split("/")[1]
        if segment in RESERVED_SEGMENTS:
            taken = f"the paths below /{segment}"
        elif path in RESERVED_PATHS:
            taken = f"the path {path}"
        else:
            continue
        raise contract_error(child("#/paths", path), f"Leyden answers {taken} itself; choose another path")
