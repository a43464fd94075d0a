// Requests: what clients sent to the sandbox, and what each of them got.

import { useAction, usePages, useResource } from "../data.js";
import { asCurl, asPytest, isRepeatable, repeatedHeaders } from "../exchange.js";
import { grouped, instant, milliseconds } from "../format.js";
import { Choices, ListDetail, Table, Tools } from "../lists.js";
import { Facts, Headers, Json, More, Outcome, Pill, Section, Unavailable } from "../parts.js";
import { Link, setFilter } from "../router.js";
import { html } from "../ui.js";

export const name = "requests";
export const path = "requests";
export const title = "Requests";
export const letter = "r";

const STATUSES = [["", "all"], ["2xx", "2xx"], ["4xx", "4xx"], ["5xx", "5xx"], ["none", "no response"]];
const SOURCES = [["", "all"], ["service", "service"], ["lnurl", "LNURL"], ["control", "control plane"]];
const METHODS = ["", "GET", "POST", "PATCH", "PUT", "DELETE"];
const FILTERS = ["status", "source", "method", "operation", "text", "chargeId"];

const tone = (status) => (status === null || status >= 500 ? "bad" : status >= 400 ? "open" : "good");
const Status = ({ row }) => html`<${Pill} status=${row.status ?? "no response"} tone=${tone(row.status)} />`;

const COLUMNS = [
  { title: "Request", kind: "main mono", cell: (row) => `${row.method} ${row.path}` },
  { title: "Status", kind: "status", cell: (row) => html`<${Status} row=${row} />` },
  { title: "Operation", kind: "text wide", cell: (row) => row.operation ?? "" },
  { title: "Duration", kind: "number wide", cell: (row) => milliseconds(row.durationMicroseconds) },
  { title: "Sandbox time", kind: "time wide", cell: (row) => html`<time>${instant(row.at)}</time>` },
];

export function Panel({ route: { id, query } }) {
  const chosen = Object.fromEntries(FILTERS.map((filter) => [filter, query.get(filter) ?? ""]));
  const filters = new URLSearchParams(Object.entries(chosen).filter(([, value]) => value !== "")).toString();
  const list = usePages(`/sandbox/v1/requests${filters && `?${filters}`}`);
  const narrowed = ["operation", "chargeId"].filter((filter) => chosen[filter]);
  return html`<${ListDetail} label="Requests" back="requests" open=${id} list=${html`
      <div class="head"><h2>Requests</h2><p class="hint">The latest 1,000, without the reads of this page.</p></div>
      <${Tools} search=${chosen.text} placeholder="Search paths and bodies" onSearch=${(text) => setFilter({ text })}>
        <${Choices} label="Status" value=${chosen.status} options=${STATUSES} onChoose=${(status) => setFilter({ status })} />
        <${Choices} label="Interface" value=${chosen.source} options=${SOURCES} onChoose=${(source) => setFilter({ source })} />
        <select aria-label="Method" value=${chosen.method} onChange=${(event) => setFilter({ method: event.target.value })}>
          ${METHODS.map((one) => html`<option key=${one} value=${one}>${one || "any method"}</option>`)}</select>
        ${narrowed.map((filter) => html`<button type="button" key=${filter} onClick=${() => setFilter({ [filter]: "" })}>${filter} <code>${chosen[filter]}</code> ×</button>`)}</${Tools}>
      <${Table} label="Requests" list=${list} columns=${COLUMNS} to=${(row) => `requests/${row.id}`} keyOf=${(row) => String(row.id)} selected=${id}
        empty=${filters ? "No request matches the filters." : "No request yet. Send one with your client: it is shown here at once."} />`}>
    ${id && html`<${Detail} key=${id} id=${id} />`}
  </${ListDetail}>`;
}

function Detail({ id }) {
  const { data, problem, loading } = useResource(`/sandbox/v1/requests/${encodeURIComponent(id)}`);
  if (problem && !data) return html`<h2>Request ${id}</h2><${Unavailable} problem=${problem} />`;
  if (loading) return html`<p class="hint">Loading…</p>`;
  const { request, response } = data;
  return html`
    <div class="title"><h2 class="mono">${data.method} ${data.path}</h2>
      <div class="row"><${Status} row=${data} /><span class="hint">${milliseconds(data.durationMicroseconds)}</span>
        ${data.serviceFault && html`<${Pill} status=${`fault ${data.serviceFault.kind}${data.serviceFault.applied ? "" : ", without effect"}`} tone="open" />`}</div></div>
    <${Facts} rows=${[
      ["number", String(data.id)], ["operation", data.operation && html`<${Link} to=${`requests?operation=${data.operation}`}><code>${data.operation}</code></${Link}>`],
      ["sandbox time", html`<time>${instant(data.at)}</time>`], ["received", html`<time>${instant(data.receivedAt)}</time> <span class="hint">real time</span>`],
      ["charge", data.chargeId && html`<${Link} to=${`requests?chargeId=${data.chargeId}`} title="All requests about it"><code>${data.chargeId}</code></${Link}>`],
      ["client", data.client && html`<code>${data.client}</code>`]]} />
    <${Repeat} key=${id} logged=${data} />
    <${Section} title="Request" aside=${size(request)}><${Message} content=${request} what="request" /></${Section}>
    <${Section} title="Response" aside=${response && size(response)}>
      ${response === null ? html`<p class="refused">The client got no response.</p>` : html`
        ${!response.complete && html`<p class="refused">The response ended within its body.</p>`}<${Message} content=${response} what="response" />`}</${Section}>
    <${More} summary="as pytest"><${Json} value=${asPytest(data)} label="the request as a test" /></${More}>`;
}

const size = (content) => `${grouped(content.size)} bytes${content.truncated ? ", the first 16 KiB are shown" : ""}`;

function Message({ content, what }) {
  return html`${content.body && html`<${Json} value=${content.body} label="body of the ${what}" />`}
    <${More} summary="${content.headers.length} headers"><${Headers} of=${content.headers} label="Headers of the ${what}" /></${More}>`;
}

/** The same request once more, with the key of this page. */
function Repeat({ logged }) {
  const action = useAction();
  const repeatable = isRepeatable(logged);
  const again = () => action.run(logged.method, logged.path, {
    text: logged.request.body || undefined, headers: repeatedHeaders(logged), notice: "Sent again. The new request is at the top of the list.",
  });
  return html`<div class="row actions"><button type="button" disabled=${action.busy || !repeatable} onClick=${again}>Send again</button>
      ${!repeatable && html`<span class="hint">${logged.request.truncated ? "Its body is longer than the log keeps." : "The log masks a part of it."}</span>`}</div>
    <${Outcome} of=${action} />
    <${More} summary="as curl"><${Json} value=${asCurl(logged)} label="the request with curl" /></${More}>`;
}
