// Faults: of the service, of callbacks and of the network. Each is a list of what is injected, and a form that adds one.

import { base } from "../api.js";
import { useAction, usePages, useResource } from "../data.js";
import { faultKinds, isActive } from "../faults.js";
import { grouped, instant } from "../format.js";
import { Choices } from "../lists.js";
import { Confirmed, Outcome, Pill, Section, Unavailable } from "../parts.js";
import { Link, navigate } from "../router.js";
import { SchemaForm } from "../schema_form.js";
import { html } from "../ui.js";

export const name = "faults";
export const path = "faults";
export const title = "Faults";
export const letter = "f";

export function Panel({ route: { id } }) {
  const world = useResource("/sandbox/v1").data;
  if (world === null) return html`<p class="hint padded">Loading…</p>`;
  const kinds = faultKinds.filter((kind) => kind.name !== "network" || world.network);
  const kind = kinds.find((one) => one.name === (id ?? "service")) ?? kinds[0];
  return html`<div class="padded scroll"><div class="head bare"><h2>Faults</h2>
      <${Choices} label="Faults of" value=${kind.name} options=${kinds.map((one) => [one.name, one.title])} onChoose=${(chosen) => navigate(`faults/${chosen}`)} /></div>
    <p class="hint">${kind.hint} ${!world.network && kind.name !== "network" && "Faults of the network need a sandbox with a network."}</p>
    <${Kind} key=${kind.name} kind=${kind} /></div>`;
}

function Kind({ kind }) {
  const list = usePages(kind.path);
  const ending = useAction();
  const adding = useAction();
  const end = (fault) => ending.run("DELETE", `${kind.path}/${fault.id}`, { notice: `Ended: ${kind.words(fault)}.` });
  const endAll = async () => {
    if (kind.clears) await ending.run("DELETE", kind.path, { notice: "All are ended." });
    else for (const fault of list.rows) await ending.run("DELETE", `${kind.path}/${fault.id}`, { notice: "All are ended." });
  };
  return html`
    <${Section} title="Active and used up" aside=${list.rows.length > 1 && html`<${Confirmed} className="small" label="End all" question="All of them end, and their counts are gone." onConfirm=${endAll} />`}>
      <${Outcome} of=${ending} />
      ${list.problem ? html`<${Unavailable} problem=${list.problem} />` : list.rows.length === 0 ? html`<p class="hint">${list.loading ? "Loading…" : "None."}</p>` : html`
      <div class="wide-table" tabindex="0" role="region" aria-label="Faults"><table class="plain" id="faults"><thead><tr><th scope="col">Fault</th><th scope="col">State</th><th scope="col" class="number">Applied</th><th scope="col">Added</th><th scope="col"><span class="unseen">End</span></th></tr></thead>
        <tbody>${list.rows.map((fault) => html`<tr key=${fault.id}><th scope="row">${kind.words(fault)}${fault.note && html` <span class="hint">${fault.note}</span>`}</th>
          <td><${Pill} status=${isActive(fault) ? "active" : "used up"} /></td>
          <td class="number">${grouped(fault.hits ?? fault.acted ?? 0)} of ${limit(fault)}</td><td><time>${fault.createdAt ? instant(fault.createdAt) : ""}</time></td>
          <td><button type="button" class="small" onClick=${() => end(fault)}>${isActive(fault) ? "End" : "Remove"}</button></td></tr>`)}</tbody></table></div>`}</${Section}>
    <${Section} title="Add one"><${SchemaForm} id="fault" of=${kind.schema} lead=${kind.lead} action=${adding} verb="Add"
      onSubmit=${(body) => adding.run("POST", kind.path, { body, notice: (fault) => `Added: ${kind.words(fault)}.` })} />
      ${kind.name === "service" && html`<p class="hint">What each of them uncovers in a client: <a href="${base}/sandbox/v1/docs#group-Service-faults" target="_blank" rel="opener">the documentation</a>. Which requests got it: <${Link} to="requests">Requests</${Link}>.</p>`}</${Section}>`;
}

const limit = (fault) => (fault.count ?? fault.times ?? null) === null ? "∞" : grouped(fault.count ?? fault.times);
