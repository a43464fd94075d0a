"use strict";
// The console sends the requests that any client can send, and shows the responses. Its only state: the key, the selected
// charge and the number of charges shown.

const PORTION = 25;
const OUTCOMES = ["settle", "hold", "wrong_secret", "underpay", "overpay", "overpay_double", "fail"];
const ANSWERS = [["200", 200], ["500", 500], ["410 Gone", 410], ["timeout", "timeout"]];

const the = (id) => document.getElementById(id);
const key = the("key");
const own = { selected: null, shown: PORTION, drawn: new Map(), refreshing: false, again: false };

/** Create an element with properties and children. Strings become text nodes and are never parsed as HTML. */
function make(name, properties, ...children) {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...children.flat().filter((child) => child !== null));
  return node;
}

class Refusal extends Error {
  constructor(status, problem) {
    const faults = (problem.errors ?? []).map((fault) => `${fault.pointer} ${fault.detail}`.trim());
    super(faults.length ? faults.join("; ") : problem.detail);
    this.status = status;
  }
}

async function ask(method, path, body) {
  const headers = { apikey: key.value };
  if (body !== undefined) headers["content-type"] = "application/json";
  let response;
  try {
    response = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch {
    throw new Refusal(0, { detail: "the server does not answer: is it still running?" });
  }
  const answer = await response.json();
  if (!response.ok) throw new Refusal(response.status, answer);
  return answer;
}

// Actions

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

function command(method, path, body) {
  const plain = body === undefined ? "GET" : "POST";
  const verb = method === plain ? "" : `-X ${method} `;
  const lines = [`curl -s ${verb}${quoted(location.origin + path)}`, `-H ${quoted(`apikey: ${key.value}`)}`];
  if (body !== undefined) lines.push(`-H 'content-type: application/json'`, `-d ${quoted(JSON.stringify(body))}`);
  return lines.join(" \\\n  ");
}

function showResult(text, refused) {
  const verdict = the("verdict");
  verdict.textContent = text;
  verdict.className = refused ? "refused" : "";
}

/** Send one request for the user, show it as a command with its result, and refresh the page. `what` describes the response. */
async function act(method, path, body, what) {
  the("curl").textContent = command(method, path, body);
  the("curl").hidden = the("copy").hidden = false;
  let answer = null;
  try {
    answer = await ask(method, path, body);
    showResult(typeof what === "string" ? `${what}.` : what(answer), false);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    showResult(error.message, true);
    if (error.status === 401) key.focus();
    return null;
  }
  await refresh();
  return answer;
}

async function pay(charge, outcome) {
  const payment = await act("POST", "/sandbox/v1/payments", { request: charge.invoice.request, outcome }, `Payment: ${outcome}`);
  if (payment !== null) await select(charge.id);
}

/** Show the detail of a charge, and scroll to it unless all of it is visible. */
async function select(id) {
  own.selected = id;
  await refresh();
  const box = the("detail").getBoundingClientRect();
  if (box.top < document.querySelector("header").getBoundingClientRect().bottom || box.bottom > innerHeight) {
    the("detail").scrollIntoView();
  }
}

function leave() {
  own.selected = null;
  own.drawn.delete("detail");
  the("detail").hidden = true;
}

/** Remove all data of a project: nothing of it stays under another key. */
function clear() {
  leave();
  own.drawn.clear();
  the("now").textContent = "unknown time";
  the("balance").textContent = "0";
  the("count").textContent = "";
  the("charges").tBodies[0].replaceChildren();
  the("inboxes").replaceChildren();
  for (const part of ["none", "more", "ignored"]) the(part).hidden = true;
}

// Views

const grouped = (digits) => String(digits).replace(/\B(?=(\d{3})+$)/g, " ");
const instant = (iso) => iso.replace("T", " ").replace(".000Z", "").replace("Z", "");
const pill = (status) => make("span", { className: `pill ${status}` }, status);
const button = (label, onclick, className = "") => make("button", { type: "button", onclick, className }, label);

function left(charge, now) {
  if (charge.status !== "pending") return "";
  const seconds = Math.ceil((Date.parse(charge.expiresAt) - Date.parse(now)) / 1000);
  if (seconds < 120) return `in ${seconds} s`;
  return seconds < 7200 ? `in ${Math.round(seconds / 60)} min` : `in ${Math.round(seconds / 3600)} h`;
}

function chargeRow(charge, now) {
  const name = button(charge.description || "(no description)", () => select(charge.id), "link");
  const actions = charge.status === "pending" ? button("Pay", () => pay(charge, "settle")) : "";
  const cells = [
    make("time", {}, instant(charge.createdAt)), name, grouped(charge.amount), pill(charge.status), left(charge, now), actions,
  ];
  const row = make("tr", { className: charge.id === own.selected ? "chosen" : "" }, cells.map((cell) => make("td", {}, cell)));
  row.children[2].className = "number";
  return row;
}

function attemptLine(attempt) {
  const came = attempt.status ?? attempt.error ?? "in flight";
  const note = attempt.note ? ` (${attempt.note})` : "";
  return make("li", {}, make("time", {}, instant(attempt.at)), ` attempt ${attempt.number}: ${came}${note}`);
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function deliveryBox(delivery) {
  const again = () => act("POST", `/sandbox/v1/deliveries/${delivery.id}/replay`, undefined, "Sent again");
  const due = delivery.dueAt === null ? null : make("span", { className: "hint" }, `next attempt at ${instant(delivery.dueAt)}`);
  return make("div", {},
    make("div", { className: "row" }, make("strong", {}, delivery.event), pill(delivery.status), delivery.url, due, button("Send again", again)),
    make("ol", { className: "attempts" }, delivery.attempts.map(attemptLine)),
    make("details", {}, make("summary", {}, "request body"), make("pre", {}, pretty(delivery.body))));
}

function paymentLine(payment) {
  const held = payment.status === "held";
  const end = (verb, what) => () => act("POST", `/sandbox/v1/payments/${payment.id}/${verb}`, undefined, what);
  return make("div", { className: "row" }, pill(payment.status), `${grouped(payment.amount)} msat`,
    payment.reason === null ? null : make("span", { className: "hint" }, payment.reason),
    held ? button("Settle", end("settle", "The held payment is settled")) : null,
    held ? button("Cancel", end("cancel", "The held payment is cancelled")) : null);
}

function payForm(charge) {
  const outcome = make("select", { ariaLabel: "outcome of the payment" }, OUTCOMES.map((name) => make("option", {}, name)));
  const lose = () => act("POST", `/sandbox/v1/charges/${charge.id}/fail`, { reason: "lost from the console" }, "The invoice is lost");
  return make("div", { className: "row" }, "Pay with outcome", outcome, button("Pay", () => pay(charge, outcome.value)), button("Lose the invoice", lose));
}

function drawDetail(charge, payments, deliveries) {
  const facts = [
    ["id", charge.id], ["created", instant(charge.createdAt)], ["expires", instant(charge.expiresAt)],
    ["confirmed", charge.confirmedAt === null ? null : instant(charge.confirmedAt)], ["internalId", charge.internalId],
    ["staticChargeId", charge.staticChargeId], ["callbackUrl", charge.callbackUrl], ["invoice", charge.invoice.request],
  ].filter(([, value]) => value !== null);
  const none = (text) => [make("p", { className: "hint" }, text)];
  the("detail").replaceChildren(
    make("div", { className: "row" }, make("h2", {}, charge.description || "(no description)"), `${grouped(charge.amount)} msat`, pill(charge.status)),
    make("dl", {}, facts.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)])),
    make("h3", {}, "Payments"),
    ...(charge.status === "pending" ? [payForm(charge)] : []),
    ...(payments.length ? payments.map(paymentLine) : none("None yet.")),
    make("h3", {}, "Callbacks"),
    ...(deliveries.length ? deliveries.map(deliveryBox)
      : none(charge.callbackUrl === null ? "This charge has no callback URL." : "None yet: one is sent when the charge reaches a final state.")));
  the("detail").hidden = false;
}

function inboxBox(inbox) {
  const says = make("select", { ariaLabel: `what ${inbox.name} answers from now on` },
    make("option", { value: "" }, "answers…"), ANSWERS.map(([label], place) => make("option", { value: place }, label)));
  says.onchange = () => {
    const [label, always] = ANSWERS[Number(says.value)];
    return act("PUT", `/sandbox/v1/inboxes/${inbox.name}/script`, { always }, `${inbox.name} answers ${label} from now on`);
  };
  const objections = inbox.objections ? make("span", { className: "refused" }, `${inbox.objections} with objections`) : null;
  return make("div", { className: "row" }, make("strong", {}, inbox.name), `${inbox.received} received`, objections, says);
}

function drawRate(rate) {
  const known = [...the("rate").options].some((option) => option.value === rate);
  if (!known) the("rate").append(make("option", { value: rate }, `${rate} times real time`));
  the("rate").value = rate;
}

/** Draw a part again only if its data has changed: this keeps a selection or an open menu in it. */
function draw(part, facts, how) {
  const now = JSON.stringify(facts);
  if (own.drawn.get(part) === now) return;
  own.drawn.set(part, now);
  how();
}

async function charges() {
  const found = [];
  let after = "";
  do {
    const page = await ask("GET", `/v0/charges?limit=${Math.min(100, own.shown - found.length)}${after}`);
    found.push(...page.data);
    after = page.next === null ? "" : `&after=${encodeURIComponent(page.next)}`;
  } while (after && found.length < own.shown);
  return { found, more: after !== "" };
}

async function detail() {
  if (own.selected === null) return;
  const [charge, payments, deliveries] = await Promise.all([
    ask("GET", `/v0/charges/${own.selected}`), ask("GET", `/sandbox/v1/payments?chargeId=${own.selected}`),
    ask("GET", `/sandbox/v1/deliveries?chargeId=${own.selected}&bodies=true`),
  ]);
  const facts = [charge.data, payments.data.reverse(), deliveries.data];
  draw("detail", facts, () => drawDetail(...facts));
}

async function refreshOnce() {
  if (key.value === "") throw new Refusal(401, { detail: "Enter the API key of your project." });
  const [world, listed, wallet, inboxes] = await Promise.all([
    ask("GET", "/sandbox/v1"), charges(), ask("GET", "/v0/wallet"), ask("GET", "/sandbox/v1/inboxes"),
  ]);
  the("now").textContent = instant(world.now);
  draw("rate", world.rate, () => drawRate(String(world.rate)));
  the("balance").textContent = grouped(wallet.data.balance);
  the("count").textContent = Object.entries(world.charges).map(([status, count]) => `${grouped(count)} ${status}`).join(", ");
  const { found, more } = listed;
  draw("charges", [found, found.map((charge) => left(charge, world.now)), own.selected], () => {
    the("charges").tBodies[0].replaceChildren(...found.map((charge) => chargeRow(charge, world.now)));
  });
  the("none").hidden = found.length > 0;
  the("more").hidden = !more;
  draw("inboxes", inboxes.data, () => the("inboxes").replaceChildren(...inboxes.data.map(inboxBox)));
  draw("ignored", world.ignoredFields, () => {
    the("ignored").querySelector("ul").replaceChildren(...world.ignoredFields.map((text) => make("li", {}, text)));
    the("ignored").hidden = world.ignoredFields.length === 0;
  });
  await detail();
  return world;
}

/** Refresh the page. A refresh that is requested meanwhile follows. */
async function refresh() {
  own.again = own.refreshing;
  if (own.refreshing) return;
  own.refreshing = true;
  try {
    do {
      own.again = false;
      await refreshOnce().catch(showFailure);
    } while (own.again);
  } finally {
    own.refreshing = false;
  }
}

function showFailure(error) {
  if (!(error instanceof Refusal)) throw error;
  if (error.status === 401) clear();
  the("now").textContent = "unknown time";
  if (error.status === 404) leave(); // the sandbox was reset and has no such charge
  else showResult(error.message, true);
}

// Event handlers

the("charge").onsubmit = async (event) => {
  event.preventDefault();
  const fields = Object.fromEntries(new FormData(event.target));
  const body = { amount: fields.amount, description: fields.description };
  if (fields.expiresIn) body.expiresIn = Number(fields.expiresIn);
  if (fields.callbackUrl) body.callbackUrl = fields.callbackUrl;
  const answer = await act("POST", "/v0/charges", body, "Charge created");
  if (answer !== null) await select(answer.data.id);
};
the("pay").onsubmit = async (event) => {
  event.preventDefault();
  const fields = Object.fromEntries(new FormData(event.target));
  const body = { request: fields.request };
  if (fields.amount) body.amount = fields.amount;
  await act("POST", "/sandbox/v1/payments", body, (payment) => `Payment ${payment.status}: ${payment.reason ?? `${grouped(payment.amount)} msat`}`);
};
the("moves").onclick = (event) => {
  const move = event.target.dataset.move;
  if (move) act("POST", "/sandbox/v1/clock/advance", JSON.parse(move), `Time moved: ${event.target.textContent}`);
};
the("rate").onchange = async () => {
  await act("PATCH", "/sandbox/v1/clock", { rate: Number(the("rate").value) }, "The clock's rate is set");
  own.drawn.delete("rate"); // shows the present rate if the change was refused
  await refresh();
};
the("more").onclick = () => { own.shown += PORTION; return refresh(); };
the("copy").onclick = () => navigator.clipboard.writeText(the("curl").textContent);
key.onchange = () => {
  sessionStorage.setItem("key", key.value);
  clear();
  showResult("", false);
  return refresh();
};
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
window.addEventListener("focus", () => refresh());
setInterval(() => { if (the("follow").checked && !document.hidden) refresh(); }, 1000);

key.value = sessionStorage.getItem("key") ?? key.defaultValue;
refresh();
