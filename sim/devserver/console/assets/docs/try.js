// "Try it": a request to an operation from the documentation page, its response, and where the console shows it.

import { adminToken, apiKey, base, curl, Problem, request, send, useAdminToken as enterToken, useKey as enterKey } from "../api.js";
import { Fault, Field, Headers, Json, More, Pill } from "../parts.js";
import { plain, typesOf } from "../schema_form.js";
import { html, render, useEffect, useRef, useState } from "../ui.js";
import { evaluated, operationAt } from "./openapi.js";
import { isServerPage } from "./views.js";

const MOST_SHOWN = 100_000; // characters of a body
const LOOKS = 4; // for the request in the log: it is there as soon as the response has left the server
const PAUSE_MS = 100;
const PLACES = [["path", "Path"], ["query", "Query"], ["header", "Headers"]];

/** Values that a response had for the parameters of another operation, by its id. */
const remembered = new Map();

const titleOf = (id) => document.querySelector(`nav a[href="#operation-${id}"] span`)?.textContent ?? id;
const asText = (value) => (typeof value === "string" ? value : JSON.stringify(value));
const nameOf = ({ in: place, name }) => `${place} ${name}`;
const pause = () => new Promise((resolve) => setTimeout(resolve, PAUSE_MS));

function Parameter({ parameter, operation }) {
  const { name, required, schema, description, example } = parameter;
  const values = schema.enum ?? (typesOf(schema).includes("boolean") ? [true, false] : null);
  const value = remembered.get(operation.id)?.[name] ?? (required ? asText(example) : "");
  const shared = { label: required ? `${name} (required)` : name, name: nameOf(parameter), hint: plain(description), required };
  if (values === null) return html`<${Field} ...${shared} defaultValue=${value} placeholder=${parameter.hasExample ? asText(example) : ""} />`;
  return html`<${Field} ...${shared}>${!required && html`<option value="">(not sent)</option>`}
    ${values.filter((one) => one !== null).map((one) => html`<option key=${one} value=${one} selected=${String(one) === value}>${String(one)}</option>`)}</${Field}>`;
}

function Body({ body: { mediaType, examples } }) {
  const [chosen, setChosen] = useState(0);
  const [text, setText] = useState(null);
  const isJson = /[/+]json\b/.test(mediaType);
  const shown = text ?? (isJson ? JSON.stringify(examples[chosen][1], null, 2) : asText(examples[chosen][1]));
  const choose = (event) => { setChosen(Number(event.target.value)); setText(null); };
  let hint = mediaType;
  try {
    if (isJson && shown.trim()) JSON.parse(shown);
  } catch (error) {
    hint = `This is not JSON: ${error.message}`;
  }
  return html`${examples.length > 1 && html`<${Field} label="Example" name="" wide onChange=${choose}>
      ${examples.map(([title], place) => html`<option key=${place} value=${place}>${title || `Example ${place + 1}`}</option>`)}</${Field}>`}
    <${Field} label="Body" name="body" wide rows=${Math.min(16, Math.max(6, shown.split("\n").length + 1))} spellcheck=${false} value=${shown} hint=${hint} onInput=${(event) => setText(event.target.value)} />`;
}

/** The request that the form describes. */
function described(operation, form) {
  const values = new FormData(form);
  const given = (place) => Object.fromEntries(operation.parameters.filter((one) => one.in === place)
    .map((one) => [one.name, (values.get(nameOf(one)) ?? "").trim()]).filter(([, value]) => value !== ""));
  const [path, query, headers] = ["path", "query", "header"].map(given);
  const target = operation.path.replace(/\{([^}]+)\}/g, (whole, name) => (name in path ? encodeURIComponent(path[name]) : whole));
  const search = new URLSearchParams(query).toString();
  const body = (values.get("body") ?? "").trim();
  if (body) headers["content-type"] = operation.body.mediaType;
  const key = operation.header === null ? "" : isServerPage ? adminToken.get() && `Bearer ${adminToken.get()}` : apiKey.get();
  return {
    path, query, target: target + (search && `?${search}`),
    options: { headers, text: body || undefined, root: isServerPage ? "" : base, auth: key ? { [operation.header]: key } : {} },
  };
}

/** The number of the request in the log of the sandbox, or null. */
async function loggedId(client) {
  for (let look = 0; look < LOOKS; look += 1) {
    const page = await request("GET", `/sandbox/v1/requests?limit=1&client=${client}`).catch(() => null);
    if (page === null) return null;
    if (page.data.length) return page.data[0].id;
    await pause();
  }
  return null;
}

/** Note what a response tells about the parameters of further operations. Returns these operations. */
function follow(operation, sent, status, text) {
  let body;
  try {
    body = JSON.parse(text);
  } catch {
    return [];
  }
  const links = (operation.links.get(String(status)) ?? []).filter((link) => document.getElementById(`operation-${link.operationId}`));
  for (const link of links) {
    const values = Object.entries(link.parameters ?? {}).map(([name, expression]) => [name.split(".").at(-1), evaluated(expression, { ...sent, body })])
      .filter(([, value]) => value !== undefined && value !== null);
    remembered.set(link.operationId, { ...remembered.get(link.operationId), ...Object.fromEntries(values.map(([name, value]) => [name, asText(value)])) });
  }
  return [...new Set(links.map((link) => link.operationId))];
}

/** One request at a time: `{busy, result, run, stop}`. */
function useExchange(operation) {
  const [state, setState] = useState({ busy: false, result: null });
  const abort = useRef(null);
  useEffect(() => () => abort.current?.abort(), []);
  const run = async (sent) => {
    const client = `docs-${crypto.getRandomValues(new Uint32Array(2)).join("")}`;
    const stop = new AbortController();
    abort.current = stop;
    const command = curl(operation.method, sent.target, sent.options);
    const began = performance.now();
    let result = { command };
    const show = (more, busy = true) => {
      result = { ...result, ...more };
      if (abort.current === stop) setState({ busy, result });
    };
    show({});
    try {
      const { options } = sent;
      const response = await send(operation.method, sent.target, { ...options, signal: stop.signal, headers: { ...options.headers, "leyden-client": client } });
      show({ status: response.status, reason: response.statusText, headers: [...response.headers], text: "", took: performance.now() - began });
      const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
      for (let part = await reader?.read(); part && !part.done; part = await reader.read()) show({ text: result.text + part.value });
      show({ took: performance.now() - began, next: follow(operation, sent, response.status, result.text) });
    } catch (error) {
      if (stop.signal.aborted) show({ stopped: true });
      else show({ problem: error instanceof Problem ? error : new Problem(0, { detail: "The response ended within its body." }) });
    }
    show({}, false);
    if (!isServerPage && !result.stopped) show({ logged: await loggedId(client) }, false);
  };
  return { ...state, run, stop: () => abort.current?.abort() };
}

function Result({ of: { command, status, reason, headers, text, took, problem, stopped, logged, next = [] } }) {
  const notice = [took !== undefined && `${Math.round(took)} ms`, stopped && "stopped"].filter(Boolean).join(", ");
  return html`<section class="result" aria-label="Response">
    <div role="status" class="row">${status !== undefined && html`<${Pill} status="${status} ${reason}" tone=${status >= 500 ? "bad" : status >= 400 ? "open" : "good"} />`}
      <span class="hint">${notice}</span>${problem && html`<p class="refused"><${Fault} problem=${problem} /></p>`}
      ${logged && html`<a class="button small far" href="${base}/console/requests/${logged}" target="_blank" rel="opener">Show in console</a>`}</div>
    ${text && html`<${Json} value=${text.slice(0, MOST_SHOWN)} label="body of the response" />`}
    ${text?.length > MOST_SHOWN && html`<p class="hint">The first ${MOST_SHOWN} characters.</p>`}
    ${headers && html`<${More} summary="${headers.length} headers"><${Headers} of=${headers} label="Headers of the response" /></${More}>`}
    <${More} summary="as curl"><${Json} value=${command} label="the request with curl" /></${More}>
    ${next.length > 0 && html`<div class="row"><span class="hint">Next:</span>${next.map((id) => html`<button type="button" key=${id} class="small" onClick=${() => show(`operation-${id}`)}>${titleOf(id)}</button>`)}</div>`}</section>`;
}

function Key({ header }) {
  const store = isServerPage ? adminToken : apiKey;
  const enter = isServerPage ? enterToken : enterKey;
  const hint = isServerPage ? "Needed if the server was started with --admin-token or is reached from another machine." : `The header ${header}. It is kept for this tab.`;
  return html`<${Field} label=${isServerPage ? "Admin token" : "API key"} name="" wide defaultValue=${store.get()} hint=${hint} onInput=${(event) => enter(event.target.value.trim())} />`;
}

function Form({ operation }) {
  const exchange = useExchange(operation);
  const submit = (event) => {
    event.preventDefault();
    if (!exchange.busy) exchange.run(described(operation, event.target));
  };
  const pressed = (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) event.currentTarget.requestSubmit(); };
  return html`<form class="form" onSubmit=${submit} onKeyDown=${pressed}>
      ${operation.header !== null && html`<${Key} header=${operation.header} />`}
      ${PLACES.map(([place, title]) => [title, operation.parameters.filter((one) => one.in === place)]).filter(([, listed]) => listed.length).map(([title, listed]) => html`
        <fieldset class="wide" key=${title}><legend>${title}</legend><div class="form">${listed.map((one) => html`<${Parameter} key=${one.name} parameter=${one} operation=${operation} />`)}</div></fieldset>`)}
      ${operation.body && html`<${Body} body=${operation.body} />`}
      <div class="field wide row"><button class="first" aria-disabled=${exchange.busy ? "true" : undefined}>Send</button>
        ${exchange.busy && html`<button type="button" onClick=${exchange.stop}>Stop</button>`}</div></form>
    ${exchange.result && html`<${Result} of=${exchange.result} />`}`;
}

function Try({ place, dialog }) {
  const [operation, setOperation] = useState(null);
  const [problem, setProblem] = useState("");
  useEffect(() => { operationAt(place).then(setOperation, (error) => setProblem(error.message)); }, [place]);
  return html`<div class="row head"><div class="grow"><h2 id="try-title" tabindex="-1">${operation?.summary ?? "Try it"}</h2>
      ${operation && html`<p class="route"><span class="method ${operation.method.toLowerCase()}">${operation.method}</span><code class="path">${operation.path}</code></p>`}</div>
      <button type="button" class="quiet" onClick=${() => dialog.close()}>Close</button></div>
    ${problem ? html`<p class="refused" role="alert">${problem}</p>` : operation ? html`<${Form} operation=${operation} />` : html`<p class="hint">Loading…</p>`}`;
}

let dialog = null;

function show(place) {
  render(html`<${Try} key=${place} place=${place} dialog=${dialog} />`, dialog);
  dialog.scrollTop = 0;
  if (!dialog.open) dialog.showModal();
  dialog.querySelector("h2").focus();
}

/** Open the form for the operation with this id on the page, in a dialog which is put into the element. */
export function open(holder, place) {
  if (dialog === null) {
    dialog = Object.assign(document.createElement("dialog"), { className: "try" });
    dialog.setAttribute("aria-labelledby", "try-title");
    dialog.setAttribute("closedby", "any"); // a click beside it
    // The event may come after the dialog was opened again.
    dialog.addEventListener("close", () => { if (!dialog.open && dialog.querySelector(".result") === null) render(null, dialog); });
    holder.append(dialog);
  }
  show(place);
}
