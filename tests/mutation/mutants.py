"""Mutants: every small change of a source file that mutmut knows, but for those that only change words for people."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation.file_mutation import Mutation, create_mutations


@dataclass(frozen=True, slots=True)
class Mutant:
    """One small change: in which module and line, what stood there and what stands there now."""

    module: str
    line: int
    was: str
    now: str
    tree: cst.Module
    mutation: Mutation

    @property
    def name(self) -> str:
        """Short, for a list."""
        return f"{self.module}:{self.line}  {' '.join(self.was.split())[:60]}  ->  {' '.join(self.now.split())[:60]}"

    def source(self) -> str:
        """The module's whole text with the change."""
        return self.tree.deep_replace(self.mutation.original_node, self.mutation.mutated_node).code  # type: ignore[arg-type]


def mutants_of(root: Path, module: str) -> list[Mutant]:
    """The mutants of a module (`server/money.py`), in the order of the source."""
    tree, mutations, _, _ = create_mutations(module, (root / module).read_text())
    # mutmut has made a tree of its own; positions are asked of that very one.
    lines = MetadataWrapper(tree, unsafe_skip_copy=True).resolve(PositionProvider)
    found = []
    for mutation in mutations:
        before, after = mutation.original_node, mutation.mutated_node
        # What stands outside every function is names, types and slots: most changes of it change nothing.
        if mutation.contained_by_top_level_function is None or _only_words(before):
            continue
        place = lines.get(before)
        was, now = (tree.code_for_node(node) for node in (before, after))
        if was != now:
            found.append(Mutant(module, place.start.line if place else 0, was, now, tree, mutation))
    return found


def _only_words(was: cst.CSTNode) -> bool:
    """Whether it is a sentence: what it says is for people to read, and no test asks for its every word."""
    if isinstance(was, cst.FormattedStringText | cst.FormattedString | cst.ConcatenatedString):
        return True
    return isinstance(was, cst.SimpleString) and " " in was.value
