// A search over charges, static charges, payments, callbacks and requests.

import { useResource } from "../data.js";
import { instant } from "../format.js";
import { Tools } from "../lists.js";
import { Pill, Section, Unavailable } from "../parts.js";
import { Link, setFilter } from "../router.js";
import { html } from "../ui.js";

export const name = "search";
export const path = "search";
export const title = "Search";
export const letter = "h";

// The title of a kind of result, and the view of one.
const KINDS = {
  charge: ["Charges", ({ id }) => `charges/${id}`],
  static_charge: ["Static Charges", ({ id }) => `static-charges/${id}`],
  payment: ["Payments", ({ chargeId }) => (chargeId ? `charges/${chargeId}` : null)],
  delivery: ["Callbacks", ({ id }) => `callbacks/${id}`],
  request: ["Requests", ({ id }) => `requests/${id}`],
};

export function Panel({ route: { query } }) {
  const text = query.get("text") ?? "";
  const { data, problem, loading } = useResource(text ? `/sandbox/v1/search?perKind=20&text=${encodeURIComponent(text)}` : null);
  return html`<div class="padded scroll"><h2>Search</h2>
    <${Tools} search=${text} placeholder="An id, a description, an invoice, a hash, a URL, a body" onSearch=${(value) => setFilter({ text: value })} />
    ${problem && html`<${Unavailable} problem=${problem} />`}${loading && html`<p class="hint">Searching…</p>`}
    ${data && html`<p class="hint" role="status">${data.data.length === 0 ? "Nothing has this text." : data.complete ? `${data.data.length} found.` : "Only the newest of each kind are shown. A longer text finds fewer."}</p>
      ${Object.entries(KINDS).map(([kind, [heading, to]]) => html`<${Results} key=${kind} heading=${heading} to=${to} rows=${data.data.filter((row) => row.kind === kind)} />`)}`}</div>`;
}

function Results({ heading, to, rows }) {
  if (!rows.length) return null;
  return html`<${Section} title=${heading}><ul class="plain results">${rows.map((row) => html`<li key=${row.id} class="row">
      ${to(row) ? html`<${Link} to=${to(row)} class="grow">${row.title || row.id}</${Link}>` : html`<span class="grow">${row.title || row.id}</span>`}
      <${Pill} status=${row.status} /><time class="hint">${instant(row.at)}</time></li>`)}</ul></${Section}>`;
}
