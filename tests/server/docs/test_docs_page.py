"""The documentation page: complete, rendered from the document alone, and safe against markup in a document."""

from __future__ import annotations

import gzip
import re
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from html.parser import HTMLParser
from itertools import combinations, pairwise
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leyden import Sandbox
from leyden.server.contract.load import default_spec, load_contract
from leyden.server.contract.types import LifecycleRow, LifecycleTable
from leyden.server.docs import page as page_module
from leyden.server.docs.lifecycle_diagram import lifecycle_svg
from leyden.server.docs.page import docs_page
from leyden.server.html import Html, Markdown, coloured, join, json_source, tag
from leyden.server.page_scripts import PageScripts
from tests.support.deep import deep
from tests.support.small_spec import small

VOID = {"meta", "link", "br", "col", "hr"}
SVG = "{http://www.w3.org/2000/svg}"
LETTER = 6.62  # the width of a letter at 11 px in the widest of the usual fixed-width fonts
HOSTILE = (
    '<script>alert(1)</script> "><img src=x onerror=alert(1)> [x](javascript:alert(1)) ![y](https://evil.example/p)'
)


class Outline(HTMLParser):
    """The elements of a page, checked for balance while they are read."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, name: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({key for key, _ in attrs}) == len(attrs), (name, attrs)
        self.elements.append((name, dict(attrs)))
        if name not in VOID:
            self.open.append(name)

    def handle_startendtag(self, name: str, attrs: list[tuple[str, str | None]]) -> None:
        assert name in VOID
        self.elements.append((name, dict(attrs)))

    def handle_endtag(self, name: str) -> None:
        assert self.open.pop() == name, self.getpos()

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.words)

    def values(self, attribute: str) -> list[str]:
        return [str(attrs[attribute]) for _, attrs in self.elements if attribute in attrs]


def page_of(name: str = "charges", **options: Any) -> str:
    return docs_page(load_contract(default_spec(name), **options), "/openapi.json")


def shop_page(document: dict[str, Any] | None = None) -> str:
    return docs_page(load_contract(document or small()), "/openapi.json")


def assert_inert(outline: Outline) -> None:
    """Nothing runs and nothing is fetched."""
    for name, attrs in outline.elements:
        assert name not in {"script", "img", "iframe", "object", "embed", "form", "base", "foreignobject"}, (
            name,
            attrs,
        )
        assert not [key for key in attrs if key.startswith("on") or key in {"src", "srcset", "action", "style"}], attrs
        target = (attrs.get("href") or "").strip().lower()
        assert not target.startswith(("javascript:", "vbscript:")), attrs
        assert not target.startswith("data:") or name == "link", attrs
        if name == "link":
            assert target.startswith("data:image/svg+xml,"), attrs


@pytest.fixture(scope="module", params=["charges", "sandbox"])
def outline(request: pytest.FixtureRequest) -> Outline:
    return Outline(page_of(request.param))


def test_every_operation_callback_and_lifecycle_has_its_section() -> None:
    contract = load_contract(default_spec("charges"))
    ids = set(Outline(docs_page(contract, "/openapi.json")).values("id"))
    for operation in contract.operations.values():
        assert f"operation-{operation.operation_id}" in ids
        assert all(f"callback-{callback.name}" in ids for callback in operation.callbacks)
    assert {f"lifecycle-{resource}" for resource in contract.lifecycles} <= ids


def test_every_link_on_the_page_has_a_target(outline: Outline) -> None:
    ids = outline.values("id")
    assert len(set(ids)) == len(ids)
    assert {href[1:] for href in outline.values("href") if href.startswith("#")} <= set(ids)
    assert {name for names in outline.values("aria-labelledby") for name in names.split()} <= set(ids)


def test_the_page_loads_no_other_resource(outline: Outline) -> None:
    assert_inert(outline)


def test_the_page_can_be_navigated_with_a_screen_reader(outline: Outline) -> None:
    names = [name for name, _ in outline.elements]
    assert names.count("main") == names.count("nav") == names.count("h1") == 1
    assert outline.elements[[n for n, _ in outline.elements].index("body") + 1][1]["href"] == "#main"
    levels = [int(name[1]) for name in names[names.index("main") :] if re.fullmatch("h[1-6]", name)]
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert all("scope" in attrs for name, attrs in outline.elements if name == "th")
    scrolling = [attrs for _, attrs in outline.elements if attrs.get("tabindex") == "0"]
    assert all(attrs.get("aria-label") for attrs in scrolling)


@pytest.mark.parametrize("name", ["charges", "sandbox"])
def test_a_mark_of_a_field_is_one_element_and_a_step_of_a_list_is_an_item(name: str) -> None:
    page = page_of(name)
    assert "required</span></span>" not in page
    assert not re.search(r"<li>[^<]*(?:<code>[^<]*</code>[^<]*)* [2-9]\. ", page), "several steps in one item"


@pytest.mark.parametrize("name", ["charges", "sandbox"])
def test_the_page_is_small_enough_for_a_slow_connection(name: str) -> None:
    """24 kB for the style, the introduction and the longest schemas, and 800 bytes for each operation."""
    operations = len(load_contract(default_spec(name)).operations)
    assert len(gzip.compress(page_of(name).encode(), 5)) <= 25_000 + 820 * operations


@pytest.mark.parametrize("path", ["/docs", "/sandbox/v1/docs", "/openapi.json"])
def test_documents_are_sent_compressed_to_whoever_accepts_that(sandbox: Sandbox, path: str) -> None:
    plain = sandbox.http.get(path, headers={"Accept-Encoding": "identity"})
    packed = sandbox.http.get(path, headers={"Accept-Encoding": "gzip"})
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) < len(plain.content) / 4
    assert packed.content == plain.content
    assert "content-encoding" not in sandbox.http.get("/v0/charges", headers={"Accept-Encoding": "gzip"}).headers


def test_the_same_contract_gives_the_same_page() -> None:
    contract = load_contract(small())
    assert docs_page(contract, "/a") == docs_page(contract, "/a")


def test_a_page_is_drawn_once_however_often_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    monkeypatch.setattr(page_module, "docs_page", lambda *given: drawn.append("page") or docs_page(*given))
    first, second = (Sandbox(spec=load_contract(default_spec("charges"))) for _ in range(2))
    pages = [first.http.get("/docs", headers={"Accept-Encoding": coding}).text for coding in ("gzip", "identity") * 3]
    assert (len(set(pages)), drawn) == (1, ["page"])
    assert (second.http.get("/docs").text, drawn) == (pages[0], ["page", "page"])


def test_only_the_pages_own_style_sheet_is_allowed() -> None:
    page = shop_page()
    style = page.split("<style>")[1].split("</style>")[0]
    digest = b64encode(sha256(style.encode()).digest()).decode()
    policy = dict(part.strip().split(" ", 1) for part in Outline(page).values("content")[0].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["style-src"] == f"'sha256-{digest}'"


def test_a_module_of_the_server_is_the_only_script_and_the_policy_names_no_other_source() -> None:
    plain, active = (
        Outline(docs_page(load_contract(small()), "openapi.json", scripts))
        for scripts in (None, PageScripts("/assets/page.js", {"key": '"><script>'}))
    )
    added = [element for element in active.elements if element not in plain.elements]
    assert [(name, attrs) for name, attrs in added if name == "script"] == [
        ("script", {"type": "module", "src": "/assets/page.js"})
    ]
    assert {"name": "key", "content": '"><script>'} in [attrs for _, attrs in added]
    assert {"name": "leyden-document", "content": "openapi.json"} in [attrs for _, attrs in added]
    assert active.text == plain.text
    policy = dict(part.strip().split(" ", 1) for part in active.values("content")[0].split(";"))
    assert (policy["default-src"], policy["script-src"], policy["connect-src"]) == ("'none'", "'self'", "'self'")
    assert re.fullmatch(r"'sha256-\S+' 'self'", policy["style-src"])


def test_the_page_of_a_sandbox_in_process_has_no_script_and_may_not_be_framed(sandbox: Sandbox) -> None:
    for path in ("/docs", "/sandbox/v1/docs"):
        answer = sandbox.http.get(path)
        assert "<script" not in answer.text
        assert answer.headers["content-security-policy"] == "frame-ancestors 'none'"
        assert 'href="openapi.json"' in answer.text


def test_a_page_for_another_spec_does_not_mention_charges() -> None:
    page = shop_page()
    assert "charge" not in page.lower()
    assert "Order something" in page
    assert "/openapi.json" in page


def test_a_field_is_shown_with_its_bounds_its_default_and_whether_it_is_required() -> None:
    words = Outline(shop_page()).text
    for expected in (
        "required",
        "up to 10 characters",
        "at most 30",
        "Expects",
        "whole coins as a text",
        "count as not given",
    ):
        assert expected in words
    assert re.search(r"Default\s+7", words)


def test_the_example_request_is_a_command_that_a_shell_understands() -> None:
    document = small()
    media = document["paths"]["/v0/orders"]["post"]["requestBody"]["content"]["application/json"]
    media["examples"]["tea"]["value"]["note"] = "it's tea"
    words = "".join(Outline(shop_page(document)).words)
    assert 'curl -X POST "$BASE_URL/v0/orders" \\\n  -H "apikey: $API_KEY" \\\n' in words
    assert '"note": "it\'\\\'\'s tea"' in words
    assert '/pay/text?limit=5"' in words


def test_the_address_of_a_document_that_names_its_server_is_used() -> None:
    document = small() | {"servers": [{"url": "https://pay.shop.example/"}]}
    words = "".join(Outline(shop_page(document)).words)
    assert 'curl -X POST "https://pay.shop.example/v0/orders"' in words
    assert "BASE_URL" not in words


def test_a_callback_shows_its_headers_its_body_and_its_attempts() -> None:
    outline = Outline(shop_page())
    words = outline.text
    for expected in ("webhook-id: msg_1", "at once", "+ 5 s", "+ 5 min", "varied by 20 %", "order.paid"):
        assert expected in words


def test_what_the_specification_leaves_open_is_marked_with_the_decision() -> None:
    words = Outline(shop_page()).text
    for decision in ("paths", "late", "delivery"):
        assert re.search(rf"Leyden's decision\s+{decision}\b", words)


def test_an_edit_of_the_document_changes_the_page() -> None:
    document = small()
    document["components"]["schemas"]["NewOrder"]["properties"]["note"]["maxLength"] = 11
    words = Outline(shop_page(document)).text
    assert "up to 11 characters" in words
    assert "up to 10 characters" not in words


def test_the_applied_overlays_are_named() -> None:
    assert "payable-at-expiry" in Outline(page_of(overlays=["payable-at-expiry"])).text
    assert "payable-at-expiry" not in Outline(page_of()).text


def test_a_field_that_one_branch_forbids_still_has_its_line() -> None:
    document = small()
    order = document["components"]["schemas"]["Order"]
    order["oneOf"] = [{"properties": {"note": {"const": "x"}}}, {"properties": {"amount": {"type": "string"}}}]
    order["properties"]["note"] = {"description": "The note as it was.", "type": ["string", "null"]}
    assert "The note as it was." in Outline(shop_page(document)).text


def every_text(node: Any, key: str = "") -> Iterator[tuple[Any, Any]]:
    """The locations of a document's free texts: (their mapping, their key)."""
    if isinstance(node, dict):
        for name, value in node.items():
            if name in {"description", "summary", "title", "x-expect", "because"} and isinstance(value, str):
                yield node, name
            else:
                yield from every_text(value, name)
    elif isinstance(node, list):
        for value in node:
            yield from every_text(value)


def poisoned(text: str) -> dict[str, Any]:
    document = small()
    document["info"] |= {"description": text, "summary": text}
    document["tags"] = [{"name": text, "description": text}]
    document["paths"]["/v0/orders"]["post"] |= {"description": text, "tags": [text]}
    order = document["components"]["schemas"]["Order"]
    order["description"] = text
    order["properties"]["note"] = {"type": ["string", "null"], "description": text, "examples": [text]}
    example = document["components"]["examples"]["Order"]
    example |= {"summary": text, "description": text}
    example["value"]["data"]["note"] = text
    for mapping, key in list(every_text(document)):
        mapping[key] = text
    return document


def test_a_hostile_description_is_shown_as_text() -> None:
    outline = Outline(shop_page(poisoned(HOSTILE)))
    assert_inert(outline)
    assert "<script>alert(1)</script>" in outline.text
    assert "evil.example/p" in outline.text


@given(st.text(alphabet=st.sampled_from("<>\"'&`*_[]()!#|\\/=:;-~ \nascriptonml1"), min_size=1, max_size=60))
def test_no_description_adds_an_element_to_the_page(text: str) -> None:
    assert_inert(Outline(f"<div>{Markdown().block(text)}{Markdown().line(text)}{tag('p', text, title=text)}</div>"))


@deep("test_a_page_is_drawn_once_however_often_it_is_asked_for")
@given(st.text())
def test_a_plain_text_is_shown_unchanged(text: str) -> None:
    shown = "".join(Outline(tag("p", text, title=text)).words)
    # HTML itself cannot write these: NUL, and the carriage return that it reads as a new line.
    assert shown == text or set(text) & {"\x00", "\r"}


def test_a_text_stays_escaped_when_html_is_joined_or_formatted() -> None:
    trusted = Html("<b>x</b>")
    assert join([trusted, "<i>"]) == "<b>x</b>&lt;i&gt;"
    assert tag("p", f"{trusted}") == "<p>&lt;b&gt;x&lt;/b&gt;</p>"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    )
)
def test_syntax_colours_do_not_change_the_text_of_an_example(value: Any) -> None:
    source = json_source(value)
    shown = "".join(Outline(f"<pre>{coloured(source)}</pre>").words)
    assert shown == source or set(source) & {"\x00", "\r"}


# ------------------------------------------------------------------------------------------- the diagram


@st.composite
def tables(draw: st.DrawFn) -> LifecycleTable:
    states = [f"{'s' * draw(st.integers(1, 9))}{index}" for index in range(draw(st.integers(1, 5)))]
    triggers = [f"{'t' * draw(st.integers(1, 18))}{index}" for index in range(draw(st.integers(1, 4)))]
    rows = [LifecycleRow("(creation)", "created", None, states[0], (), None, None, "specification", None)]
    for state in states:
        for trigger in triggers:
            to = draw(st.none() | st.sampled_from(states))
            when = draw(st.sampled_from([None, "guard"]))
            basis = draw(st.sampled_from(["specification", "decision"]))
            refuse = None if to else "no"
            rows.append(LifecycleRow(state, trigger, when if to else None, to, (), refuse, refuse, basis, "why"))
    return LifecycleTable("Thing", tuple(states), ("created", *triggers), tuple(rows))


def boxes(svg: ElementTree.Element) -> tuple[list[tuple[str, float, float, float, float]], list[tuple[float, ...]]]:
    """The labels as (text, left, top, right, bottom), and the states' boxes as (left, top, right, bottom)."""
    labels = []
    for text in svg.iter(f"{SVG}text"):
        for span in text.iter(f"{SVG}tspan"):
            x, y, width = float(span.attrib["x"]), float(span.attrib["y"]), len(span.text or "") * LETTER
            left = x - width if text.attrib["text-anchor"] == "end" else x
            labels.append((span.text or "", left, y - 9, left + width, y + 2))
    states = []
    for group in svg.iter(f"{SVG}g"):
        if group.attrib.get("class") == "state":
            rect = group[0].attrib
            x, y, w, h = (float(rect[key]) for key in ("x", "y", "width", "height"))
            states.append((x, y, x + w, y + h))
    return labels, states


def bends(svg: ElementTree.Element) -> Iterator[tuple[float, float]]:
    """The points by which the lines are drawn."""
    for path in svg.iter(f"{SVG}path"):
        for x, y in re.findall(r"(-?[0-9.]+) (-?[0-9.]+)", path.attrib["d"] if "marker-end" in path.attrib else ""):
            yield float(x), float(y)


def apart(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]


@given(tables())
def test_every_lifecycle_has_a_diagram_without_overlaps(table: LifecycleTable) -> None:
    svg = ElementTree.fromstring(lifecycle_svg(table))
    labels, states = boxes(svg)
    moves = [row for row in table.rows if row.to is not None and row.source != "(creation)"]
    assert sorted(text.split(" [")[0] for text, *_ in labels) == sorted(row.trigger for row in moves)
    assert len(states) == len(table.states)
    width, height = float(svg.attrib["width"]), float(svg.attrib["height"])
    for box in [*(label[1:] for label in labels), *states]:
        assert box[0] >= 0
        assert box[1] >= 0
        assert box[2] <= width
        assert box[3] <= height
    for one, other in combinations(states, 2):
        assert apart(one, other)
    for one, other in combinations(labels, 2):
        assert apart(one[1:], other[1:]), (one, other)
    for x, y in bends(svg):
        assert not [s for s in states if s[0] < x < s[2] and s[1] < y < s[3]], (x, y)
    for label in labels:
        assert all(apart(label[1:], state) for state in states), label


def test_the_diagram_of_a_charge_has_a_text_alternative() -> None:
    svg = lifecycle_svg(load_contract(default_spec("charges")).lifecycles["Charge"])
    words = ElementTree.fromstring(svg).findtext(f"{SVG}desc")
    assert words is not None
    assert words.startswith("Starts pending. pending to completed: payment_settled [before_expiry].")


def test_transitions_based_on_a_decision_are_dashed() -> None:
    svg = ElementTree.fromstring(lifecycle_svg(load_contract(default_spec("charges")).lifecycles["Charge"]))
    dashed = [g for g in svg.iter(f"{SVG}g") if any("stroke-dasharray" in path.attrib for path in g.iter(f"{SVG}path"))]
    assert [span.text for group in dashed for span in group.iter(f"{SVG}tspan")] == ["invoice_failed"]
