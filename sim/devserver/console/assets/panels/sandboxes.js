// Sandboxes: those that clients created on this server. Their keys are shown once, when they are created.

import { adminToken, base, serverDocument, storeKey, useAdminToken as enterToken } from "../api.js";
import { useAction, usePages } from "../data.js";
import { instant } from "../format.js";
import { Code, Confirmed, Facts, Field, Outcome, Section, Unavailable } from "../parts.js";
import { SchemaForm } from "../schema_form.js";
import { html, useEffect, useState, useStore } from "../ui.js";

export const name = "sandboxes";
export const path = "sandboxes";
export const title = "Sandboxes";
export const letter = "x";

const LIST = "/sandbox/v1/sandboxes";

export function Panel() {
  const admin = useStore(adminToken);
  const options = { root: "", headers: admin ? { authorization: `Bearer ${admin}` } : {} };
  const list = usePages(LIST, options);
  const needsToken = list.problem?.status === 401 || list.problem?.status === 403;
  return html`<div class="padded scroll"><h2>Sandboxes</h2>
    <p class="hint">Each has its own clock, data, keys, faults and inboxes. A test suite creates one for each test: <code>POST ${LIST}</code>.</p>
    ${base && html`<p><a href="/console">The console of the server's first sandbox</a></p>`}
    ${list.problem?.status === 404 ? html`<p class="hint">This server creates no further sandboxes.</p>` : html`
      ${needsToken && html`<${Token} problem=${list.problem} />`}
      ${list.problem && !needsToken && html`<${Unavailable} problem=${list.problem} />`}
      ${!list.problem && html`<${List} list=${list} options=${options} /><${Section} title="Create one"><${Create} options=${options} /></${Section}>`}`}</div>`;
}

function Token({ problem }) {
  const submit = (event) => {
    event.preventDefault();
    enterToken(new FormData(event.target).get("token").trim());
  };
  return html`<form class="form" id="admin-token" onSubmit=${submit}><${Field} label="Admin token" name="token" type="password" required hint=${problem.message} />
    <div class="field"><button>Use</button></div></form>`;
}

function List({ list, options }) {
  const action = useAction();
  const end = (one) => action.run("DELETE", `${LIST}/${one.id}`, { ...options, notice: `${one.name ?? one.id} ended.` });
  const reset = (one) => action.run("POST", `${LIST}/${one.id}/reset`, { ...options, body: {}, notice: `${one.name ?? one.id} began a new run.` });
  return html`<${Outcome} of=${action} />
    ${list.rows.length === 0 ? html`<p class="hint">${list.loading ? "Loading…" : "None was created."}</p>` : html`
    <div class="wide-table" tabindex="0" role="region" aria-label="Sandboxes"><table class="plain" id="sandboxes"><thead><tr><th scope="col">Name</th><th scope="col">Id</th><th scope="col">Created</th><th scope="col">Sandbox time</th><th scope="col">Network</th><th scope="col"><span class="unseen">Actions</span></th></tr></thead>
      <tbody>${list.rows.map((one) => html`<tr key=${one.id}><th scope="row">${one.name ?? "(no name)"}</th><td><code>${one.id}</code></td><td><time>${instant(one.createdAt)}</time></td><td><time>${instant(one.now)}</time></td><td>${one.network}</td>
        <td class="row end-cell"><a class="button small" href="/sandboxes/${one.id}/console" target="_blank" rel="opener">Open</a>
        <${Confirmed} className="small" label="Reset" question="Its charges, payments and callbacks are deleted." onConfirm=${() => reset(one)} />
        <${Confirmed} className="small" label="End" question="The sandbox and its data are gone, and its keys are refused." onConfirm=${() => end(one)} /></td></tr>`)}</tbody></table></div>
    ${!list.complete && html`<button type="button" onClick=${list.more}>More</button>`}`}`;
}

function Create({ options }) {
  const action = useAction();
  const [made, setMade] = useState(null);
  const create = async (body) => setMade(await action.run("POST", LIST, { ...options, body, notice: "Created." }));
  return html`${made && html`<${CopyMade} sandbox=${made} />`}<${SchemaForm} id="sandbox" of="SandboxCreate" load=${serverDocument} lead=${["name", "seed", "rate", "network"]} action=${action} verb="Create" onSubmit=${create} />`;
}

/** A sandbox that was made just now: its key, and its console in another tab. */
export function CopyMade({ sandbox }) {
  useEffect(() => storeKey(`/sandboxes/${sandbox.id}`, sandbox.apiKey), [sandbox.id]);
  return html`<div class="made" role="status"><${Facts} rows=${[
    ["sandbox", html`<code>${sandbox.id}</code>`], ["API key", html`<${Code} text=${sandbox.apiKey} />`], ["base URL", html`<${Code} text=${sandbox.url} />`]]} />
    <a class="button first" href="/sandboxes/${sandbox.id}/console" target="_blank" rel="opener">Open its console</a></div>`;
}
