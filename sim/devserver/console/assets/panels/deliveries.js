// The callbacks of a charge: each delivery with its attempts, what was sent and what was answered.

import { useAction } from "../data.js";
import { instant } from "../format.js";
import { Code, Json, More, Outcome, Pill } from "../parts.js";
import { html } from "../ui.js";

export function Deliveries({ deliveries, none }) {
  const action = useAction();
  if (!deliveries.length) return html`<p class="hint">${none}</p>`;
  const again = (delivery) => action.run("POST", `/sandbox/v1/deliveries/${delivery.id}/replay`, { said: "The callback is sent again." });
  return html`<ul class="plain cards" id="deliveries">${deliveries.map((delivery) => html`<li key=${delivery.id}>
      <div class="row"><strong>${delivery.event}</strong><${Pill} status=${delivery.status} /><button type="button" class="far" onClick=${() => again(delivery)}>Send again</button></div>
      <p class="url">${delivery.url}</p>
      ${delivery.dueAt && html`<p class="hint">next attempt at ${instant(delivery.dueAt)}</p>`}
      <ol class="attempts">${delivery.attempts.map((attempt) => html`<li key=${attempt.number}><${Attempt} attempt=${attempt} /></li>`)}</ol>
      <${More} summary="request body"><${Json} value=${delivery.body} label="request body" /></${More}>
      <p class="hint">id <${Code} text=${delivery.id} /></p>
    </li>`)}</ul><${Outcome} of=${action} />`;
}

/** One attempt: when, what came back, and its headers and answer. */
export function Attempt({ attempt }) {
  const came = attempt.status ?? attempt.error ?? "in flight";
  const good = attempt.status >= 200 && attempt.status < 300;
  const tone = came === "in flight" ? "open" : good ? "good" : "bad";
  return html`<div class="row"><span>attempt ${attempt.number}: <strong class="text-${tone}">${came}</strong></span>
      <time class="hint">${instant(attempt.at)}</time><span class="hint">${attempt.latencyMs} ms</span>
      ${attempt.fault && html`<${Pill} status=${`fault ${attempt.fault}`} tone="open" />`}</div>
    ${attempt.note && html`<p class="hint">${attempt.note}</p>`}
    ${attempt.headers && html`<${More} summary="headers and answer">
      <${Json} value=${attempt.headers} label="headers of the request" />
      ${attempt.answer ? html`<${Json} value=${attempt.answer} label="answer" />` : html`<p class="hint">The answer has no body.</p>`}</${More}>`}`;
}
