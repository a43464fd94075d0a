// The event journal: everything that happened, with details that no payer learns. Newest first.

import { journalLength } from "../api.js";
import { useResource } from "../data.js";
import { grouped, instant } from "../format.js";
import { ListDetail, Table, Tools } from "../lists.js";
import { Facts, Json, Section, Unavailable } from "../parts.js";
import { Link, setFilter } from "../router.js";
import { html, useMemo, useState, useStore } from "../ui.js";

export const name = "journal";
export const path = "journal";
export const title = "Event journal";
export const letter = "j";

const PORTION = 500;
const COLUMNS = [
  { title: "Event", kind: "main", cell: (entry) => entry.kind.replaceAll("_", " ") },
  { title: "Number", kind: "number few", cell: (entry) => grouped(entry.sequence) },
  { title: "Subject", kind: "text wide mono", cell: (entry) => entry.subject },
  { title: "Sandbox time", kind: "time wide", cell: (entry) => html`<time>${instant(entry.at)}</time>` },
];

export function Panel({ route: { id, query } }) {
  const text = query.get("text") ?? "";
  const length = useStore(journalLength);
  const [portions, setPortions] = useState(1);
  const first = Math.max(0, (length ?? 0) - portions * PORTION);
  const { data, problem, loading } = useResource(`/sandbox/v1/journal?after=${first}&limit=${Math.min(1_000, portions * PORTION)}`);
  const rows = useMemo(() => matching(data ?? [], text), [data, text]);
  const list = { rows, problem, loading, complete: true };
  return html`<${ListDetail} label="Event journal" back="journal" open=${id} list=${html`
      <div class="head"><h2>Event journal</h2><p class="hint">${data && `${grouped(rows.length)} of the latest ${grouped(data.length)} entries`}</p>
        ${first > 0 && portions === 1 && html`<button type="button" class="far" onClick=${() => setPortions(2)}>Show 1,000</button>`}</div>
      <${Tools} search=${text} placeholder="Search kinds, subjects and details" onSearch=${(value) => setFilter({ text: value })} />
      <${Table} label="Event journal" list=${list} columns=${COLUMNS} to=${(entry) => `journal/${entry.sequence}`} keyOf=${(entry) => String(entry.sequence)} selected=${id}
        empty=${text ? "No entry has this text." : "Nothing happened yet."} />`}>
    ${id && html`<${Detail} key=${id} number=${Number(id)} />`}
  </${ListDetail}>`;
}

/** The entries with the text, newest first. */
function matching(entries, text) {
  const sought = text.toLowerCase();
  return entries.filter((entry) => !sought || JSON.stringify([entry.kind, entry.kind.replaceAll("_", " "), entry.subject, entry.facts]).toLowerCase().includes(sought)).reverse();
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

function Detail({ number }) {
  const { data, problem, loading } = useResource(Number.isSafeInteger(number) && number > 0 ? `/sandbox/v1/journal?after=${number - 1}&limit=1` : null);
  if (problem && !data) return html`<h2>Entry ${number}</h2><${Unavailable} problem=${problem} />`;
  if (loading) return html`<p class="hint">Loading…</p>`;
  const entry = data?.find((one) => one.sequence === number);
  if (entry === undefined) return html`<h2>No such entry</h2><p class="hint">The journal has no entry with this number, or has it no longer.</p>`;
  return html`<div class="title"><h2>${entry.kind.replaceAll("_", " ")}</h2></div>
    <${Facts} rows=${[["number", grouped(entry.sequence)], ["sandbox time", html`<time>${instant(entry.at)}</time>`],
      ["subject", UUID.test(entry.subject) ? html`<${Link} to=${`search?text=${entry.subject}`}><code>${entry.subject}</code></${Link}>` : html`<code>${entry.subject}</code>`]]} />
    <${Section} title="Details"><${Json} value=${entry.facts} label="details" /></${Section}>`;
}
