// A callback with its attempts: what was sent, whether its signature is right, and what was answered.

import { useAction } from "../data.js";
import { instant } from "../format.js";
import { Code, Headers, Json, More, Outcome, Pill } from "../parts.js";
import { useSignature } from "../signature.js";
import { html } from "../ui.js";

/** The callbacks of a charge. */
export function Deliveries({ deliveries, none }) {
  if (!deliveries.length) return html`<p class="hint">${none}</p>`;
  return html`<ul class="plain cards" id="deliveries">${deliveries.map((delivery) => html`<li key=${delivery.id}>
      <div class="row"><strong>${delivery.event}</strong><${Pill} status=${delivery.status} /></div><${DeliveryCard} delivery=${delivery} /></li>`)}</ul>`;
}

/** Where a callback goes, its attempts and its body, and the button that sends it again. */
export function DeliveryCard({ delivery }) {
  const action = useAction();
  const again = (when) => action.run("POST", `/sandbox/v1/deliveries/${delivery.id}/replay`, {
    body: Object.keys(when).length ? when : undefined, notice: ({ dueAt }) => (dueAt && Object.keys(when).length ? `The callback is sent again at ${instant(dueAt)}.` : "The callback is sent again."),
  });
  return html`
      <div class="row"><span class="url grow">${delivery.url}</span><${SendAgain} busy=${action.busy} onSend=${again} /></div>
      <${Outcome} of=${action} />
      ${delivery.dueAt && html`<p class="hint">next attempt at ${instant(delivery.dueAt)}</p>`}
      ${delivery.note && html`<p class="hint">${delivery.note}</p>`}
      <ol class="attempts">${delivery.attempts.map((attempt) => html`<li key=${attempt.number}><${Attempt} attempt=${attempt} body=${delivery.body} /></li>`)}</ol>
      <${More} summary="request body"><${Json} value=${delivery.body} label="request body" /></${More}>
      <p class="hint">id <${Code} text=${delivery.id} /></p>`;
}

/** The button that sends again, and the time for it: `onSend` gets `{}`, `{at}` or `{delay}`. */
export function SendAgain({ label = "Send again", busy, onSend }) {
  const submit = (event) => {
    event.preventDefault();
    const text = new FormData(event.target).get("when").trim();
    onSend(text === "" ? {} : /^\d{4}-\d/.test(text) ? { at: text.replace(" ", "T").replace(/(T\d\d:\d\d)$/, "$1:00").replace(/(T[\d:.]+)$/, "$1Z") } : { delay: text });
  };
  return html`<form class="row again" onSubmit=${submit}>
    <input name="when" size="12" placeholder="now" autocomplete="off" spellcheck=${false} aria-label="When to send again" title="Empty: now. A span such as 5m, or a time of the sandbox such as 2030-01-01 12:00:00" />
    <button disabled=${busy}>${label}</button></form>`;
}

/** One attempt: when, what came back, and what was sent and answered. */
function Attempt({ attempt, body }) {
  const came = attempt.status ?? attempt.error ?? "in flight";
  const good = attempt.status >= 200 && attempt.status < 300;
  const tone = came === "in flight" ? "open" : good ? "good" : "bad";
  const sent = attempt.sent ?? (attempt.headers && attempt.error !== "blocked" ? [{ headers: attempt.headers, body }] : []);
  return html`<div class="row"><span>attempt ${attempt.number}: <strong class="text-${tone}">${came}</strong></span>
      <time class="hint">${instant(attempt.at)}</time>${attempt.latencyMs !== null && html`<span class="hint">${attempt.latencyMs} ms</span>`}
      ${attempt.fault && html`<${Pill} status=${`fault ${attempt.fault}`} tone="open" />`}</div>
    ${attempt.note && html`<p class="hint">${attempt.note}</p>`}
    ${attempt.headers && html`<${More} summary="headers and answer">
      ${sent.length === 0 && html`<p class="hint">Nothing was sent.</p>`}
      ${sent.map((one, place) => html`<${Sent} key=${place} message=${one} changed=${attempt.sent !== null} number=${attempt.number} at=${attempt.at} />`)}
      <${Answered} attempt=${attempt} /></${More}>`}`;
}

/** What the receiver answered. */
function Answered({ attempt }) {
  if (attempt.status === null) return html`<p class="hint">There is no answer.</p>`;
  const left = attempt.answerHeadersLeftOut;
  return html`<p class="hint">The answer:</p><${Headers} of=${attempt.answerHeaders} label=${`Headers of the answer to attempt ${attempt.number}`} />
    ${left > 0 && html`<p class="hint">${left === 1 ? "One more header was" : `${left} more headers were`} not kept.</p>`}
    ${attempt.answer ? html`<${Json} value=${attempt.answer} label="answer" />` : html`<p class="hint">The answer has no body.</p>`}`;
}

function Sent({ message, changed, number, at }) {
  const verdict = useSignature(message.headers, message.body, at);
  return html`<${Headers} of=${Object.entries(message.headers)} label=${`Headers of attempt ${number}`} />
    ${verdict && html`<p class="signature ${verdict.good ? "text-good" : "refused"}">${verdict.text}</p>`}
    ${changed && html`<p class="hint">A fault changed what was sent:</p><${Json} value=${message.body} label="body that was sent" />`}`;
}
