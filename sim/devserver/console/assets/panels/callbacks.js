// Callbacks: the deliveries of all charges, the built-in inboxes and what they answer, and the secrets that sign.

import { useAction, usePages, useResource } from "../data.js";
import { grouped, instant } from "../format.js";
import { Choices, ListDetail, Table, Tools } from "../lists.js";
import { Code, Confirmed, Facts, Headers, Json, More, Outcome, Pill, Section, Unavailable } from "../parts.js";
import { Link, navigate, setFilter } from "../router.js";
import { html, useState } from "../ui.js";
import { DeliveryCard, SendAgain } from "./deliveries.js";

export const name = "callbacks";
export const path = "callbacks";
export const title = "Callbacks";
export const letter = "b";

const STATUSES = ["", "pending", "delivered", "exhausted", "stopped", "blocked"];
const VIEWS = [["", "Deliveries"], ["inboxes", "Inboxes"], ["secrets", "Secrets"]];
const ANSWERS = [["200", 200], ["500", 500], ["410 Gone", 410], ["timeout", "timeout"]];

export function Panel({ route: { id, query } }) {
  const [view, inbox = null] = id === "inboxes" || id?.startsWith("inboxes/") ? ["inboxes", id.slice("inboxes/".length) || null] : id === "secrets" ? ["secrets"] : [""];
  const choices = html`<${Choices} label="View" value=${view} options=${VIEWS} onChoose=${(one) => navigate(one ? `callbacks/${one}` : "callbacks")} />`;
  if (view === "inboxes") return html`<${Inboxes} choices=${choices} open=${inbox} />`;
  if (view === "secrets") return html`<${Secrets} choices=${choices} />`;
  return html`<${DeliveryList} choices=${choices} open=${id} query=${query} />`;
}

// Deliveries

/** The columns; the boxes choose deliveries: `chosen` has their ids. */
const columns = (chosen, choose) => [
  { title: "Choose", kind: "box", hidden: true, cell: (delivery) => html`<input type="checkbox" aria-label=${`Choose ${delivery.event} of ${instant(delivery.createdAt)}`} checked=${chosen.has(delivery.id)} onChange=${() => choose(delivery.id)} />` },
  { title: "Event", kind: "main", cell: (delivery) => delivery.event },
  { title: "Status", kind: "status", cell: (delivery) => html`<${Pill} status=${delivery.status} />` },
  { title: "Attempts", kind: "number few", cell: (delivery) => grouped(delivery.attempts.length) },
  { title: "Receiver", kind: "text wide", cell: (delivery) => delivery.url },
  { title: "Created", kind: "time wide", cell: (delivery) => html`<time>${instant(delivery.createdAt)}</time>` },
];

function DeliveryList({ choices, open, query }) {
  const [status, event, chargeId] = ["status", "event", "chargeId"].map((one) => query.get(one) ?? "");
  const filter = Object.fromEntries(Object.entries({ status, event, chargeId }).filter(([, value]) => value !== ""));
  const filters = new URLSearchParams(filter).toString();
  const list = usePages(`/sandbox/v1/deliveries${filters && `?${filters}`}`);
  const action = useAction();
  const [chosen, setChosen] = useState(new Set());
  const choose = (id) => setChosen((former) => new Set(former.has(id) ? [...former].filter((one) => one !== id) : [...former, id]));
  const sendChosen = async (when) => {
    const later = Object.keys(when).length > 0;
    const notice = ({ replayed }) => `${replayed === 1 ? "One callback" : `${grouped(replayed)} callbacks`} ${later ? "will be sent again." : replayed === 1 ? "is sent again." : "are sent again."}`;
    if (await action.run("POST", "/sandbox/v1/deliveries/replay", { body: { ids: [...chosen], ...when }, notice })) setChosen(new Set());
  };
  const again = () => action.run("POST", "/sandbox/v1/deliveries/replay", { body: filter, notice: ({ replayed }) => (replayed === 1 ? "One callback is sent again." : `${grouped(replayed)} callbacks are sent again.`) });
  const which = filters ? "All callbacks that match the filters" : "All callbacks of the sandbox";
  return html`<${ListDetail} label="Callbacks" back="callbacks" open=${open} list=${html`
      <div class="head"><h2>Callbacks</h2>${choices}<span class="far"><${Confirmed} label="Send all again" verb="Send" question="${which} are sent again, with the same ids: a receiver must not process one twice." onConfirm=${again} /></span></div>
      <${Tools}><${Choices} label="Status" value=${status} options=${STATUSES.map((one) => [one, one || "all"])} onChoose=${(value) => setFilter({ status: value })} />
        ${[["event", event], ["chargeId", chargeId]].filter(([, value]) => value).map(([one, value]) => html`<button type="button" key=${one} onClick=${() => setFilter({ [one]: "" })}>${one} <code>${value}</code> ×</button>`)}</${Tools}>
      ${chosen.size > 0 && html`<div class="tools" id="chosen"><span>${grouped(chosen.size)} chosen</span><${SendAgain} label="Send these again" busy=${action.busy} onSend=${sendChosen} />
        <button type="button" class="quiet" onClick=${() => setChosen(new Set())}>Choose none</button></div>`}
      <${Outcome} of=${action} />
      <${Table} label="Callbacks" list=${list} columns=${columns(chosen, choose)} to=${(delivery) => `callbacks/${delivery.id}`} selected=${open}
        empty=${filters ? "No callback matches the filters." : "No callback yet: one is sent when a charge with a callback URL reaches a final state."} />`}>
    ${open && html`<${Detail} key=${open} id=${open} />`}
  </${ListDetail}>`;
}

function Detail({ id }) {
  const { data, problem, loading } = useResource(`/sandbox/v1/deliveries/${encodeURIComponent(id)}`);
  if (problem && !data) return html`<h2>Callback</h2><${Unavailable} problem=${problem} />`;
  if (loading) return html`<p class="hint">Loading…</p>`;
  return html`<div class="title"><h2>${data.event}</h2><div class="row"><${Pill} status=${data.status} /></div></div>
    <${Facts} rows=${[
      ["charge", html`<${Link} to=${`charges/${data.chargeId}`}><code>${data.chargeId}</code></${Link}>`], ["created", html`<time>${instant(data.createdAt)}</time>`],
      ["number", `${data.sequence} of the charge`], ["event", html`<${Link} to=${`callbacks?event=${data.event}`}>all ${data.event}</${Link}>`]]} />
    <${Section} title="Attempts"><${DeliveryCard} delivery=${data} /></${Section}>`;
}

// Inboxes

function Inboxes({ choices, open }) {
  const inboxes = usePages("/sandbox/v1/inboxes");
  const action = useAction();
  const script = (inbox, place) => {
    const [label, always] = ANSWERS[place];
    action.run("PUT", `/sandbox/v1/inboxes/${encodeURIComponent(inbox.name)}/script`, { body: { always }, notice: `${inbox.name} answers ${label} from now on.` });
  };
  return html`<div class="padded scroll"><div class="head bare"><h2>Inboxes</h2>${choices}</div>
    <p class="hint">A callback to a name below .localhost, such as http://shop.localhost, arrives in the inbox of that name.</p>
    <${Outcome} of=${action} />
    ${inboxes.rows.length === 0 ? html`<p class="hint">${inboxes.loading ? "Loading…" : "No inbox has received anything yet."}</p>` : html`
    <div class="wide-table" tabindex="0" role="region" aria-label="Inboxes"><table class="plain" id="inboxes"><thead><tr><th scope="col">Inbox</th><th scope="col" class="number">Received</th><th scope="col" class="number">With objections</th><th scope="col">Answer</th></tr></thead>
      <tbody>${inboxes.rows.map((inbox) => html`<tr key=${inbox.name}><th scope="row"><${Link} to=${`callbacks/inboxes/${encodeURIComponent(inbox.name)}`} aria-current=${inbox.name === open ? "true" : undefined}><code>${inbox.name}</code></${Link}></th><td class="number">${grouped(inbox.received)}</td>
        <td class="number">${inbox.objections ? html`<span class="refused">${grouped(inbox.objections)}</span>` : "0"}</td>
        <td><select aria-label=${`What ${inbox.name} answers from now on`} value="" onChange=${(event) => { script(inbox, event.target.value); event.target.value = ""; }}>
          <option value="">answers…</option>${ANSWERS.map(([label], place) => html`<option key=${label} value=${place}>${label}</option>`)}</select></td></tr>`)}</tbody></table></div>`}
    ${open && html`<${Inbox} key=${open} name=${open} />`}
  </div>`;
}

const SHOWN_POSTS = 50;

/** The latest posts of an inbox. */
function Inbox({ name: inbox }) {
  const where = `/sandbox/v1/inboxes/${encodeURIComponent(inbox)}`;
  const received = useResource(`${where}?limit=1`).data?.received ?? null;
  const { data, problem } = useResource(received === null ? null : `${where}?limit=${SHOWN_POSTS}&after=${Math.max(0, received - SHOWN_POSTS)}`);
  if (problem && !data) return html`<${Unavailable} problem=${problem} />`;
  if (data === null) return html`<p class="hint">Loading…</p>`;
  const posts = [...data.posts].reverse();
  const rules = Object.entries(data.script).filter(([, value]) => value !== null && !(Array.isArray(value) && value.length === 0));
  return html`<${Section} title=${`Received by ${inbox}`} aside=${data.received > posts.length && `the latest ${posts.length}`}>
    ${rules.length > 0 && html`<${More} summary="its script"><${Json} value=${data.script} label="script" /></${More}>`}
    ${posts.length === 0 ? html`<p class="hint">Nothing yet.</p>` : html`<ul class="plain cards" id="posts">${posts.map((post) => html`<li key=${post.number}>
      <div class="row"><strong>${post.number}. ${post.event || "(no event)"}</strong><span class="hint">attempt ${post.attempt}, answered ${post.answer}</span><time class="hint far">${instant(post.at)}</time></div>
      <p class="url">${post.url}</p>
      ${post.repeated && html`<p class="hint">The same webhook-id was received before.</p>`}
      ${post.verdict.map((objection) => html`<p class="refused" key=${objection}>${objection}</p>`)}
      ${post.verdict.length === 0 && html`<p class="text-good">A careful receiver objects to nothing.</p>`}
      <${More} summary="headers"><${Headers} of=${Object.entries(post.headers)} label="Headers of post ${post.number}" /></${More}>
      <${More} summary="body"><${Json} value=${post.body} label="body of post ${post.number}" /></${More}></li>`)}</ul>`}</${Section}>`;
}

// Secrets

function Secrets({ choices }) {
  const { data, problem } = useResource("/sandbox/v1/webhook-secret");
  const action = useAction();
  const rotate = () => action.run("POST", "/sandbox/v1/webhook-secret/rotate", { notice: "A new secret signs, and the former one for a day beside it." });
  return html`<div class="padded scroll"><div class="head bare"><h2>Secrets</h2>${choices}</div>
    <p class="hint">Callbacks are signed as Standard Webhooks specify. A receiver verifies with the current secret.</p>
    ${problem && !data ? html`<${Unavailable} problem=${problem} />` : data && html`
    <div class="wide-table" tabindex="0" role="region" aria-label="Secrets"><table class="plain" id="secrets"><thead><tr><th scope="col">Secret</th><th scope="col">Since</th><th scope="col">Signs until</th></tr></thead>
      <tbody>${data.secrets.map((one) => html`<tr key=${one.secret}><th scope="row"><${Code} text=${one.secret} /></th><td><time>${instant(one.since)}</time></td><td>${one.until ? html`<time>${instant(one.until)}</time>` : "current"}</td></tr>`)}</tbody></table></div>`}
    <div class="row actions"><${Confirmed} label="Rotate" question="A new secret is made. Receivers that know only the present one can verify for as long as that one signs, too." onConfirm=${rotate} /></div>
    <${Outcome} of=${action} /></div>`;
}
