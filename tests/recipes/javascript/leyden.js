// A sandbox of its own for each test file, on a server that `leyden serve` runs. Copy this file.
//
// LEYDEN_URL is the URL of the server. LEYDEN_ADMIN_TOKEN is its admin token, if it has one.
const SERVER = process.env.LEYDEN_URL ?? "http://127.0.0.1:8402";
const TOKEN = process.env.LEYDEN_ADMIN_TOKEN;
const AUTHORIZATION = TOKEN ? { authorization: `Bearer ${TOKEN}` } : {};
const SANDBOXES = `${SERVER}/sandbox/v1/sandboxes`;

// A sandbox with a paused clock. One that is never deleted ends ten minutes after its last request.
export async function createSandbox(options = {}) {
  return new Sandbox(await request("POST", SANDBOXES, { rate: 0, ttl: "10m", ...options }, AUTHORIZATION));
}

class Sandbox {
  constructor(resource) {
    this.id = resource.id;
    // The base URL for the client under test. The server may know itself by another name than this machine does.
    this.url = resource.url.replace(resource.serverUrl, SERVER);
    this.apiKey = resource.apiKey;
    this.webhookSecret = resource.webhookSecret;
  }

  // Any operation of the service (/v0/...) and of the control plane (/sandbox/v1/...).
  ask(method, path, body) {
    return request(method, this.url + path, body, { apikey: this.apiKey });
  }

  // Pay an invoice as a wallet would.
  pay(charge, options = {}) {
    return this.ask("POST", "/sandbox/v1/payments", { request: charge.invoice.request, ...options });
  }

  // Move the clock. What becomes due happens before the answer, callbacks included.
  advance(by) {
    return this.ask("POST", "/sandbox/v1/clock/advance", { by });
  }

  // Let a request of the client fail. /sandbox/v1/docs lists the kinds.
  addServiceFault(fault) {
    return this.ask("POST", "/sandbox/v1/service-faults", fault);
  }

  delete() {
    return request("DELETE", `${SANDBOXES}/${this.id}`, undefined, AUTHORIZATION);
  }
}

async function request(method, url, body, headers) {
  const sent = body === undefined ? undefined : JSON.stringify(body);
  const type = sent === undefined ? {} : { "content-type": "application/json" };
  const response = await fetch(url, { method, headers: { ...headers, ...type }, body: sent });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${url}: ${response.status} ${text}`);
  return text === "" ? null : JSON.parse(text);
}
