"""Shared HTML of the reports of the checks: one page without scripts, for light and dark colour schemes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from html import escape
from pathlib import Path

from leyden.files.json_files import InputError
from leyden.files.json_files import shown as shown_path
from leyden.files.standard_streams import print_document
from leyden.files.written_files import check_file, write_private

_STYLE = Path(__file__).with_name("report.css").read_text(encoding="utf-8")


def report_page(
    name: str, subject: str, grade: str | None, headline: str, counts: Mapping[str, tuple[int, str]], hint: str = ""
) -> Iterator[str]:
    """The beginning of a page, to the opening of `<main>`.

    `name` is that of the check, `subject` what was checked; `counts` has the number of each verdict with its word.
    """
    yield '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    # Nothing on this page loads or runs anything, whatever an endpoint or a program may have written.
    yield "<meta http-equiv=\"content-security-policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    yield f"<title>{escape(grade or 'no grade')}: {escape(name.lower())} of {shown(subject)}</title>"
    yield f'<style>{_STYLE}</style></head><body><header><div class="top">'
    yield f'<div class="grade {escape(grade or "none")}" aria-hidden="true">{escape(grade or "-")}</div>'
    yield f'<div><h1>{escape(name)}</h1><p class="where">{shown(subject)}</p>'
    yield f"<p><strong>{shown(headline)}</strong></p></div></div>"
    yield '<ul class="counts">'
    for verdict, (count, word) in counts.items():
        if count:
            yield f'<li class="tag {verdict}">{count} {word}</li>'
    yield "</ul>"
    if hint:
        yield f'<p class="hint">{escape(hint)}</p>'
    yield "</header><main>"


def report_end(footer: str) -> str:
    """The end of a page; `footer` is HTML."""
    return f"</main><footer>{footer}</footer></body></html>\n"


def to_fix(entries: Iterable[tuple[str, str, str, Iterable[str]]]) -> Iterator[str]:
    """The section of what is to be fixed: of each entry its title, what was found, the correction and the cases."""
    listed = list(entries)
    if not listed:
        return
    yield "<section><h2>What to fix, the worst first</h2>"
    for title, found, mend, names in listed:
        links = ", ".join(f'<a href="#{escape(name)}">{escape(name)}</a>' for name in names)
        yield f"<p><strong>{escape(title)}</strong>: {shown(found)}.</p>"
        yield f"<p><strong>How to fix it</strong>: {shown(mend)} Checks: {links}.</p>"
    yield "</section>"


def summary(name: str, title: str, verdict: str, word: str, *, is_open: bool) -> str:
    """The beginning of the part about one case."""
    return (
        f'<details id="{escape(name)}"{" open" if is_open else ""}><summary><span class="tag {verdict}">{word}</span>'
        f'<span class="title">{escape(title)}</span><code>{escape(name)}</code></summary>'
    )


def shown(text: str) -> str:
    """The text, escaped for a page.

    Direction marks and other invisible characters are shown as what they are, so that they cannot play tricks.
    """
    return escape("".join(char if char.isprintable() or char == "\n" else f"\\u{ord(char):04x}" for char in text))


def check_report(place: str | None) -> None:
    """Raise `InputError` if a report cannot be written there, before the checks run."""
    if place in (None, "-"):
        return
    try:
        check_file(place)
    except OSError as error:
        raise _unwritable(place, error) from None


def write_report(place: str | None, text: str) -> None:
    """Write a report to a file that only its owner may read, or print it for `-`. Raises `InputError`."""
    if place is None:
        return
    if place == "-":
        print_document(text)
        return
    try:
        write_private(place, text)  # it has requests with valid signatures, or the output of a program
    except OSError as error:
        raise _unwritable(place, error) from None


def _unwritable(place: str, error: OSError) -> InputError:
    return InputError(f"{shown_path(place)}: {error.strerror}; choose another file for the report")
