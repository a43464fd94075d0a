"""One operation or one callback on the documentation page: the description on the left, examples on the right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from leyden.server.contract.types import CallbackRule, Contract, Operation
from leyden.server.docs.examples import Examples
from leyden.server.docs.fields import Fields, badge
from leyden.server.docs.tables import callback_item, success_in_words
from leyden.server.html import Html, Markdown, anchor, code, coloured, frame, join, json_source, link, tag, text
from leyden.server.timestamps import span_in_words

_LARGE = 400  # characters of a table that is worth a way to the one like it
_EVERYWHERE = 4  # a response of this many operations is described once, at the end of the page
_PLACES = (
    ("path", "Path parameters"),
    ("query", "Query parameters"),
    ("header", "Headers"),
)


class Operations:
    """Draws the operations and callbacks of one contract."""

    def __init__(self, contract: Contract, markdown: Markdown, fields: Fields, examples: Examples) -> None:
        self._contract = contract
        self._markdown = markdown
        self._fields = fields
        self._examples = examples
        self._drawn: dict[Html, Html] = {}  # each large table of fields that is on the page, and the link to its place
        self._answered_so = Counter(
            (status, self._reason(response))
            for operation in contract.operations.values()
            for status, response in self._problems(self.written(operation)).items()
        )

    def written(self, operation: Operation) -> Mapping[str, Any]:
        """The operation object in the document."""
        found: Mapping[str, Any] = self._contract.document["paths"][operation.path][operation.method.lower()]
        return found

    def operation(self, operation: Operation) -> Html:
        """The whole entry of an operation."""
        written = self.written(operation)
        name = anchor("operation", operation.operation_id)
        request = self._fields.resolve(written.get("requestBody", {}))
        prose = (
            tag("h3", operation.summary or operation.operation_id, _here(name), id=f"{name}-title"),
            tag("p", method(operation.method), path(operation.path), class_="route"),
            self._badges(operation, written),
            self._markdown.block(written.get("description")),
            *self._parameters(self._examples.parameters(operation), sent=True),
            *self._body(request, "Body", link(name, operation.summary or operation.operation_id), sent=True),
            *self._answer(written, link(name, operation.summary or operation.operation_id)),
            self._errors(written),
            self._callbacks(operation),
            self._links(written),
        )
        return spread(name, prose, self._samples(operation, request, written))

    def callback_title(self, callback: CallbackRule) -> Html:
        """The summary of a callback, or its name when the document has none."""
        return text(callback_item(self._contract, callback).get("post", {}).get("summary") or callback.name)

    def callback(self, operation: Operation, callback: CallbackRule) -> Html:
        """The whole entry of a callback: when it is sent, its headers and body, and its attempts."""
        item = callback_item(self._contract, callback)
        post = item.get("post", {})
        name = anchor("callback", callback.name)
        headers = [self._fields.resolve(parameter) for parameter in post.get("parameters", ())]
        request = self._fields.resolve(post.get("requestBody", {}))
        place = code("/".join(callback.url_path))
        operation_link = link(anchor("operation", operation.operation_id), operation.summary or operation.operation_id)
        prose = (
            tag("h3", self.callback_title(callback), _here(name), id=f"{name}-title"),
            tag("p", method("POST"), "to the ", place, " given in ", operation_link, class_="route"),
            self._markdown.block(post.get("description") or item.get("description")),
            *self._parameters(headers, sent=False),
            *self._body(request, "Body", link(name, self.callback_title(callback)), sent=False),
            self._statuses(post.get("responses", {}), "Your answer"),
            self._delivery(callback, item),
        )
        sent = [f"POST {{{callback.url_path[-1]}}}"]
        sent += [f"{header['name']}: {self._examples.parameter_value(header)[1]}" for header in headers]
        bodies = self._examples.of_body(request)
        first = join(["\n".join(sent), "\n\n", *(coloured(json_source(value)) for _, value in bodies[:1])])
        return spread(name, prose, [panel("Callback", first, bodies[0][0] if bodies else ""), _others("", bodies[1:])])

    def example_problem(self) -> Html | None:
        """The first error response with an example in the document."""
        for operation in self._contract.operations.values():
            for status, response in self.written(operation).get("responses", {}).items():
                shown = self._examples.of_body(response) if str(status)[:1] in {"4", "5"} else []
                if shown:
                    return panel("An error", coloured(json_source(shown[0][1])), shown[0][0])
        return None

    def all_errors(self) -> Html | None:
        """Every error status of every operation with its descriptions in the document."""
        reasons: dict[str, dict[str, None]] = {}
        for operation in self._contract.operations.values():
            for status, response in self._problems(self.written(operation)).items():
                reasons.setdefault(status, {})[self._reason(response)] = None
        if not reasons:
            return None
        rows = (
            tag("tr", tag("th", _status(status), scope="row"), tag("td", *map(self._markdown.block, reasons[status])))
            for status in sorted(reasons)
        )
        return _two_columns("Error statuses", "Status", "Reason", rows)

    def _badges(self, operation: Operation, written: Mapping[str, Any]) -> Html | None:
        marks = [
            None if operation.secured else tag("span", "no key needed", class_="mark"),
            tag("span", "deprecated", class_="mark") if written.get("deprecated") else None,
            badge(operation.decision) if operation.basis == "decision" else None,
        ]
        return tag("p", *marks, class_="marks") if any(marks) else None

    def _parameters(self, parameters: Sequence[Mapping[str, Any]], *, sent: bool) -> Iterable[Html | None]:
        for place, caption in _PLACES:
            listed = [self._fields.parameter(parameter) for parameter in parameters if parameter.get("in") == place]
            yield self._fields.draw(listed, caption, sent=sent)

    def _body(self, node: Mapping[str, Any], caption: str, here: Html, *, sent: bool) -> Iterable[Html | None]:
        schema = self._fields.body_schema(node)
        if schema is None:
            return
        variants = self._fields.variants(schema)
        for title, variant in variants:
            named = f"{caption}: {title}" if len(variants) > 1 else caption
            table = self._fields.table(variant, named, sent=sent)
            if table is None:
                yield tag("p", f"{named}: ", self._fields.kind(variant))
            elif table in self._drawn:
                yield tag("p", f"{named}: the same as under ", self._drawn[table], ".")
            else:
                if len(table) > _LARGE:
                    self._drawn[table] = here
                yield table

    def _answer(self, written: Mapping[str, Any], here: Html) -> Iterable[Html | None]:
        for status, node in written.get("responses", {}).items():
            if not str(status).startswith("2"):
                continue
            response = self._fields.resolve(node)
            yield tag("h4", "Answer ", tag("span", str(status), class_="status"))
            yield self._markdown.block(response.get("description"))
            headers = response.get("headers", {})
            listed = [self._fields.parameter({"name": n, **self._fields.resolve(h)}) for n, h in headers.items()]
            yield self._fields.draw(listed, "Headers of the answer", sent=False)
            yield from self._body(response, "Fields of the answer", here, sent=False)

    def _problems(self, written: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
        responses = written.get("responses", {})
        return {str(status): node for status, node in responses.items() if not str(status).startswith("2")}

    def _errors(self, written: Mapping[str, Any]) -> Html | None:
        problems = self._problems(written)
        if not problems:
            return None
        own = {
            status: response
            for status, response in problems.items()
            if self._answered_so[status, self._reason(response)] < _EVERYWHERE
        }
        chips = join((tag("span", status, class_="status") for status in problems), " ")
        table = self._statuses(own, None) if own else None
        rest = len(own) < len(problems) and tag(
            "p", "The others " if own else "They ", "have their usual meaning: ", link("errors", "Errors"), "."
        )
        return tag("details", tag("summary", "Errors ", chips), table, rest or None, class_="errors")

    def _reason(self, response: Mapping[str, Any]) -> str:
        reason: str = self._fields.resolve(response).get("description", "")
        return reason

    def _statuses(self, responses: Mapping[str, Mapping[str, Any]], caption: str | None) -> Html:
        rows = (
            tag(
                "tr",
                tag("th", _status(str(status)), scope="row"),
                tag("td", self._markdown.block(self._fields.resolve(response).get("description"))),
            )
            for status, response in responses.items()
        )
        return _two_columns(caption, "Status", "Meaning", rows)

    def _callbacks(self, operation: Operation) -> Html | None:
        if not operation.callbacks:
            return None
        lines = (
            tag(
                "li",
                link(anchor("callback", callback.name), callback.name),
                " to ",
                code("/".join(callback.url_path)),
                " on ",
                join(map(code, callback.delivery.events.values()), ", "),
            )
            for callback in operation.callbacks
        )
        return join([tag("h4", "Callbacks"), tag("ul", *lines, class_="plain")])

    def _links(self, written: Mapping[str, Any]) -> Html | None:
        lines: list[Html] = []
        for status, response in written.get("responses", {}).items():
            if not str(status).startswith("2"):
                continue
            for node in self._fields.resolve(response).get("links", {}).values():
                onward = self._fields.resolve(node)
                target = str(onward.get("operationId", ""))
                known = self._contract.operations.get(target)
                given = onward.get("parameters", {}).items()
                lines.append(
                    tag(
                        "li",
                        link(anchor("operation", target), known.summary or target)
                        if known
                        else f"{target} (not served)",
                        ": " if onward.get("description") else None,
                        self._markdown.line(onward.get("description")),
                        *(tag("span", code(name), " from ", code(value), class_="given") for name, value in given),
                    )
                )
        return join([tag("h4", "Next operations"), tag("ul", *lines, class_="plain")]) if lines else None

    def _samples(
        self, operation: Operation, request: Mapping[str, Any], written: Mapping[str, Any]
    ) -> list[Html | None]:
        bodies = self._examples.of_body(request)
        first = bodies[0][1] if bodies else None
        panels: list[Html | None] = [
            panel("Request", self._examples.command(operation, first), bodies[0][0] if bodies else "")
        ]
        panels.append(_others("Request body", bodies[1:]))
        for status, response in written.get("responses", {}).items():
            answers = self._examples.of_body(response) if str(status).startswith("2") else []
            if answers:
                panels.append(panel(f"Answer {status}", coloured(json_source(answers[0][1])), answers[0][0]))
                panels.append(_others("Answer", answers[1:]))
        return [part for part in panels if part]

    def _delivery(self, callback: CallbackRule, item: Mapping[str, Any]) -> Html:
        rule = callback.delivery
        events = (join([code(event), f" when {state}"]) for state, event in rule.events.items())
        waits = (tag("li", "at once" if pause == 0 else f"+ {span_in_words(pause)}") for pause in rule.delays_ms)
        varied = f", varied by {rule.jitter * 100:g} % either way" if rule.jitter else ""
        counted = f"Each wait is counted from the end of the attempt before it{varied}."
        facts = (
            ("Events", join(events, ", ")),
            ("Delivered", text(success_in_words(self._contract, callback))),
            ("Attempts", join([tag("ol", *waits, class_="waits"), counted])),
            (
                "Time allowed",
                text(f"{span_in_words(rule.timeout_ms)}, {span_in_words(rule.connect_timeout_ms)} to connect"),
            ),
            (
                "Retry-After",
                text(
                    "with 429 or 503, postpones the next attempt if it is later than the schedule, up to"
                    f" {rule.retry_after_times:g} times the wait"
                ),
            ),
            ("In flight at once", text(rule.in_flight)),
            ("Old secret signs for", text(span_in_words(rule.rotation_ms))),
        )
        lines = (tag("tr", tag("th", name, scope="row"), tag("td", value)) for name, value in facts)
        written = item.get("x-delivery", {})
        mark = badge(written.get("decision")) if written.get("basis") == "decision" else None
        return join([_two_columns("Delivery", "Rule", "Value", lines), mark and tag("p", mark, class_="marks")])


def spread(name: str, prose: Iterable[Html | None], aside: Iterable[Html | None]) -> Html:
    """A section of two columns with the id `name`: text and examples."""
    return tag(
        "section",
        tag("div", *prose, class_="prose"),
        tag("div", *aside, class_="aside"),
        id=name,
        class_="spread",
        aria_labelledby=f"{name}-title",
    )


def panel(title: str, content: Html, summary: str = "") -> Html:
    """An example with its heading, in a frame."""
    note = tag("span", summary) if summary else None
    return tag(
        "figure", tag("figcaption", tag("b", title), note), frame(content, f"{title} {summary}".strip()), class_="panel"
    )


def method(name: str) -> Html:
    """The badge of an HTTP method."""
    return tag("span", name.upper(), class_=f"method {name.lower()}")


def path(template: str) -> Html:
    """A path with its parameters marked."""
    pieces = template.replace("}", "{").split("{")
    return tag("code", *(tag("i", f"{{{p}}}") if at % 2 else p for at, p in enumerate(pieces)), class_="path")


def _others(title: str, examples: Sequence[tuple[str, Any]]) -> Html | None:
    shown = (
        tag(
            "details",
            tag("summary", name or title),
            frame(coloured(json_source(value)), name or title),
            class_="panel",
        )
        for name, value in examples
    )
    return join(shown) or None


def _two_columns(caption: str | None, left: str, right: str, rows: Iterable[Html]) -> Html:
    head = tag("tr", tag("th", left, scope="col"), tag("th", right, scope="col"))
    body = (tag("colgroup", tag("col"), tag("col")), tag("thead", head, class_="unseen"), tag("tbody", *rows))
    return tag("table", caption and tag("caption", caption), *body, class_="fields")


def _status(status: str) -> Html:
    try:
        phrase = HTTPStatus(int(status)).phrase
    except ValueError:
        phrase = "anything else" if status == "default" else ""
    return join([tag("span", status, class_="status"), phrase and tag("span", phrase, class_="kind")])


def _here(name: str) -> Html:
    return tag("a", "#", href=f"#{name}", class_="here", aria_label="Link to this section")
