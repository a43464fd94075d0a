// Forms that pay a request, and the payments of a charge.

import { controlDocument } from "../api.js";
import { useAction } from "../data.js";
import { grouped, instant } from "../format.js";
import { Code, Field, filled, numbers, Outcome, Pill } from "../parts.js";
import { html, useEffect, useState } from "../ui.js";

const amountOf = ({ amount }) => (amount === null ? "amount unknown" : `${grouped(amount)} msat`);

/** What became of a payment, in one sentence. */
export const paymentSaid = (payment) => `Payment ${payment.status.replace("_", " ")}: ${payment.reason ?? amountOf(payment)}`;

/** The outcomes that the control plane offers for a payment. */
function useOutcomes() {
  const [outcomes, setOutcomes] = useState(["settle"]);
  useEffect(() => {
    controlDocument().then((document) => setOutcomes(document.components.schemas.PaymentOrder.properties.outcome.enum), () => {});
  }, []);
  return outcomes;
}

/** A form that pays: `request` is what is paid; without one the form has a field for it. `least` is the hint for the amount. */
export function PayForm({ request, least, comment = false }) {
  const action = useAction();
  const outcomes = useOutcomes();
  const problem = action.result?.problem;
  const submit = (event) => {
    event.preventDefault();
    const fields = numbers(filled(event.target), "delay");
    if (fields.delay === 0) delete fields.delay;
    action.run("POST", "/sandbox/v1/payments", { body: { ...(request && { request }), ...fields }, notice: paymentSaid });
  };
  return html`<form class="form pay" id=${request ? "pay" : "pay-request"} onSubmit=${submit}>
    ${!request && html`<${Field} wide label="Invoice, LNURL or Lightning address" name="request" required problem=${problem} />`}
    <${Field} label="Outcome" name="outcome" problem=${problem}>${outcomes.map((name) => html`<option key=${name} value=${name}>${name.replaceAll("_", " ")}</option>`)}</${Field}>
    <${Field} label="Amount, msat" name="amount" inputmode="numeric" placeholder=${least ?? "of the invoice"} problem=${problem} />
    <${Field} label="Delay, seconds" name="delay" inputmode="numeric" placeholder="0" problem=${problem} />
    ${comment && html`<${Field} label="Comment" name="comment" problem=${problem} />`}
    <div class="field"><button class="first" disabled=${action.busy}>Pay</button></div>
    <${Outcome} of=${action} />
  </form>`;
}

/** Payments of simulated payers; a held one can be settled or cancelled. */
export function Payments({ payments }) {
  const action = useAction();
  if (!payments.length) return html`<p class="hint">None yet.</p>`;
  const end = (payment, verb, notice) => action.run("POST", `/sandbox/v1/payments/${payment.id}/${verb}`, { notice });
  return html`<ul class="plain cards" id="payments">${payments.map((payment) => html`<li key=${payment.id}>
      <div class="row"><${Pill} status=${payment.status} /><strong class="amount">${amountOf(payment)}</strong><time class="hint">${instant(payment.createdAt)}</time>
      ${payment.status === "held" && html`<span class="far row"><button type="button" onClick=${() => end(payment, "settle", "The held payment is settled.")}>Settle</button>
        <button type="button" onClick=${() => end(payment, "cancel", "The held payment is cancelled.")}>Cancel</button></span>`}</div>
      ${payment.reason && html`<p class="hint">${payment.reason}</p>`}
      ${payment.preimage && html`<p class="hint">preimage <${Code} text=${payment.preimage} /></p>`}
    </li>`)}</ul><${Outcome} of=${action} />`;
}
