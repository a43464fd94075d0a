// The bar at the top: the sandbox and its key, its clock, and the faults that are active.

import { apiKey, base, liveness, notifyChange, refusedKey, useKey as enterKey } from "./api.js";
import { readClock, useNow } from "./clock.js";
import { useAction, useResource } from "./data.js";
import { faultKinds, isActive } from "./faults.js";
import { grouped, instant } from "./format.js";
import { Copy, Outcome, Popover } from "./parts.js";
import { html, store, useEffect, useState, useStore } from "./ui.js";

const RATES = [[0, "paused"], [1, "real time"], [60, "a minute a second"], [3_600, "an hour a second"]];
const MOVES = [["+1 min", { by: "1m" }], ["+1 h", { by: "1h" }], ["+1 day", { by: "1d" }], ["next instant", { until: "next_event" }]];
const FOLLOW_MS = 1_000;

/** What the last action of the bar said; `Notices` shows it above the panel. */
const notice = store(null);

export function Bar() {
  const refused = useStore(refusedKey);
  const world = useResource(refused ? null : "/sandbox/v1").data;
  useEffect(() => { if (world) readClock(world.now, world.rate); }, [world]);
  if (refused) return null;
  return html`<${Clock} rate=${world?.rate} />
    <${Faults} network=${world?.network} />
    ${world && html`<${Ignored} world=${world} />`}
    <${Key} world=${world} />`;
}

function useMedia(condition) {
  const [matches, setMatches] = useState(matchMedia(condition).matches);
  useEffect(() => {
    const media = matchMedia(condition);
    const changed = () => setMatches(media.matches);
    media.addEventListener("change", changed);
    return () => media.removeEventListener("change", changed);
  }, [condition]);
  return matches;
}

function Clock({ rate }) {
  const now = useNow();
  const action = useAction();
  const wide = useMedia("(min-width: 72rem)");
  useEffect(() => notice.set(action.result === null ? null : action), [action.result]);
  const set = (event) => action.run("PATCH", "/sandbox/v1/clock", { body: { rate: Number(event.target.value) }, notice: "The clock's rate is set." });
  const move = (label, body) => action.run("POST", "/sandbox/v1/clock/advance", { body, notice: (clock) => `Time moved: ${label}. It is ${instant(clock.now)}.` });
  const known = RATES.some(([value]) => value === rate);
  const time = html`<time id="now">${now === null ? "unknown time" : instant(new Date(Math.floor(now / 1_000) * 1_000).toISOString())}</time>`;
  const tools = html`
    <select aria-label="Rate of the clock" id="rate" value=${String(rate ?? "")} onChange=${set} key=${`${rate} ${action.busy}`}>
      ${rate !== undefined && !known && html`<option value=${rate}>${rate} times real time</option>`}
      ${RATES.map(([value, label]) => html`<option key=${value} value=${value}>${label}</option>`)}</select>
    <span class="moves" role="group" aria-label="Advance the clock">${MOVES.map(([label, body]) => html`
      <button type="button" key=${label} disabled=${action.busy} onClick=${() => move(label, body)}>${label}</button>`)}</span>`;
  if (wide) return html`<div class="clock" role="group" aria-label="Clock">${time}${tools}</div>`;
  return html`<${Popover} className="clock" label=${time} title="Clock">${tools}</${Popover}>`;
}

/** All faults that are active, each with the way to end it. */
function Faults({ network }) {
  const action = useAction();
  const lists = faultKinds.map((kind) => useResource(kind.name !== "network" || network ? `${kind.path}?limit=100` : null));
  const active = faultKinds.flatMap(({ name, path, words }, place) =>
    (lists[place].data?.data ?? []).filter(isActive).map((fault) => ({ kind: name, path, fault, text: words(fault) })));
  const end = ({ path, fault, text }) => action.run("DELETE", `${path}/${fault.id}`, { notice: `Ended: ${text}.` });
  const endAll = async () => {
    for (const { path } of faultKinds.filter((kind) => kind.clears)) await action.run("DELETE", path, { notice: "All faults of the service and of callbacks are ended." });
  };
  const label = html`<span class="faults ${active.length ? "on" : ""}">${active.length === 0 ? "no faults" : `${active.length} ${active.length === 1 ? "fault" : "faults"}`}</span>`;
  return html`<${Popover} label=${label} title="Active faults">
    ${active.length === 0 ? html`<p class="hint">No fault is active.</p>` : html`<ul class="plain">${active.map((one) => html`
      <li key=${one.fault.id} class="row"><span class="grow"><span class="hint">${one.kind}</span> ${one.text}${one.fault.count > 1 ? html` <span class="hint">${one.fault.used ?? one.fault.hits} of ${one.fault.count}</span>` : ""}</span>
      <button type="button" class="small" onClick=${() => end(one)}>End</button></li>`)}</ul>
      ${active.length > 1 && html`<button type="button" onClick=${endAll}>End all</button>`}`}
    <${Outcome} of=${action} /></${Popover}>`;
}

/** Fields of requests that no operation knows, and the notes of the server. */
function Ignored({ world }) {
  const texts = [...(world.notes ?? []), ...world.ignoredFields];
  if (!texts.length) return null;
  return html`<${Popover} className="ignored" label=${html`<span class="faults on">${texts.length} ${texts.length === 1 ? "note" : "notes"}</span>`} title="Notes">
    ${world.ignoredFields.length > 0 && html`<p class="hint">Requests had names that their operations do not know:</p>`}
    <ul class="plain" id="ignored">${texts.map((text) => html`<li key=${text}>${text}</li>`)}</ul></${Popover}>`;
}

function Key({ world }) {
  const key = useStore(apiKey);
  const live = useStore(liveness);
  const follow = useFollowing(live);
  const submit = (event) => {
    event.preventDefault();
    enterKey(new FormData(event.target).get("key").trim());
  };
  const name = base ? base.split("/").at(-1) : "sandbox";
  const counts = Object.entries(world?.charges ?? {}).map(([status, count]) => `${grouped(count)} ${status}`).join(", ");
  return html`<${Popover} className="sandbox" title="Sandbox and key" label=${html`<span class="dot ${live}"></span><span class="name">${name}</span> <code>${key}</code>`}>
    <dl class="facts">
      ${world && html`<div><dt>seed</dt><dd>${world.seed}</dd></div><div><dt>start</dt><dd>${instant(world.start)}</dd></div>
      <div><dt>charges</dt><dd>${counts || "none"}</dd></div><div><dt>version</dt><dd>${world.version}</dd></div>
      <div><dt>base URL</dt><dd><code>${location.origin}${base}</code> <${Copy} text=${location.origin + base} /></dd></div>`}
    </dl>
    <form onSubmit=${submit}><label for="other-key">API key</label>
      <div class="row"><input id="other-key" name="key" defaultValue=${key} autocomplete="off" spellcheck=${false} /><button>Use</button></div></form>
    ${live === "stream" ? html`<p class="hint">The page follows the sandbox.</p>` : html`
      <label class="check"><input type="checkbox" id="follow" checked=${follow.on} onChange=${follow.toggle} /> refresh every second</label>
      <p class="hint">Without it the page refreshes after each action, and when it gets the focus.</p>`}
  </${Popover}>`;
}

const following = store(false);

/** Refresh each second, where the user asked for it and no stream reports the changes. */
function useFollowing(live) {
  const on = useStore(following);
  useEffect(() => {
    if (!on || live === "stream") return undefined;
    const timer = setInterval(() => { if (!document.hidden) notifyChange(); }, FOLLOW_MS);
    return () => clearInterval(timer);
  }, [on, live]);
  return { on, toggle: () => following.set(!on) };
}

/** What the last action of the bar did. */
export function Notices() {
  const action = useStore(notice);
  if (action === null) return null;
  return html`<div class="notice"><${Outcome} of=${action} /><button type="button" class="quiet small" onClick=${() => { action.clear(); notice.set(null); }}>Dismiss</button></div>`;
}
