// Callbacks: the inboxes of the sandbox and what they answer.

import { useAction, usePages } from "../data.js";
import { grouped } from "../format.js";
import { Outcome } from "../parts.js";
import { html } from "../ui.js";

export const name = "callbacks";
export const path = "callbacks";
export const title = "Callbacks";
export const letter = "b";

const ANSWERS = [["200", 200], ["500", 500], ["410 Gone", 410], ["timeout", "timeout"]];

export function Panel() {
  const inboxes = usePages("/sandbox/v1/inboxes");
  const action = useAction();
  const script = (inbox, place) => {
    const [label, always] = ANSWERS[place];
    action.run("PUT", `/sandbox/v1/inboxes/${encodeURIComponent(inbox.name)}/script`, { body: { always }, said: `${inbox.name} answers ${label} from now on.` });
  };
  return html`<div class="padded scroll"><h2>Inboxes</h2>
    <p class="hint">A callback to a name below .localhost, such as http://shop.localhost, arrives in the inbox of that name.</p>
    <${Outcome} of=${action} />
    ${inboxes.rows.length === 0 ? html`<p class="hint">${inboxes.loading ? "Loading…" : "No inbox has received anything yet."}</p>` : html`
    <table class="plain" id="inboxes"><thead><tr><th scope="col">Inbox</th><th scope="col" class="number">Received</th><th scope="col" class="number">With objections</th><th scope="col">Answer</th></tr></thead>
      <tbody>${inboxes.rows.map((inbox) => html`<tr key=${inbox.name}><th scope="row"><code>${inbox.name}</code></th><td class="number">${grouped(inbox.received)}</td>
        <td class="number">${inbox.objections ? html`<span class="refused">${grouped(inbox.objections)}</span>` : "0"}</td>
        <td><select aria-label=${`What ${inbox.name} answers from now on`} value="" onChange=${(event) => { script(inbox, event.target.value); event.target.value = ""; }}>
          <option value="">answers…</option>${ANSWERS.map(([label], place) => html`<option key=${label} value=${place}>${label}</option>`)}</select></td></tr>`)}</tbody></table>`}
  </div>`;
}
