"""Mutants of a source file by mutmut, without those that cannot change its behaviour.

mutmut has no mutations of regular expressions; those of `patterns.py` are added.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import libcst as cst
import libcst.matchers as m
from libcst.metadata import CodeRange, MetadataWrapper, ParentNodeProvider, PositionProvider
from mutmut.mutation.file_mutation import NEVER_MUTATE_FUNCTION_NAMES, Mutation, MutationVisitor
from mutmut.mutation.mutators import mutation_operators
from mutmut.mutation.pragma_handling import IgnoredCode

from tests.mutation.patterns import changed_patterns

_COMPILE = m.Call(func=m.Attribute(value=m.Name("re"), attr=m.Name("compile")))
# An assignment of a type, which says only something to the type checker.
_ALIAS = m.Subscript() | m.BinaryOperation(operator=m.BitOr())


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mutation: its module and line, the original code and the mutated code.

    `function` is the function or method of the module that has it, and `lines` are those that are executed if it has an
    effect; empty and None outside functions, in signatures and decorators; then `names` are
    those that may have another value.
    """

    module: str
    line: int
    was: str
    now: str
    function: str
    lines: range | None
    names: frozenset[str]
    tree: cst.Module
    mutation: Mutation

    @property
    def name(self) -> str:
        """One line for a list: what differs, with some of the code before it."""
        was, now = (" ".join(text.split()) for text in (self.was, self.now))
        same = next((place for place, (one, other) in enumerate(zip(was, now, strict=False)) if one != other), 0)
        start = max(0, same - 30)
        return f"{self.module}:{self.line}  {was[start : start + 70]}  ->  {now[start : start + 70]}"

    def source(self) -> str:
        """The source of the module with the mutation."""
        return self.tree.deep_replace(self.mutation.original_node, self.mutation.mutated_node).code  # type: ignore[arg-type]


class _Visitor(MutationVisitor):
    """mutmut's mutations, also those in functions with a decorator: a mutant is a complete source text here."""

    def _skip_node_and_children(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.FunctionDef):
            return node.name.value in NEVER_MUTATE_FUNCTION_NAMES
        return super()._skip_node_and_children(node)


def mutants_of(root: Path, module: str, *, constants: bool = False) -> list[Mutant]:
    """The mutants of a module (such as `server/money.py`), in the order of the source.

    Outside functions there are names, types and slots: most mutations of them have no effect, so they are left out.
    With `constants` they are there, except for types, and so are those of regular expressions.
    """
    wrapper = MetadataWrapper(cst.parse_module((root / module).read_text()))
    operators = [*mutation_operators, (cst.Call, _other_patterns)] if constants else mutation_operators
    visitor = _Visitor(operators, IgnoredCode(set(), set(), set()))
    tree = wrapper.visit(visitor)
    # The positions belong to the tree that mutmut has made.
    places = MetadataWrapper(tree, unsafe_skip_copy=True)
    lines, parents = places.resolve(PositionProvider), places.resolve(ParentNodeProvider)
    types, codecs = _types_and_codecs(tree)
    found = []
    for mutation in visitor.mutations:
        before, after = mutation.original_node, mutation.mutated_node
        if not constants and mutation.contained_by_top_level_function is None:
            continue
        if _is_sentence(before) or before in types:
            continue
        if _same_call(before, after) or (before in codecs and _differs_in_case(before, after)):
            continue
        place = lines.get(before)
        was, now = (tree.code_for_node(node) for node in (before, after))
        if was != now:
            line = place.start.line if place else 0
            function, executed = _place(before, lines, parents)
            names = _names(before, parents, tree) if executed is None else frozenset[str]()
            found.append(Mutant(module, line, was, now, function, executed, names, tree, mutation))
    return found


def _names(node: cst.CSTNode, parents: Mapping[cst.CSTNode, cst.CSTNode], tree: cst.Module) -> frozenset[str]:
    """The names that the statement of a node assigns, with those of the module that depend on them; of a node in a
    signature or a decorator the name of the function."""
    while not isinstance(node, cst.SimpleStatementLine | cst.FunctionDef | cst.ClassDef):
        node = parents[node]
    if not isinstance(node, cst.SimpleStatementLine):
        return frozenset({node.name.value})
    names, size = {*_assigned(node)}, 0
    while size < len(names):
        size = len(names)
        for statement in tree.body:
            if isinstance(statement, cst.SimpleStatementLine) and m.findall(statement, m.OneOf(*map(m.Name, names))):
                names |= {*_assigned(statement)}
    return frozenset(names)


def _assigned(statement: cst.CSTNode) -> list[str]:
    targets = [one.target for one in m.findall(statement, m.AssignTarget() | m.AnnAssign())]
    return [name.value for target in targets for name in m.findall(target, m.Name())]


def _place(
    node: cst.CSTNode, lines: Mapping[cst.CSTNode, CodeRange], parents: Mapping[cst.CSTNode, cst.CSTNode]
) -> tuple[str, range | None]:
    """The function of a node, and the lines of the statement that has it, of a compound one only those of the part."""
    names: list[str] = []
    executed: cst.CSTNode | None = None
    below, is_above = node, False
    while not isinstance(below, cst.Module):
        parent = parents.get(below)
        if parent is None:
            return "", None
        if executed is None and (isinstance(below, cst.BaseStatement) or _is_part(parent)):
            executed = below
        if isinstance(parent, cst.FunctionDef | cst.ClassDef):
            if below is not parent.body and not names:
                is_above = True  # in the signature or a decorator, or in a base class
            names.insert(0, parent.name.value)
        is_above = is_above or (isinstance(parent, cst.ClassDef) and len(names) == 1)
        below = parent
    if is_above or not names or executed is None or executed not in lines:
        return "", None
    place = lines[executed]
    return ".".join(names), range(place.start.line, place.end.line + 1)


def _is_part(parent: cst.CSTNode) -> bool:
    """Whether a node below `parent` is a part of a compound statement, such as the condition of an `if`."""
    return isinstance(parent, cst.BaseCompoundStatement | cst.MatchCase | cst.ExceptHandler | cst.WithItem)


def _other_patterns(call: cst.Call) -> Iterator[cst.Call]:
    """`re.compile` with each change of its pattern."""
    if m.matches(call, _COMPILE) and isinstance(call.args[0].value, cst.SimpleString):
        text = call.args[0].value
        for pattern in changed_patterns(text.raw_value):
            changed = text.with_changes(value=f"{text.prefix}{text.quote}{pattern}{text.quote}")
            yield call.with_changes(args=[call.args[0].with_changes(value=changed), *call.args[1:]])


def _is_sentence(was: cst.CSTNode) -> bool:
    """Whether it is a text for people, whose exact words no test checks."""
    if isinstance(was, cst.FormattedStringText | cst.FormattedString | cst.ConcatenatedString):
        return True
    return isinstance(was, cst.SimpleString) and " " in was.value


def _types_and_codecs(tree: cst.Module) -> tuple[set[cst.CSTNode], set[cst.CSTNode]]:
    """The types that values are cast to, and the names of codecs, as nodes of the tree."""
    calls = [call for call in m.findall(tree, m.Call(args=[m.AtLeastN(n=1)])) if isinstance(call, cst.Call)]
    types = {call.args[0].value for call in calls if m.matches(call.func, m.Name("cast"))}
    for line in tree.body:
        for alias in m.findall(line, m.Assign(value=_ALIAS)) if isinstance(line, cst.SimpleStatementLine) else ():
            types |= {alias, *_below(alias)}
    coding = m.Attribute(attr=m.Name("encode") | m.Name("decode"))
    codecs = {call.args[0].value for call in calls if m.matches(call.func, coding)}
    return types, codecs


def _below(node: cst.CSTNode) -> Iterable[cst.CSTNode]:
    for child in node.children:
        yield child
        yield from _below(child)


def _differs_in_case(was: cst.CSTNode, now: cst.CSTNode) -> bool:
    """Whether two names of a codec differ in upper and lower case only."""
    strings = isinstance(was, cst.SimpleString) and isinstance(now, cst.SimpleString)
    return strings and was.value.upper() == now.value


def _same_call(was: cst.CSTNode, now: cst.CSTNode) -> bool:
    """Whether both calls have the same effect by the definition of Python."""
    if not (isinstance(was, cst.Call) and isinstance(now, cst.Call)):
        return False
    before, after = ([arg.value for arg in call.args] for call in (was, now))
    if m.matches(was.func, m.Name("cast")):
        # `typing.cast` returns its second argument; the first is for the type checker.
        return len(before) == len(after) == 2 and before[1].deep_equals(after[1])
    if m.matches(was.func, m.Attribute(attr=m.Name("from_bytes") | m.Name("to_bytes"))):
        # "big" is the default byte order (since Python 3.11).
        big = len(before) == 2 and m.matches(before[1], m.SimpleString('"big"'))
        return big and len(after) == 1 and before[0].deep_equals(after[0])
    return False
