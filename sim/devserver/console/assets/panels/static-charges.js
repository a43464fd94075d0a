// Static charges: payment links with their LNURL, Lightning address, slots, changes and charges.

import { useAction, useCreation, usePages, useResource } from "../data.js";
import { grouped, instant } from "../format.js";
import { Choices, ListDetail, Table, Tools } from "../lists.js";
import { Code, Facts, Field, filled, Json, More, numbers, Outcome, Pill, Section, Unavailable } from "../parts.js";
import { QrCode } from "../qr_code.js";
import { Link, setFilter } from "../router.js";
import { html } from "../ui.js";
import { chargeColumns } from "./charges.js";
import { PayForm } from "./pay.js";

export const name = "static-charges";
export const path = "static-charges";
export const title = "Static Charges";
export const letter = "s";

const STATUSES = ["", "active", "disabled", "expired"];
const range = (link) => (link.minAmount === link.maxAmount ? grouped(link.minAmount) : `${grouped(link.minAmount)} – ${grouped(link.maxAmount)}`);
const slots = (link) => `${grouped(link.slots)} of ${link.allowedSlots === null ? "∞" : grouped(link.allowedSlots)}`;

const COLUMNS = [
  { title: "Description", kind: "main", cell: (link) => link.description || "(no description)" },
  { title: "Amount, msat", kind: "number range", cell: range },
  { title: "Status", kind: "status", cell: (link) => html`<${Pill} status=${link.status} />` },
  { title: "Slots used", kind: "number wide", cell: slots },
  { title: "Lightning address", kind: "text wide", cell: (link) => link.identifier ?? "" },
  { title: "Created", kind: "time wide", cell: (link) => html`<time>${instant(link.createdAt)}</time>` },
];

export function Panel({ route: { id, query } }) {
  const [status, text] = [query.get("status") ?? "", query.get("text") ?? ""];
  const creation = useCreation("static-charges", "Static charge created.");
  const filters = new URLSearchParams(Object.entries({ status, text }).filter(([, value]) => value !== "")).toString();
  const list = usePages(`/sandbox/v1/static-charges${filters && `?${filters}`}`);
  return html`<${ListDetail} label="Static Charges" back="static-charges" open=${id} list=${html`
      <div class="head"><h2>Static Charges</h2><${Link} to="static-charges/new" keep class="button first far">New static charge</${Link}></div>
      <${Tools} search=${text} placeholder="Search description, address, ids" onSearch=${(value) => setFilter({ text: value })}>
        <${Choices} label="Status" value=${status} options=${STATUSES.map((one) => [one, one || "all"])} onChoose=${(value) => setFilter({ status: value })} /></${Tools}>
      <${Table} label="Static Charges" list=${list} columns=${COLUMNS} to=${(link) => `static-charges/${link.id}`} selected=${id}
        empty=${text || status ? "No static charge matches the filters." : "No static charge yet. Create one here, or with your own client."} />`}>
    ${id === "new" ? html`<${NewStaticCharge} creation=${creation} />` : id && html`${creation.id === id && html`<${Outcome} of=${creation} />`}<${Detail} key=${id} id=${id} />`}
  </${ListDetail}>`;
}

function NewStaticCharge({ creation }) {
  const problem = creation.result?.problem;
  const submit = (event) => {
    event.preventDefault();
    const { idempotencyKey, ...body } = numbers(filled(event.target), "expiresIn", "allowedSlots");
    creation.create(body, idempotencyKey);
  };
  return html`<h2>New static charge</h2><form class="form" id="static-charge" onSubmit=${submit}>
    <${Field} label="Least amount, msat" name="minAmount" defaultValue="1000" inputmode="numeric" required problem=${problem} />
    <${Field} label="Greatest amount, msat" name="maxAmount" defaultValue="1000000" inputmode="numeric" required problem=${problem} />
    <${Field} wide label="Description" name="description" defaultValue="Tips" required problem=${problem} />
    <${Field} label="Lightning address" name="identifier" placeholder="name@host" problem=${problem} />
    <${Field} label="Allowed slots" name="allowedSlots" inputmode="numeric" placeholder="no limit" problem=${problem} />
    <${Field} label="Expires in, seconds" name="expiresIn" inputmode="numeric" placeholder="never" problem=${problem} />
    <${Field} label="Internal id" name="internalId" problem=${problem} />
    <${Field} wide label="Success message" name="successMessage" problem=${problem} />
    <${Field} wide label="Callback URL" name="callbackUrl" defaultValue="http://inbox.localhost/tips" problem=${problem} />
    <${Field} wide label="Idempotency-Key" name="idempotencyKey" problem=${problem} hint="A header: the same key creates one static charge only." />
    <div class="field wide"><button class="first" disabled=${creation.busy}>Create</button></div>
    <${Outcome} of=${creation} />
  </form>`;
}

function Detail({ id }) {
  const safe = encodeURIComponent(id);
  const loaded = useResource(`/sandbox/v1/static-charges/${safe}`);
  const charges = usePages(`/sandbox/v1/charges?staticChargeId=${safe}`);
  if (loaded.problem && !loaded.data) return html`<h2>Static charge</h2><${Unavailable} problem=${loaded.problem} />`;
  if (loaded.loading) return html`<p class="hint">Loading…</p>`;
  const link = loaded.data.staticCharge;
  return html`
    <div class="title"><h2>${link.description || "(no description)"}</h2>
      <div class="row"><strong class="big">${range(link)} msat</strong><${Pill} status=${link.status} /><span class="hint">${slots(link)} slots used</span></div></div>
    <div class="invoice"><${QrCode} text=${link.invoice.request} label="QR code of the LNURL" />
      <div class="grow"><${Facts} rows=${[
        ["id", html`<${Code} text=${link.id} />`], ["Lightning address", link.identifier && html`<${Code} text=${link.identifier} />`],
        ["LNURL", html`<${Code} text=${link.invoice.request} />`], ["stands for", html`<span class="url">${loaded.data.payUrl}</span>`], ["created", html`<time>${instant(link.createdAt)}</time>`],
        ["expires", link.expiresAt && html`<time>${instant(link.expiresAt)}</time>`], ["internal id", link.internalId && html`<${Code} text=${link.internalId} />`],
        ["success message", link.successMessage], ["callback URL", link.callbackUrl && html`<span class="url">${link.callbackUrl}</span>`]]} /></div></div>
    ${link.status === "active" && html`<${Section} title="Pay"><${PayForm} request=${link.invoice.request} least=${link.minAmount} comment /></${Section}>`}
    <${Section} title="Charges"><div class="nested"><${Table} primary=${false} label="Charges of the static charge" list=${charges} columns=${chargeColumns(null)}
      to=${(charge) => `charges/${charge.id}`} empty="None yet: each payment request of a wallet creates one." /></div></${Section}>
    ${link.status !== "expired" && html`<${Section} title="Change"><${Changes} link=${link} /></${Section}>`}
    <${More} summary="The static charge as JSON"><${Json} value=${link} label="the static charge as JSON" /></${More}>`;
}

const CHANGEABLE = ["minAmount", "maxAmount", "description", "successMessage", "allowedSlots", "internalId", "callbackUrl"];

/** The fields that PATCH may change: only those that differ are sent. An empty field removes its value. */
function Changes({ link }) {
  const action = useAction();
  const problem = action.result?.problem;
  const submit = (event) => {
    event.preventDefault();
    const fields = numbers(Object.fromEntries(new FormData(event.target)), "allowedSlots");
    const body = Object.fromEntries(CHANGEABLE.filter((field) => String(fields[field]) !== String(link[field] ?? "")).map((field) => [field, fields[field] === "" ? null : fields[field]]));
    action.run("PATCH", { operationId: "updateStaticCharge", value: link.id }, { body, notice: () => `Changed: ${Object.keys(body).join(", ") || "nothing"}.` });
  };
  const field = (label, name, rest = {}) => html`<${Field} label=${label} name=${name} defaultValue=${link[name] ?? ""} problem=${problem} ...${rest} />`;
  return html`<form class="form" id="changes" onSubmit=${submit} key=${CHANGEABLE.map((one) => link[one]).join("|")}>
    ${field("Least amount, msat", "minAmount", { inputmode: "numeric" })}${field("Greatest amount, msat", "maxAmount", { inputmode: "numeric" })}
    ${field("Description", "description", { wide: true })}${field("Success message", "successMessage", { wide: true })}
    ${field("Allowed slots", "allowedSlots", { inputmode: "numeric", placeholder: "no limit" })}${field("Internal id", "internalId")}
    ${field("Callback URL", "callbackUrl", { wide: true })}
    <div class="field wide"><button disabled=${action.busy}>Save</button></div><${Outcome} of=${action} />
  </form>`;
}
