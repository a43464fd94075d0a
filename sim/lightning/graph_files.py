"""Graphs that are read from files. A text names the file and options.

    graph.json                                     what LND's describegraph printed
    channels.json,nodes=nodes.json                 what Core Lightning's listchannels and listnodes printed
    channels.csv,edges=edges.csv                   the lists of channels and of edges of the CLoTH simulator
    graph.json,shop=ACINQ,ideal                    the receiving node by its alias or public key; then the conditions

shop       the receiving node (default: the node with the most channels); `random` is a condition
nodes      the file with the aliases, where the first has none
edges      the file with the edges, of CLoTH
sha256     the required digest of the files: in texts from which a graph is read again
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from leyden.errors import GraphError
from leyden.files.json_files import shown
from leyden.lightning.engine.condition_texts import check_for_graph, network_conditions
from leyden.lightning.topology.graph import Graph
from leyden.lightning.topology.import_cloth import CHANNELS, EDGES, import_cloth
from leyden.lightning.topology.import_graph import GRAPH, NODES, import_graph
from leyden.lightning.topology.placement import SHOP_PLACES

_TEXT = re.compile(r"(?P<path>.*?\.(?:json|csv))(?:,(?P<options>.*))?", re.DOTALL | re.IGNORECASE)
_OPTIONS = ("shop", "nodes", "edges", "sha256")
# These are conditions; a node of such a name is given by its key.
_PLACED = tuple(f"shop={place}" for place in SHOP_PLACES)


def read_graph(text: str) -> Graph:
    """The graph that a text describes; each sandbox draws its balances with its own seed.

    Raises `GraphError` for a file that cannot be read or is no graph, for an unknown option or shop, and for files
    whose digest differs from that in the text.
    """
    found = _TEXT.fullmatch(text)
    if found is None:
        raise GraphError(f"network={text!r:.80} names no file: give the path of a .json or .csv file")
    options = (found["options"] or "").split(",") if found["options"] else []
    given: dict[str, str] = {}
    while options and options[0].partition("=")[0].strip() in _OPTIONS and options[0].strip() not in _PLACED:
        name, _, value = options.pop(0).partition("=")
        given[name.strip()] = value.strip()
    conditions = ",".join(options)
    network_conditions(conditions)
    check_for_graph(conditions)
    is_cloth = found["path"].lower().endswith(".csv")
    if is_cloth != ("edges" in given) or (is_cloth and "nodes" in given):
        mend = f"{found['path']:.80},edges=edges.csv" if is_cloth else f"{found['path']:.80},nodes=nodes.json"
        raise GraphError(f"{shown(text):.160}: edges is of a .csv file, and nodes of a .json file: give {shown(mend)}")
    files = [found["path"], *(given[name] for name in ("nodes", "edges") if name in given)]
    graph, digest = _read(*((path, *_state(path)) for path in files), shop=given.get("shop"))
    if given.get("sha256", digest) != digest:
        raise GraphError(
            f"{shown(' and '.join(files))} has changed since the text was written, which has sha256="
            f"{given['sha256']:.64}: take the former file, or leave sha256 out"
        )
    return replace(graph, origin=",".join([files[0], *_spelled({**given, "sha256": digest})]), conditions=conditions)


def _spelled(given: dict[str, str]) -> list[str]:
    return [f"{name}={given[name]}" for name in _OPTIONS if name in given]


def _state(path: str) -> tuple[int, int]:
    try:
        found = Path(path).stat()
    except (OSError, ValueError):
        return 0, 0  # reading it says why
    return found.st_mtime_ns, found.st_size


@lru_cache(maxsize=4)
def _read(*files: tuple[str, int, int], shop: str | None) -> tuple[Graph, str]:
    """The graph in these files, each with the time of its last change and its size, and their digest."""
    if files[0][0].lower().endswith(".csv"):
        paths = files[0][0], files[1][0]
        data = CHANNELS.content(paths[0]), EDGES.content(paths[1])
        return import_cloth(*data, shop=shop, where=(shown(paths[0]), shown(paths[1]))), _digest(data)
    contents = [kind.content(path) for kind, (path, *_) in zip((GRAPH, NODES), files, strict=False)]
    documents = [
        kind.check(kind.parse(data, shown(path)), shown(path))
        for kind, data, (path, *_) in zip((GRAPH, NODES), contents, files, strict=False)
    ]
    nodes = documents[1] if len(documents) > 1 else None
    try:
        return import_graph(documents[0], nodes=nodes, shop=shop).graph, _digest(contents)
    except GraphError as error:
        raise GraphError(f"{shown(files[0][0])}: {error}") from None


def _digest(contents: Sequence[bytes]) -> str:
    return sha256(b"".join(sha256(data).digest() for data in contents)).hexdigest()[:16]
