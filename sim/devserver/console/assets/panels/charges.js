// Charges: the list, one charge with all that belongs to it, and the forms that create and pay.

import { Until } from "../clock.js";
import { useAction, useCreation, usePages, useResource } from "../data.js";
import { countdown, grouped, instant, satoshis, span } from "../format.js";
import { Choices, ListDetail, Table, Tools } from "../lists.js";
import { Code, Confirmed, Facts, Field, filled, Json, More, numbers, Outcome, Pill, Section, Unavailable } from "../parts.js";
import { QrCode } from "../qr_code.js";
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
  const filters = new URLSearchParams(Object.entries({ status, text }).filter(([, value]) => value !== "")).toString();
  const list = usePages(`/sandbox/v1/charges${filters && `?${filters}`}`);
  const world = useResource("/sandbox/v1").data;
  const action = useAction();
  const creation = useCreation("charges", "Charge created.");
  const pay = (charge) => action.run("POST", "/sandbox/v1/payments", { body: { request: charge.invoice.request }, notice: paymentSaid });
  const counts = world?.charges ?? {};
  const options = [["", "all", grouped(Object.values(counts).reduce((sum, one) => sum + one, 0))], ...STATUSES.map((one) => [one, one, grouped(counts[one] ?? 0)])];
  return html`<${ListDetail} label="Charges" back="charges" open=${id} list=${html`
      <div class="head"><h2>Charges</h2><p class="hint" id="balance">received <strong>${grouped(world?.balance ?? 0)}</strong> msat</p>
        <span class="far row"><${Link} to="charges/pay" keep class="button">Pay a request</${Link}><${Link} to="charges/new" keep class="button first">New charge</${Link}></span></div>
      <${Tools} search=${text} placeholder="Search texts, ids, invoices" onSearch=${(value) => setFilter({ text: value })}>
        <${Choices} label="Status" value=${status} options=${options} onChoose=${(value) => setFilter({ status: value })} /></${Tools}>
      <${Outcome} of=${action} />
      <${Table} label="Charges" list=${list} columns=${chargeColumns(pay)} to=${(charge) => `charges/${charge.id}`} selected=${id}
        empty=${text || status ? "No charge matches the filters." : "No charge yet. Create one here, or with your own client."} />`}>
    ${id === "new" ? html`<${NewCharge} creation=${creation} />` : id === "pay" ? html`<h2>Pay a request</h2><${PayForm} comment least="of the invoice, or the least" />`
      : id && html`${creation.id === id && html`<${Outcome} of=${creation} />`}<${Detail} key=${id} id=${id} />`}
  </${ListDetail}>`;
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

function Detail({ id }) {
  const safe = encodeURIComponent(id);
  const inspected = useResource(`/sandbox/v1/charges/${safe}`);
  const payments = useResource(`/sandbox/v1/payments?chargeId=${safe}`).data?.data ?? [];
  const deliveries = useResource(`/sandbox/v1/deliveries?chargeId=${safe}&bodies=true`).data?.data ?? [];
  if (inspected.problem && !inspected.data) return html`<h2>Charge</h2><${Unavailable} problem=${inspected.problem} />`;
  if (inspected.loading) return html`<p class="hint">Loading…</p>`;
  return html`<${ChargeDetail} inspected=${inspected.data} payments=${[...payments].reverse()} deliveries=${[...deliveries].reverse()} />`;
}

function ChargeDetail({ inspected, payments, deliveries }) {
  const { charge } = inspected;
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
        onConfirm=${() => fail.run("POST", `/sandbox/v1/charges/${charge.id}/fail`, { body: { reason: "failed from the console" }, notice: "The charge failed." })} /></div></${Section}>`}
    <${Outcome} of=${fail} />
    <${Section} title="Timeline"><${Timeline} inspected=${inspected} /></${Section}>
    <${Section} title="Payments"><${Payments} payments=${payments} /></${Section}>
    <${Section} title="Callbacks"><${Deliveries} deliveries=${deliveries} none=${none} /></${Section}>
    <${Section} title="Invoice"><${Decoded} invoice=${inspected.invoice} /></${Section}>
    <${More} summary="The charge as JSON"><${Json} value=${charge} label="the charge as JSON" /></${More}>`;
}

function Decoded({ invoice }) {
  return html`<div id="decoded"><${Facts} rows=${[
    ["currency", invoice.currency], ["amount", invoice.amount === null ? "chosen by the payer" : `${grouped(invoice.amount)} msat`], ["description", invoice.description],
    ["description hash", invoice.descriptionHash && html`<code>${invoice.descriptionHash}</code>`], ["payment hash", html`<code>${invoice.paymentHash}</code>`],
    ["payee", html`<code>${invoice.payee}</code>`], ["created", html`<time>${instant(invoice.createdAt)}</time>`], ["expires", html`<time>${instant(invoice.expiresAt)}</time>`],
    ["final CLTV delta", `${invoice.minFinalCltv} blocks`], ["feature bits", invoice.features.join(", ")]]} /></div>`;
}

/** What happened to a charge, in order, and what is scheduled. */
function Timeline({ inspected: { timeline, omitted, scheduled, moreScheduled } }) {
  const row = (event, tone, place) => html`<li key=${`${tone}${place}`} class="tone-${tone}"><time>${instant(event.at)}</time>
    <span><strong>${event.text}</strong>${event.response && html` <${Pill} status=${event.response} />`}${event.detail && html`<span class="hint line">${event.detail}</span>`}</span></li>`;
  return html`<ol class="timeline">${timeline.map((event, place) => row(event, TONES[event.response] ?? "plain", place))}${scheduled.map((event, place) => row(event, "future", place))}</ol>
    ${omitted > 0 && html`<p class="hint">${grouped(omitted)} events in the middle are left out; the event journal has them.</p>`}
    ${moreScheduled > 0 && html`<p class="hint">${grouped(moreScheduled)} later scheduled events are left out.</p>`}`;
}

const TONES = { completed: "good", succeeded: "good", expired: "open", error: "bad", failed: "bad" };
