// Network: the nodes of the simulated Lightning network with their liquidity, and the ways to change it.

import { useAction, usePages, useResource } from "../data.js";
import { grouped } from "../format.js";
import { ListDetail, Table, Tools } from "../lists.js";
import { Confirmed, Facts, Outcome, Pill, Section, Unavailable } from "../parts.js";
import { Link, setFilter } from "../router.js";
import { SchemaForm } from "../schema_form.js";
import { html } from "../ui.js";

export const name = "network";
export const path = "network";
export const title = "Network";
export const letter = "n";

const COLUMNS = [
  { title: "Node", kind: "main", cell: (node) => (node.shop ? `${node.name} (this service)` : node.name) },
  { title: "Can receive, msat", kind: "number", cell: (node) => grouped(node.inbound) },
  { title: "Can send, msat", kind: "number wide", cell: (node) => grouped(node.outbound) },
  { title: "Channels", kind: "number few wide", cell: (node) => grouped(node.channels) },
];

export function Panel({ route: { id, query } }) {
  const world = useResource("/sandbox/v1").data;
  if (world === null) return html`<p class="hint padded">Loading…</p>`;
  if (!world.network) {
    return html`<div class="padded"><h2>Network</h2><p class="hint">Payments of this sandbox are direct: there is no network between the wallets and the service.
      Create a sandbox with one, such as <code>scale-free:400</code>, in <${Link} to="sandboxes">Sandboxes</${Link}>, or start the server with <code>--network</code>.</p></div>`;
  }
  return html`<${Nodes} open=${id} text=${query.get("text") ?? ""} />`;
}

function Nodes({ open, text }) {
  const list = usePages(`/sandbox/v1/network/nodes${text && `?text=${encodeURIComponent(text)}`}`);
  return html`<${ListDetail} label="Network" back="network" open=${open} list=${html`
      <div class="head"><h2>Network</h2><span class="far"><${Link} to="faults/network" class="button">Faults of the network</${Link}></span></div>
      <${Tools} search=${text} placeholder="Search names" onSearch=${(value) => setFilter({ text: value })} />
      <${Table} label="Nodes" list=${list} columns=${COLUMNS} to=${(node) => `network/${node.name}`} keyOf=${(node) => node.name} selected=${open} empty="No node has this text in its name." />`}>
    ${open && html`<${Node} key=${open} name=${open} />`}
  </${ListDetail}>`;
}

function Node({ name: node }) {
  const where = `/sandbox/v1/network/nodes/${encodeURIComponent(node)}`;
  const { data, problem, loading } = useResource(where);
  const closing = useAction();
  if (problem && !data) return html`<h2>${node}</h2><${Unavailable} problem=${problem} />`;
  if (loading) return html`<p class="hint">Loading…</p>`;
  const close = (channel) => closing.run("DELETE", `/sandbox/v1/network/channels/${channel.channel}`, { notice: `Channel ${channel.channel} is closed.` });
  return html`<div class="title"><h2>${data.name}</h2>${data.shop && html`<p class="hint">the node of this service</p>`}</div>
    <${Facts} rows=${[["can receive", `${grouped(data.inbound)} msat`], ["can send", `${grouped(data.outbound)} msat`]]} />
    <${Section} title="Channels"><${Outcome} of=${closing} />
      <ul class="plain cards" id="channels">${data.channels.map((channel) => html`<li key=${channel.channel}>
        <div class="row"><strong>${channel.channel}</strong><span>to <${Link} to=${`network/${channel.peer}`}>${channel.peer}</${Link}></span>${channel.closed && html`<${Pill} status="closed" tone="bad" />`}
          ${!channel.closed && html`<span class="far"><${Confirmed} className="small" label="Close" question="No payment uses this channel any more." onConfirm=${() => close(channel)} /></span>`}</div>
        ${!channel.closed && html`<${Balance} channel=${channel} />`}
        ${channel.onChain !== "0" && html`<p class="hint">${grouped(channel.onChain)} msat on the chain</p>`}</li>`)}</ul></${Section}>
    <${Section} title="Change"><${Changes} where=${where} /></${Section}>`;
}

/** Who has how much of a channel, as a bar and in numbers. */
function Balance({ channel }) {
  const share = (amount) => (Number(channel.capacity) ? (100 * Number(amount)) / Number(channel.capacity) : 0);
  return html`<svg class="balance" viewBox="0 0 100 4" preserveAspectRatio="none" role="img" aria-label="${Math.round(share(channel.local))} % on this side">
      <rect class="rest" width="100" height="4" /><rect class="open" width=${share(channel.local) + share(channel.inFlight)} height="4" /><rect class="here" width=${share(channel.local)} height="4" /></svg>
    <p class="hint">${grouped(channel.local)} here, ${grouped(channel.remote)} there${channel.inFlight !== "0" ? `, ${grouped(channel.inFlight)} in flight` : ""} of ${grouped(channel.capacity)} msat</p>`;
}

const LEAD = { Drain: ["inbound", "outbound"], Rebalance: ["amount", "out", "into"], ChannelOrder: ["peer", "capacity", "local"] };
const FORMS = [["drain", "Drain", "Drain"], ["rebalance", "Rebalance", "Rebalance"], ["channels", "ChannelOrder", "Open a channel"]];

function Changes({ where }) {
  return FORMS.map(([operation, schema, verb]) => html`<${Change} key=${operation} to=${`${where}/${operation}`} id=${operation} schema=${schema} verb=${verb} />`);
}

function Change({ to, id, schema, verb }) {
  const action = useAction();
  return html`<${SchemaForm} id=${id} of=${schema} lead=${LEAD[schema]} action=${action} verb=${verb}
    onSubmit=${(body) => action.run("POST", to, { body, notice: `${verb}: done.` })} />`;
}
