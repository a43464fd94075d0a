// A list beside the detail of one of its rows, and the windowed table of the list.

import { Unavailable } from "./parts.js";
import { Link, navigate, route } from "./router.js";
import { html, useEffect, useLayoutEffect, useRef, useState, useStore } from "./ui.js";

const ROW_PX = 44;
const SPARE_ROWS = 12;

/** The table that has the keyboard: `step(by)` opens the next or the previous row. */
export const focusedTable = { step: null };

/** The list, and beside it, or in its place where there is no room for both, the detail that is `open`. */
export function ListDetail({ label, back, open, list, children }) {
  const detail = useRef(null);
  useEffect(() => { if (open) detail.current?.scrollTo?.(0, 0); }, [open]);
  return html`<div class="split ${open ? "open" : ""}">
    <section class="list" aria-label=${label}>${list}</section>
    ${open && html`<section class="detail" aria-label="Detail" ref=${detail} key=${open} tabindex="-1">
      <${Link} to=${back} keep class="back" title="Close (Escape)">← ${label}</${Link}>${children}</section>`}
  </div>`;
}

/**
 * The rows of `list` (of `usePages`, or `{rows}`) as a table: only the rows in view are in the document.
 *
 * `columns`: `{title, cell: (row) => content, kind}`, where `kind` is `main` (takes the free width), `number`, `time`, `status`,
 * `text`, `action`, and also `wide` (left out where the list is narrow). The `main` column is the link to `to(row)`.
 * A table with `primary` has the keys `j` and `k`.
 */
export function Table({ label, list, columns, to, keyOf = (row) => row.id, selected = null, empty, primary = true }) {
  const { rows, problem, loading = false, complete = true, more, show } = list;
  const box = useRef(null);
  const [view, setView] = useState({ top: 0, height: 800 });
  useLayoutEffect(() => {
    const node = box.current;
    const measure = () => setView((former) => {
      const next = { top: node.scrollTop, height: node.clientHeight };
      return next.top === former.top && next.height === former.height ? former : next;
    });
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(node);
    node.addEventListener("scroll", measure, { passive: true });
    return () => { observer.disconnect(); node.removeEventListener("scroll", measure); };
  }, []);
  const first = Math.max(0, Math.min(rows.length, Math.floor(view.top / ROW_PX)) - SPARE_ROWS);
  const last = Math.min(rows.length, Math.ceil((view.top + view.height) / ROW_PX) + SPARE_ROWS);
  useEffect(() => {
    show?.(first, last);
    if (!complete && !loading && !problem && last >= rows.length - SPARE_ROWS) more?.();
  }, [first, last, rows.length, complete, loading, problem]);
  const place = selected === null ? -1 : rows.findIndex((row) => keyOf(row) === selected);
  const scrollTo = (index) => {
    const node = box.current;
    const top = index * ROW_PX;
    if (top < node.scrollTop) node.scrollTop = top;
    if (top + 2 * ROW_PX > node.scrollTop + node.clientHeight) node.scrollTop = top + 2 * ROW_PX - node.clientHeight;
  };
  // Before the page is painted: a key acts on the rows that are shown.
  useLayoutEffect(() => {
    if (!primary) return undefined;
    focusedTable.step = (by) => {
      const next = place < 0 ? (by > 0 ? 0 : -1) : place + by;
      if (next < 0 || next >= rows.length) return;
      scrollTo(next);
      navigate(to(rows[next]) + location.search, { replace: place >= 0 });
    };
    return () => { focusedTable.step = null; };
  });
  useEffect(() => { if (place >= 0) scrollTo(place); }, [selected, place >= 0]);
  const gap = (height) => height > 0 && html`<tr class="gap" aria-hidden="true"><td style=${{ height: `${height}px` }}></td></tr>`;
  return html`<div class="table" ref=${box} tabindex="0" role="region" aria-label=${label}>
    <table aria-rowcount=${complete ? rows.length + 1 : -1}>
      <thead><tr>${columns.map((column) => html`<th scope="col" class=${column.kind}>${column.hidden ? html`<span class="unseen">${column.title}</span>` : column.title}</th>`)}</tr></thead>
      <tbody>
        ${gap(first * ROW_PX)}
        ${rows.slice(first, last).map((row, index) => html`<${Row} key=${keyOf(row)} row=${row} number=${first + index + 2} columns=${columns} to=${to} current=${keyOf(row) === selected} />`)}
        ${gap((rows.length - last) * ROW_PX)}
      </tbody>
    </table>
    ${problem && html`<${Unavailable} problem=${problem} />`}
    ${loading && html`<p class="hint padded">Loading…</p>`}
    ${!loading && !problem && rows.length === 0 && complete && html`<p class="hint padded">${empty}</p>`}
  </div>`;
}

function Row({ row, number, columns, to, current }) {
  const open = (event) => {
    if (event.target.closest("a, button, input, select") || String(getSelection())) return;
    event.currentTarget.querySelector("a")?.click();
  };
  const main = columns.find((column) => column.kind.split(" ").includes("main"));
  return html`<tr aria-rowindex=${number} aria-current=${current ? "true" : undefined} class=${current ? "chosen" : ""} onClick=${open}>
    ${columns.map((column) => html`<td class=${column.kind}>${column === main && to ? html`<${Link} to=${to(row)} keep>${column.cell(row)}</${Link}>` : column.cell(row)}</td>`)}
  </tr>`;
}

/** The tools above a list: the search field (key `/`), the filters, and what is counted. */
export function Tools({ search, placeholder, onSearch, children }) {
  const { query } = useStore(route);
  const [text, setText] = useState(search ?? query.get("text") ?? "");
  const timer = useRef(null);
  useEffect(() => { if (document.activeElement?.id !== "search") setText(search ?? ""); }, [search]);
  const typed = (event) => {
    const { value } = event.target;
    setText(value);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => onSearch(value.trim()), 200);
  };
  useEffect(() => () => clearTimeout(timer.current), []);
  return html`<div class="tools" role="search">
    ${onSearch && html`<input id="search" type="search" aria-label=${placeholder} placeholder=${placeholder} value=${text} onInput=${typed} autocomplete="off" spellcheck=${false} />`}
    ${children}</div>`;
}

/** The values of a filter, side by side: `options` is a list of `[value, label, count]`. */
export function Choices({ label, value, options, onChoose }) {
  return html`<div class="choices" role="group" aria-label=${label}>${options.map(([name, text, count]) => html`
    <button type="button" key=${name} aria-pressed=${name === value ? "true" : "false"} onClick=${() => onChoose(name)}>${text}${count !== undefined && html` <span class="count">${count}</span>`}</button>`)}</div>`;
}
