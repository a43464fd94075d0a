"""The documentation page for client developers, generated from the document.

Nothing about charges is written here. It is one HTML document that needs no script and no other resource: it works
saved to a disk, printed, in a screen reader, and with a content security policy that allows only its own style sheet. A
server with scripts for it names their module, which is loaded after the page is shown.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path, PurePath
from typing import Any

from leyden.server.contract.types import Contract, LifecycleTable, Operation
from leyden.server.docs.examples import Examples
from leyden.server.docs.fields import Fields, badge
from leyden.server.docs.lifecycle_diagram import lifecycle_svg
from leyden.server.docs.operations import Operations, method, panel, path, spread
from leyden.server.docs.tables import (
    REFUSAL_COLUMNS,
    TRANSITION_COLUMNS,
    TableRow,
    lifecycle_sentence,
    refusal_lines,
    transition_lines,
)
from leyden.server.html import Html, Markdown, anchor, code, coloured, join, json_source, link, tag, text
from leyden.server.page_scripts import PageScripts

_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24'%3E%3Cpath d='M12 5v8M7 10h10v9"
    "a2 2 0 0 1-2 2H9a2 2 0 0 1-2-2z' fill='none' stroke='%23a96f12' stroke-width='2'/%3E%3Ccircle cx='12' cy='4' r='2'"
    " fill='%23a96f12'/%3E%3C/svg%3E"
)

Entry = tuple[str, Html]


def docs_page(contract: Contract, document_path: str, scripts: PageScripts | None = None) -> str:
    """The whole page as UTF-8 HTML text. `document_path` is where the machine-readable document is served."""
    return str(_Page(contract, document_path, scripts).draw())


class _Page:
    def __init__(self, contract: Contract, document_path: str, scripts: PageScripts | None) -> None:
        self._contract = contract
        self._document_path = document_path
        self._scripts = scripts
        self._markdown = Markdown()
        self._fields = Fields(contract.document, self._markdown)
        self._examples = Examples(contract, self._fields)
        self._operations = Operations(contract, self._markdown, self._fields, self._examples)
        self._contents: list[tuple[str, list[Entry]]] = []

    def draw(self) -> Html:
        """The sections in order. The objects come after the operations, which collect the links to them."""
        sections = [
            self._opening(),
            self._authentication(),
            *self._groups(),
            self._callbacks(),
            self._lifecycles(),
        ]
        sections += [self._problems(), self._objects()]
        main = tag("main", *sections, id="main", tabindex="-1")
        style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
        head = tag(
            "head",
            tag("meta", charset="utf-8"),
            tag("meta", http_equiv="Content-Security-Policy", content=_policy(style, self._scripts)),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("meta", name="color-scheme", content="light dark"),
            tag("title", f"{self._contract.title} {self._contract.version}"),
            Html(f'<link rel="icon" href="{_ICON}">'),
            tag("style", Html(style)),
            self._module(),
        )
        skip = tag("a", "Skip to the content", href="#main", class_="skip")
        body = tag("body", skip, self._bar(), tag("div", self._navigation(), main, class_="sheet"), id="top")
        return join([Html("<!doctype html>\n"), tag("html", head, body, lang="en")])

    def _module(self) -> Html | None:
        if self._scripts is None:
            return None
        values = {"leyden-document": self._document_path, **self._scripts.meta}
        meta = (tag("meta", name=name, content=value) for name, value in values.items())
        return join([*meta, tag("script", type="module", src=self._scripts.module)])

    def _bar(self) -> Html:
        return tag(
            "header", _brand(self._contract), tag("a", "Contents", href="#contents", class_="menu"), class_="bar"
        )

    def _navigation(self) -> Html:
        groups = (
            join([tag("h2", title), tag("ul", *(tag("li", link(place, label)) for place, label in entries))])
            for title, entries in self._contents
            if entries
        )
        close = tag("a", "Close", href="#top", class_="menu")
        return tag("nav", tag("div", _brand(self._contract), close), *groups, id="contents", aria_label="Contents")

    def _opening(self) -> Html:
        info = self._contract.document.get("info", {})
        overlays = [PurePath(source).name.removesuffix(".overlay.yaml") for source in self._contract.overlays]
        prose = (
            tag("h1", self._contract.title, id="introduction-title"),
            tag("p", str(info["summary"]), class_="lead") if info.get("summary") else None,
            tag(
                "p",
                tag("span", f"version {self._contract.version}", class_="mark"),
                *(tag("span", "reading: ", tag("b", name), class_="mark") for name in overlays),
                tag("a", "OpenAPI document", href=self._document_path, class_="mark"),
                class_="marks",
            ),
            self._markdown.block(info.get("description"), heading=1, named="about"),
        )
        entries: list[Entry] = [("introduction", text("Introduction"))]
        entries += [(place, text(title)) for place, title in self._markdown.headings]
        self._contents.append(("Start here", entries))
        every = list(self._contract.operations.values())
        return spread("introduction", prose, [_index("Operations", every)])

    def _authentication(self) -> Html:
        schemes = self._contract.document.get("components", {}).get("securitySchemes", {})
        header = self._contract.api_key_header
        scheme: Mapping[str, Any] = next(iter(schemes.values()), {})
        base = self._examples.base
        where = (
            tag("p", "The examples write ", code(base), " for the address of the service; set it once, as shown.")
            if base.startswith("$")
            else None
        )
        unlocked = any(not operation.secured for operation in self._contract.operations.values())
        free = " Operations marked “no key needed” work without." if unlocked else None
        size, depth = self._contract.body_limit, self._contract.depth_limit
        prose = (
            tag("h2", "Connecting", id="connecting-title"),
            tag("p", "Send your key in the header ", code(header), ".", free),
            self._markdown.block(scheme.get("description")),
            where,
            tag("p", f"A request's body may be {size} bytes long and {depth} levels deep."),
        )
        self._contents[0][1].append(("connecting", text("Connecting")))
        where_from = tag("span", "# the address you opened this page at, without its path\n", class_="c")
        url = tag("span", "https://…", class_="s", data_value=self._scripts and "base-url")
        lines = [where_from, "export BASE_URL=", url, "\n"] if base.startswith("$") else []
        lines += ["export API_KEY=", tag("span", "your-key", class_="s", data_value=self._scripts and "api-key")]
        return spread("connecting", prose, [panel("Shell", join(lines))])

    def _groups(self) -> Iterable[Html]:
        described = {group["name"]: group.get("description") for group in self._contract.document.get("tags", ())}
        grouped: dict[str, list[Operation]] = {name: [] for name in described}
        for operation in self._contract.operations.values():
            grouped.setdefault(operation.tags[0] if operation.tags else "Operations", []).append(operation)
        for name, operations in grouped.items():
            if not operations:
                continue
            place = anchor("group", name)
            head = (tag("h2", name, id=f"{place}-title"), self._markdown.block(described.get(name)))
            yield spread(place, head, [_index(name, operations)])
            yield join(self._operations.operation(operation) for operation in operations)
            self._contents.append((name, [_entry(operation) for operation in operations]))

    def _callbacks(self) -> Html | None:
        sent = [(o, callback) for o in self._contract.operations.values() for callback in o.callbacks]
        if not sent:
            return None
        self._contents.append(
            ("Callbacks", [(anchor("callback", c.name), self._operations.callback_title(c)) for _, c in sent])
        )
        head = tag("section", tag("h2", "Callbacks", id="callbacks-title"), id="callbacks", class_="wide")
        return join([head, *(self._operations.callback(operation, callback) for operation, callback in sent)])

    def _lifecycles(self) -> Html | None:
        tables = self._contract.lifecycles.values()
        if not tables:
            return None
        self._contents.append(("Lifecycles", [(anchor("lifecycle", t.resource), text(t.resource)) for t in tables]))
        head = tag("h2", "Lifecycles", id="lifecycles-title")
        return tag("section", head, *map(_lifecycle, tables), id="lifecycles", class_="wide")

    def _problems(self) -> Html | None:
        errors = self._operations.all_errors()
        if errors is None:
            return None
        self._contents.append(("Reference", [("errors", text("Errors"))]))
        return spread("errors", (tag("h2", "Errors", id="errors-title"), errors), [self._operations.example_problem()])

    def _objects(self) -> Html | None:
        """The component objects that are linked to, and those that they link to."""
        drawn: dict[str, Html] = {}
        while waiting := [name for name in self._fields.linked if name not in drawn]:
            drawn[waiting[0]] = self._object(waiting[0])
        if not drawn:
            return None
        if not self._contents or self._contents[-1][0] != "Reference":
            self._contents.append(("Reference", []))
        self._contents[-1][1].extend((anchor("object", name), code(name)) for name in drawn)
        head = tag("section", tag("h2", "Objects", id="objects-title"), id="objects", class_="wide")
        return join([head, *drawn.values()])

    def _object(self, name: str) -> Html:
        schema = {"$ref": f"#/components/schemas/{name}"}
        place = anchor("object", name)
        states = None
        if name in self._contract.lifecycles:
            states = tag("p", "Its states: ", link(anchor("lifecycle", name), "lifecycle"), ".")
        prose = (
            tag("h3", name, id=f"{place}-title"),
            self._markdown.block(self._fields.resolve(schema).get("description")),
            states,
            self._fields.table(schema, "Fields", sent=False),
        )
        return spread(place, prose, [panel(name, coloured(json_source(self._examples.of_object(name))))])


def _lifecycle(table: LifecycleTable) -> Html:
    place = anchor("lifecycle", table.resource)
    has_decision = any(row.basis == "decision" and row.to is not None for row in table.rows)
    key = (
        " Double border: final. Dashed: Leyden's decision, where the specification has no rule." if has_decision else ""
    )
    refusals = refusal_lines(table)
    return tag(
        "section",
        tag("h3", table.resource, id=f"{place}-title"),
        tag(
            "figure",
            _scrolling(lifecycle_svg(table), f"State diagram of {table.resource}"),
            tag("figcaption", f"{table.resource} {lifecycle_sentence(table)}.{key}"),
            class_="diagram",
        ),
        _wide_table(f"Transitions of {table.resource}", TRANSITION_COLUMNS, transition_lines(table)),
        _wide_table(f"Refusals of {table.resource}", REFUSAL_COLUMNS, refusals) if refusals else None,
        id=place,
        aria_labelledby=f"{place}-title",
    )


def _wide_table(caption: str, columns: Sequence[str], lines: Iterable[TableRow]) -> Html:
    head = tag("tr", *(tag("th", column, scope="col") for column in columns))
    rows = []
    for line in lines:
        *cells, basis = line.cells
        because = columns.index("Because") if "Because" in columns else -1
        drawn = (tag("td", cell if at == because or not cell else _names(cell)) for at, cell in enumerate(cells))
        rows.append(tag("tr", *drawn, tag("td", badge(line.decision) if line.decision else basis)))
    drawn_table = tag("table", tag("caption", caption), tag("thead", head), tag("tbody", *rows), class_="rows")
    return _scrolling(drawn_table, caption)


def _names(cell: str) -> Html:
    return join(map(code, cell.split(", ")), " ")


def _scrolling(content: Html, label: str) -> Html:
    return tag("div", content, class_="scroll", tabindex="0", role="region", aria_label=label)


def _entry(operation: Operation) -> Entry:
    label = tag("span", operation.summary or operation.operation_id)
    return anchor("operation", operation.operation_id), join([label, method(operation.method)])


def _index(title: str, operations: Iterable[Operation]) -> Html:
    lines = (tag("li", link(anchor("operation", o.operation_id), method(o.method), path(o.path))) for o in operations)
    return tag("figure", tag("figcaption", tag("b", title)), tag("ul", *lines), class_="panel index")


def _brand(contract: Contract) -> Html:
    jar = tag("path", d="M12 5v8M7 10h10v9a2 2 0 0 1-2 2H9a2 2 0 0 1-2-2z", fill="none", stroke="currentColor")
    ball = tag("circle", cx="12", cy="4", r="2", fill="currentColor")
    mark = tag("svg", jar, ball, viewBox="0 0 24 24", width="22", height="22", aria_hidden="true", stroke_width="1.7")
    return tag("a", mark, tag("span", contract.title), href="#top", class_="brand")


def _policy(style: str, scripts: PageScripts | None) -> str:
    digest = b64encode(sha256(style.encode()).digest()).decode()
    own = " 'self'; script-src 'self'; connect-src 'self'" if scripts else ""
    return f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'{own}; base-uri 'none'; form-action 'none'"
