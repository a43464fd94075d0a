// Time: the clock of the sandbox, what is due, and the snapshots to return to.

import { useAction, usePages, useResource } from "../data.js";
import { useNow } from "../clock.js";
import { grouped, instant, span } from "../format.js";
import { Confirmed, Field, filled, numbers, Outcome, Section, Unavailable } from "../parts.js";
import { Link } from "../router.js";
import { CopyMade } from "./sandboxes.js";
import { html, useState } from "../ui.js";

export const name = "time";
export const path = "time";
export const title = "Time";
export const letter = "t";

const moved = (clock) => `It is ${instant(clock.now)}. ${clock.count === 1 ? "One event was" : `${grouped(clock.count)} events were`} processed.`;

export function Panel() {
  const world = useResource("/sandbox/v1").data;
  return html`<div class="padded scroll"><h2>Time</h2>
    <${Section} title="Clock"><${Moves} world=${world} /></${Section}>
    <${Section} title="Due"><${Due} /></${Section}>
    <${Section} title="Snapshots"><${Snapshots} /></${Section}>
    <${Section} title="Fork"><${Forks} /></${Section}>
    <${Section} title="Start again"><${Reset} world=${world} /></${Section}></div>`;
}

function Moves({ world }) {
  const action = useAction();
  const problem = action.result?.problem;
  const advance = (body) => action.run("POST", "/sandbox/v1/clock/advance", { body, notice: moved });
  const move = (event) => {
    event.preventDefault();
    advance(filled(event.target));
  };
  const rate = (event) => {
    event.preventDefault();
    action.run("PATCH", "/sandbox/v1/clock", { body: numbers(filled(event.target), "rate"), notice: (clock) => (clock.rate === 0 ? "The clock is paused." : `The clock has rate ${clock.rate}.`) });
  };
  return html`<div class="forms">
      <form class="form" id="advance-by" onSubmit=${move}><${Field} label="Advance by" name="by" placeholder="90s, 15m, 1h, 2d" required problem=${problem} /><div class="field"><button disabled=${action.busy}>Advance</button></div></form>
      <form class="form" id="advance-to" onSubmit=${move}><${Field} label="Advance to" name="to" placeholder=${world?.now ?? "2030-01-01T10:00:00Z"} required problem=${problem} /><div class="field"><button disabled=${action.busy}>Advance</button></div></form>
      <form class="form" id="rate-of" onSubmit=${rate}><${Field} label="Rate: seconds per second, 0 pauses" name="rate" defaultValue=${world?.rate ?? ""} key=${world?.rate} required problem=${problem} /><div class="field"><button disabled=${action.busy}>Set</button></div></form>
    </div>
    <div class="row"><button type="button" disabled=${action.busy} onClick=${() => advance({ until: "next_event" })}>Through the next instant</button>
      <button type="button" disabled=${action.busy} onClick=${() => advance({ until: "idle" })}>Until nothing is due</button></div>
    <${Outcome} of=${action} />`;
}

const SHOWN_EVENTS = 100;

/** What is due, on a ruler and as a list; a button advances the clock to an event. */
function Due() {
  const { data, problem } = useResource(`/sandbox/v1/clock/due?limit=${SHOWN_EVENTS}`);
  const now = useNow();
  const action = useAction();
  if (problem && !data) return html`<${Unavailable} problem=${problem} />`;
  if (data === null) return html`<p class="hint">Loading…</p>`;
  const events = data.data;
  if (!events.length) return html`<p class="hint">Nothing is due.</p>`;
  const wait = (event) => Math.max(0, Date.parse(event.at) - (now ?? Date.parse(event.at)));
  const to = (event) => action.run("POST", "/sandbox/v1/clock/advance", { body: { to: event.at }, notice: moved });
  return html`<${Ruler} waits=${events.map(wait)} /><${Outcome} of=${action} />
    <div class="wide-table" tabindex="0" role="region" aria-label="Due"><table class="plain" id="due"><thead><tr><th scope="col">Event</th><th scope="col">Sandbox time</th><th scope="col">In</th><th scope="col">About</th><th scope="col"><span class="unseen">Advance</span></th></tr></thead>
      <tbody>${events.map((event, place) => html`<tr key=${`${event.at} ${event.kind} ${event.id} ${place}`}><th scope="row">${event.kind.replaceAll("_", " ")}</th><td><time>${instant(event.at)}</time></td><td>${span(wait(event))}</td>
        <td>${event.chargeId && html`<${Link} to=${`search?text=${event.chargeId}`}><code>${event.chargeId.slice(0, 8)}</code></${Link}>`}</td>
        <td class="row end-cell"><button type="button" class="small" disabled=${action.busy} onClick=${() => to(event)}>Advance to it</button></td></tr>`)}</tbody></table></div>
    ${data.next !== null && html`<p class="hint">These are the first ${SHOWN_EVENTS}.</p>`}`;
}

/** Marks for the times until the events, from now to the last of them. */
function Ruler({ waits }) {
  const last = Math.max(...waits, 1);
  return html`<svg class="ruler" viewBox="0 0 1000 24" preserveAspectRatio="none" role="img" aria-label="${waits.length} events within ${span(last)}">
      <line x1="0" x2="1000" y1="20" y2="20" />${waits.map((wait, place) => html`<line key=${place} class="mark" x1=${4 + (992 * wait) / last} x2=${4 + (992 * wait) / last} y1="4" y2="20" />`)}</svg>
    <p class="row hint"><span>now</span><span class="far">in ${span(last)}</span></p>`;
}

function Snapshots() {
  const list = usePages("/sandbox/v1/snapshots");
  const action = useAction();
  const take = async (event) => {
    event.preventDefault();
    const form = event.target;
    if (await action.run("POST", "/sandbox/v1/snapshots", { body: filled(form), notice: "The present state is kept." })) form.reset();
  };
  const back = (one) => action.run("POST", "/sandbox/v1/restore", { body: { snapshot: one.id }, notice: (world) => `Back at ${instant(world.now)}.` });
  const forget = (one) => action.run("DELETE", `/sandbox/v1/snapshots/${one.id}`, { notice: "The snapshot is forgotten." });
  return html`<form class="form" id="snapshot" onSubmit=${take}><${Field} label="Name" name="name" placeholder="before the outage" problem=${action.result?.problem} />
      <div class="field"><button class="first" disabled=${action.busy}>Keep this state</button></div></form>
    <${Outcome} of=${action} />
    ${list.problem ? html`<${Unavailable} problem=${list.problem} />` : list.rows.length === 0 ? html`<p class="hint">${list.loading ? "Loading…" : "None. A snapshot keeps the whole state in memory: you can return to it."}</p>` : html`
    <div class="wide-table" tabindex="0" role="region" aria-label="Snapshots"><table class="plain" id="snapshots"><thead><tr><th scope="col">Name</th><th scope="col">Sandbox time</th><th scope="col" class="number">Bytes</th><th scope="col"><span class="unseen">Actions</span></th></tr></thead>
      <tbody>${list.rows.map((one) => html`<tr key=${one.id}><th scope="row">${one.name ?? html`<code>${one.id}</code>`}</th><td><time>${instant(one.now)}</time></td><td class="number">${grouped(one.bytes)}</td>
        <td class="row end-cell"><${Confirmed} className="small" label="Return" question="The sandbox goes back to this state. What happened since then is gone, unless another snapshot has it." onConfirm=${() => back(one)} />
        <${Fork} snapshot=${one.id} small /><button type="button" class="small" onClick=${() => forget(one)}>Forget</button></td></tr>`)}</tbody></table></div>`}`;
}

function Forks() {
  return html`<p class="hint">A fork is another sandbox of this server in the same state, with a key of its own. The two continue independently of each other.</p><${Fork} />`;
}

function Fork({ snapshot, small = false }) {
  const action = useAction();
  const [made, setMade] = useState(null);
  const fork = async () => setMade(await action.run("POST", "/sandbox/v1/fork", { body: snapshot ? { snapshot } : {}, notice: "Forked." }));
  return html`<button type="button" class=${small ? "small" : ""} disabled=${action.busy} onClick=${fork}>Fork</button>
    ${made ? html`<${CopyMade} sandbox=${made} />` : html`<${Outcome} of=${action} />`}`;
}

function Reset({ world }) {
  const action = useAction();
  const reset = (body) => action.run("POST", "/sandbox/v1/reset", { body, notice: (fresh) => `A new run began, with seed ${fresh.seed}.` });
  const question = "All charges, payments, callbacks and entries of the event journal are deleted. Keys, secrets and snapshots stay.";
  return html`<p class="hint">The new run has new ids. With the seed of this run it has the same ids again.</p><div class="row">
      <${Confirmed} label="New run" verb="Start again" question=${question} onConfirm=${() => reset({})} />
      ${world && html`<${Confirmed} label=${`Repeat seed ${world.seed}`} verb="Start again" question=${question} onConfirm=${() => reset({ seed: world.seed })} />`}</div>
    <${Outcome} of=${action} />`;
}
