// The parts that panels are made of. All texts become text nodes: no part takes HTML.

import { pretty } from "./format.js";
import { html, useEffect, useId, useRef, useState } from "./ui.js";

const GOOD = new Set(["completed", "delivered", "succeeded", "active", "ready"]);
const BAD = new Set(["error", "failed", "exhausted", "disabled"]);
const OPEN = new Set(["pending", "held", "in_flight", "in flight"]);

/** A status as a coloured word. */
export function Pill({ status, tone }) {
  const kind = tone ?? (GOOD.has(status) ? "good" : BAD.has(status) ? "bad" : OPEN.has(status) ? "open" : "plain");
  return html`<span class="pill ${kind}">${String(status).replaceAll("_", " ")}</span>`;
}

/**
 * Put a text into the clipboard; returns whether it is there. Only pages over HTTPS or of this machine have
 * `navigator.clipboard`; others select the text beside `button` (in a dialog nothing else can be selected) and copy that.
 */
async function copied(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = Object.assign(document.createElement("textarea"), { value: text, className: "unseen" });
    button.after(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    button.focus();
    return done;
  }
}

/** A button that copies a text, and says so. `what` names the text where several buttons have the same label. */
export function Copy({ text, label = "Copy", what }) {
  const [notice, setNotice] = useState("");
  useEffect(() => {
    if (!notice) return undefined;
    const timer = setTimeout(() => setNotice(""), 1_500);
    return () => clearTimeout(timer);
  }, [notice]);
  const copy = async (event) => setNotice((await copied(text, event.currentTarget)) ? "Copied" : "Not copied");
  return html`<button type="button" class="small quiet" onClick=${copy} title=${label} aria-label=${what && !notice ? `${label}: ${what}` : undefined}>${notice || label}</button>`;
}

/** An identifier or another machine text, with a button that copies it. */
export function Code({ text, copy = true, label = "Copy" }) {
  return html`<span class="code"><code>${text}</code>${copy && html`<${Copy} text=${text} label=${label} />`}</span>`;
}

/** Names and values: `rows` is a list of `[name, value]`; a value that is null or undefined is left out. */
export function Facts({ rows }) {
  return html`<dl class="facts">${rows.filter(([, value]) => value !== null && value !== undefined && value !== "").map(([name, value]) => html`
    <div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

/** Headers as they were sent: `of` is a list of `[name, value]`. */
export function Headers({ of: headers, label }) {
  return html`<table class="plain headers"><caption class="unseen">${label}</caption>
    <thead class="unseen"><tr><th scope="col">Name</th><th scope="col">Value</th></tr></thead>
    <tbody>${headers.map(([name, value], place) => html`<tr key=${place}><th scope="row"><code>${name}</code></th><td><code>${value}</code></td></tr>`)}</tbody></table>`;
}

/** A text or a value, as JSON where it is JSON. */
export function Json({ value, label = "JSON" }) {
  const text = typeof value === "string" ? pretty(value) : JSON.stringify(value, null, 2);
  return html`<div class="json"><${Copy} text=${text} /><pre tabindex="0" role="region" aria-label=${label}>${text}</pre></div>`;
}

/** A part that opens. */
export function More({ summary, open = false, children }) {
  return html`<details class="more" open=${open}><summary>${summary}</summary>${children}</details>`;
}

/** A part of a detail view, with its title and what belongs beside the title. */
export function Section({ title, aside, children }) {
  const id = useId();
  return html`<section class="section" aria-labelledby=${id}>
    <div class="row"><h3 id=${id}>${title}</h3>${aside && html`<span class="aside">${aside}</span>`}</div>${children}</section>`;
}

/** What became of an action: its sentence or its error, and the same request as a command. */
export function Outcome({ of: action }) {
  const { result } = action;
  return html`<div class="outcome" role="status">${result && html`
    <p class=${result.problem ? "refused" : "done"}>${result.problem ? html`<${Fault} problem=${result.problem} />` : result.text}</p>
    <${More} summary="as curl"><div class="json"><${Copy} text=${result.command} /><pre class="curl" tabindex="0" role="region" aria-label="the request with curl">${result.command}</pre></div></${More}>`}</div>`;
}

/** A problem document in a sentence, with each field that is wrong. */
export function Fault({ problem }) {
  if (!problem.fields.length) return html`<span>${problem.message}</span>`;
  return html`<span>${problem.fields.map((field) => html`<span class="line"><code>${field.pointer || "body"}</code> ${field.detail}</span>`)}</span>`;
}

/** The place of data that could not be loaded. */
export function Unavailable({ problem }) {
  return html`<p class="refused" role="alert"><${Fault} problem=${problem} /></p>`;
}

/** A labelled field of a form. `problem` is that of the last request: a mistake in this field is shown below it. */
export function Field({ label, name, hint, problem, children, wide = false, ...input }) {
  const id = useId();
  const wrong = problem?.fields.filter((field) => field.pointer === `/${name}` || field.pointer.startsWith(`/${name}/`)) ?? [];
  const described = [hint && `${id}h`, wrong.length && `${id}e`].filter(Boolean).join(" ") || undefined;
  const control = { id, name, "aria-describedby": described, "aria-invalid": wrong.length ? "true" : undefined };
  return html`<div class="field ${wide ? "wide" : ""}">
    <label for=${id}>${label}</label>
    ${children ? html`<select ...${control} ...${input}>${children}</select>` : input.rows ? html`<textarea ...${control} ...${input}></textarea>` : html`<input autocomplete="off" spellcheck=${false} ...${control} ...${input} />`}
    ${wrong.map((field) => html`<p class="refused" id="${id}e">${field.detail}</p>`)}
    ${hint && html`<p class="hint" id="${id}h">${hint}</p>`}
  </div>`;
}

/** The fields of a form that have a value, as texts. */
export function filled(form) {
  return Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, value.trim()]).filter(([, value]) => value !== ""));
}

/** Whole numbers of a form as numbers; a text that is none stays, so that the server says what is wrong. */
export function numbers(fields, ...names) {
  const whole = (value) => (/^-?\d{1,15}$/.test(value) ? Number(value) : value);
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, names.includes(name) ? whole(value) : value]));
}

/** A button whose action has to be confirmed. `question` says what is lost. */
export function Confirmed({ label, question, verb = label, onConfirm, className = "", disabled = false }) {
  const dialog = useRef(null);
  const id = useId();
  const confirm = () => { dialog.current.close(); onConfirm(); };
  return html`<button type="button" class=${className} disabled=${disabled} onClick=${() => dialog.current.showModal()}>${label}</button>
    <dialog ref=${dialog} aria-labelledby=${id}><p id=${id}>${question}</p>
      <div class="row end"><button type="button" onClick=${() => dialog.current.close()}>Keep</button>
      <button type="button" class="danger" onClick=${confirm}>${verb}</button></div></dialog>`;
}

/** A part of the bar that opens below its button; Escape and a click elsewhere close it. */
export function Popover({ label, title, className = "", children }) {
  const node = useRef(null);
  useEffect(() => {
    const outside = (event) => { if (!node.current.contains(event.target)) node.current.open = false; };
    const escape = (event) => {
      if (event.key !== "Escape" || !node.current.open) return;
      node.current.open = false;
      node.current.querySelector("summary").focus();
    };
    document.addEventListener("click", outside);
    document.addEventListener("keydown", escape);
    return () => { document.removeEventListener("click", outside); document.removeEventListener("keydown", escape); };
  }, []);
  return html`<details class="popover ${className}" ref=${node}><summary title=${title}>${label}</summary><div class="sheet">${children}</div></details>`;
}
