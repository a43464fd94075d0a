// Charges: the list, one charge with all that belongs to it, and the forms that create and pay.

import { decode } from "../bolt11.js";
import { Until } from "../clock.js";
import { useAction, useChargeReads, useCreation, usePages, useResource } from "../data.js";
import { countdown, grouped, instant, satoshis, span } from "../format.js";
import { Choices, ListDetail, Table, Tools } from "../lists.js";
import { Code, Confirmed, Facts, Field, filled, Json, More, numbers, Outcome, Pill, QrCode, Section, Unavailable } from "../parts.js";
import { Link, setFilter } from "../router.js";
import { html } from "../ui.js";
import { Deliveries } from "./deliveries.js";
import { Payments, paymentSaid, PayForm } from "./pay.js";

export const name = "charges";
export const path = "charges";
export const title = "Charges";
export const letter = "c";

const STATUSES = ["pending", "completed", "expired", "error"];

/** The columns of a table of charges. `pay` is the action of the button; without it there is no button. */
export const chargeColumns = (pay) => [
  { title: "Description", kind: "main", cell: (charge) => charge.description || "(no description)" },
  { title: "Amount, msat", kind: "number", cell: (charge) => grouped(charge.amount) },
  { title: "Status", kind: "status", cell: (charge) => html`<${Pill} status=${charge.status} />` },
  { title: "Expires", kind: "time wide", cell: (charge) => charge.status === "pending" && html`<${Until} at=${charge.expiresAt} write=${(ms) => (ms > 0 ? `in ${span(ms)}` : "due")} />` },
  { title: "Created", kind: "time wide", cell: (charge) => html`<time>${instant(charge.createdAt)}</time>` },
  ...(pay ? [{ title: "Pay", kind: "action wide", hidden: true, cell: (charge) => charge.status === "pending" && html`<button type="button" class="small" onClick=${() => pay(charge)}>Pay</button>` }] : []),
];

export function Panel({ route: { id, query } }) {
  const [status, text] = [query.get("status") ?? "", query.get("text") ?? ""];
  const reads = useChargeReads();
  const filters = new URLSearchParams({ ...(status && { status }), ...(reads?.hasText && text && { text }) }).toString();
  const pages = usePages(reads && reads.charges + (filters && `?${filters}`));
  const list = reads?.hasText || !text ? pages : matching(pages, text);
  const world = useResource("/sandbox/v1").data;
  const action = useAction();
  const creation = useCreation("charges", "Charge created.");
  const pay = (charge) => action.run("POST", "/sandbox/v1/payments", { body: { request: charge.invoice.request }, said: paymentSaid });
  const counts = world?.charges ?? {};
  const options = [["", "all", grouped(Object.values(counts).reduce((sum, one) => sum + one, 0))], ...STATUSES.map((one) => [one, one, grouped(counts[one] ?? 0)])];
  return html`<${ListDetail} label="Charges" back="charges" open=${id} list=${html`
      <div class="head"><h2>Charges</h2><p class="hint" id="balance">received <strong>${grouped(world?.balance ?? 0)}</strong> msat</p>
        <span class="far row"><${Link} to="charges/pay" keep class="button">Pay a request</${Link}><${Link} to="charges/new" keep class="button first">New charge</${Link}></span></div>
      <${Tools} search=${text} placeholder="Search description, internal id, id" onSearch=${(value) => setFilter({ text: value })}>
        <${Choices} label="Status" value=${status} options=${options} onChoose=${(value) => setFilter({ status: value })} /></${Tools}>
      <${Outcome} of=${action} />
      <${Table} label="Charges" list=${list} columns=${chargeColumns(pay)} to=${(charge) => `charges/${charge.id}`} selected=${id}
        empty=${text || status ? "No charge matches the filters." : "No charge yet. Create one here, or with your own client."} />`}>
    ${id === "new" ? html`<${NewCharge} creation=${creation} />` : id === "pay" ? html`<h2>Pay a request</h2><${PayForm} comment least="of the invoice, or the least" />`
      : reads && id && html`${creation.id === id && html`<${Outcome} of=${creation} />`}<${Detail} key=${id} id=${id} reads=${reads} />`}
  </${ListDetail}>`;
}

/** Rows with the text in their description or their ids, of those that are loaded; more are loaded until the view is full. */
function matching(pages, text) {
  const sought = text.toLowerCase();
  const has = (value) => value !== null && value.toLowerCase().includes(sought);
  return { ...pages, loaded: pages.rows.length, rows: pages.rows.filter((row) => has(row.description) || has(row.internalId) || has(row.id)) };
}

function NewCharge({ creation }) {
  const problem = creation.result?.problem;
  const submit = (event) => {
    event.preventDefault();
    const { idempotencyKey, ...body } = numbers(filled(event.target), "expiresIn");
    creation.create(body, idempotencyKey);
  };
  return html`<h2>New charge</h2><form class="form" id="charge" onSubmit=${submit}>
    <${Field} label="Amount, msat" name="amount" defaultValue="250000" inputmode="numeric" required problem=${problem} />
    <${Field} label="Expires in, seconds" name="expiresIn" defaultValue="600" inputmode="numeric" problem=${problem} />
    <${Field} wide label="Description" name="description" defaultValue="Coffee" required problem=${problem} />
    <${Field} wide label="Callback URL" name="callbackUrl" defaultValue="http://inbox.localhost/paid" problem=${problem}
      hint="A name below .localhost is an inbox of the sandbox: the panel Callbacks shows what it received." />
    <${Field} label="Internal id" name="internalId" problem=${problem} />
    <${Field} label="Idempotency-Key" name="idempotencyKey" problem=${problem} hint="A header: the same key creates one charge only." />
    <div class="field wide"><button class="first" disabled=${creation.busy}>Create</button></div>
    <${Outcome} of=${creation} />
  </form>`;
}

function Detail({ id, reads }) {
  const safe = encodeURIComponent(id);
  const charge = useResource(`${reads.charges}/${safe}`);
  const payments = useResource(`/sandbox/v1/payments?chargeId=${safe}`).data?.data ?? [];
  const deliveries = useResource(`/sandbox/v1/deliveries?chargeId=${safe}&bodies=true`).data?.data ?? [];
  if (charge.problem && !charge.data) return html`<h2>Charge</h2><${Unavailable} problem=${charge.problem} />`;
  if (charge.loading) return html`<p class="hint">Loading…</p>`;
  return html`<${ChargeDetail} charge=${charge.data.data ?? charge.data} payments=${[...payments].reverse()} deliveries=${deliveries} />`;
}

function ChargeDetail({ charge, payments, deliveries }) {
  const fail = useAction();
  const pending = charge.status === "pending";
  const none = charge.callbackUrl === null ? "This charge has no callback URL." : "None yet: one is sent when the charge reaches a final state.";
  return html`
    <div class="title"><h2 id="charge-title">${charge.description || "(no description)"}</h2>
      <div class="row"><strong class="big">${grouped(charge.amount)} msat</strong><span class="hint">${satoshis(charge.amount)}</span><${Pill} status=${charge.status} />
      ${pending && html`<span class="countdown"><${Until} at=${charge.expiresAt} write=${(ms) => `expires in ${countdown(ms)}`} /></span>`}</div></div>
    <div class="invoice">
      ${pending && html`<${QrCode} text=${charge.invoice.request} label="QR code of the invoice" />`}
      <div class="grow"><${Facts} rows=${[
        ["id", html`<${Code} text=${charge.id} />`], ["created", html`<time>${instant(charge.createdAt)}</time>`], ["expires", html`<time>${instant(charge.expiresAt)}</time>`],
        ["confirmed", charge.confirmedAt && html`<time>${instant(charge.confirmedAt)}</time>`], ["internal id", charge.internalId && html`<${Code} text=${charge.internalId} />`],
        ["static charge", charge.staticChargeId && html`<${Link} to=${`static-charges/${charge.staticChargeId}`}><code>${charge.staticChargeId}</code></${Link}>`],
        ["callback URL", charge.callbackUrl && html`<span class="url">${charge.callbackUrl}</span>`],
        ["invoice", html`<${Code} text=${charge.invoice.request} />`]]} /></div></div>
    ${pending && html`<${Section} title="Pay"><${PayForm} request=${charge.invoice.request} />
      <div class="row"><${Confirmed} label="Fail the charge" question="The node gives the invoice up. The charge gets the status error, and nobody can pay it any more." verb="Fail"
        onConfirm=${() => fail.run("POST", `/sandbox/v1/charges/${charge.id}/fail`, { body: { reason: "failed from the console" }, said: "The charge failed." })} /></div></${Section}>`}
    <${Outcome} of=${fail} />
    <${Section} title="Timeline"><${Timeline} charge=${charge} payments=${payments} deliveries=${deliveries} /></${Section}>
    <${Section} title="Payments"><${Payments} payments=${payments} /></${Section}>
    <${Section} title="Callbacks"><${Deliveries} deliveries=${deliveries} none=${none} /></${Section}>
    <${Section} title="Invoice"><${Decoded} invoice=${charge.invoice.request} /></${Section}>
    <${More} summary="The charge as JSON"><${Json} value=${charge} label="the charge as JSON" /></${More}>`;
}

function Decoded({ invoice }) {
  const fields = decode(invoice);
  if (fields === null) return html`<p class="hint">The text is no BOLT11 invoice.</p>`;
  return html`<div id="decoded"><${Facts} rows=${fields.map(([field, value]) => [field, html`<code>${value}</code>`])} /></div>`;
}

/** What happened to a charge, in order, and what will happen. */
function Timeline({ charge, payments, deliveries }) {
  const events = [[charge.createdAt, "created", "plain"]];
  for (const payment of payments) {
    events.push([payment.createdAt, `payment of ${grouped(payment.amount)} msat started`, "plain"]);
    if (payment.status === "held") events.push([payment.createdAt, "payment held", "open"]);
    if (payment.resolvedAt) events.push([payment.resolvedAt, `payment ${payment.status}${payment.reason ? `: ${payment.reason}` : ""}`, payment.status === "succeeded" ? "good" : "bad"]);
  }
  if (charge.confirmedAt) events.push([charge.confirmedAt, "completed", "good"]);
  if (charge.status === "expired") events.push([charge.expiresAt, "expired", "plain"]);
  for (const delivery of deliveries) {
    for (const attempt of delivery.attempts) {
      const came = attempt.status ?? attempt.error ?? "in flight";
      events.push([attempt.at, `callback ${delivery.event}, attempt ${attempt.number}: ${came}`, attempt.status >= 200 && attempt.status < 300 ? "good" : "bad"]);
    }
    if (delivery.dueAt) events.push([delivery.dueAt, `callback ${delivery.event}: next attempt`, "future"]);
  }
  if (charge.status === "pending") events.push([charge.expiresAt, "expires", "future"]);
  const ordered = events.map((event, place) => [...event, place]).sort((one, other) => Date.parse(one[0]) - Date.parse(other[0]) || one[3] - other[3]);
  return html`<ol class="timeline">${ordered.map(([at, text, tone, place]) => html`<li key=${place} class="tone-${tone}"><time>${instant(at)}</time><span>${text}</span></li>`)}</ol>`;
}
