// A client of the charge service for Node.js, as a program: it creates a Charge and waits until it is paid. The
// argument is a mistake, or `good`.
import { randomUUID } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";

const { LEYDEN_URL, LEYDEN_API_KEY } = process.env;
const MISTAKE = process.argv[2] ?? "good";
const [ATTEMPTS, TIMEOUT_MS] = [4, 1_000];

class Refused extends Error {}
class Failed extends Error {
  constructor(why, pauseMs = 0) {
    super(why);
    this.pauseMs = pauseMs;
  }
}

async function once(method, path, body, key) {
  const headers = { apikey: LEYDEN_API_KEY, "content-type": "application/json" };
  if (key && MISTAKE !== "no key") headers["idempotency-key"] = MISTAKE === "new key" ? randomUUID() : key;
  const options = { method, headers, body: body && JSON.stringify(body) };
  if (MISTAKE !== "no timeout") options.signal = AbortSignal.timeout(TIMEOUT_MS);
  let response, text;
  try {
    response = await fetch(LEYDEN_URL + path, options);
    text = await response.text();
  } catch (error) {
    throw new Failed(String(error));
  }
  if (MISTAKE === "logs the key" && !response.ok) console.log(response.status, headers);
  if (MISTAKE === "reads HTML as JSON") JSON.parse(text);
  if ([400, 401, 403, 404].includes(response.status) && MISTAKE !== "repeats refusals") {
    throw new Refused(`HTTP ${response.status}`);
  }
  if (!response.ok) {
    const wait = MISTAKE === "ignores Retry-After" ? null : response.headers.get("retry-after");
    throw new Failed(`HTTP ${response.status}`, 1_000 * Number(wait ?? 0));
  }
  if (response.headers.get("content-type") !== "application/json") throw new Failed("another content type");
  try {
    return JSON.parse(text).data;
  } catch {
    throw new Failed("the response is no JSON");
  }
}

async function ask(method, path, body, key) {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await once(method, path, body, key);
    } catch (error) {
      if (!(error instanceof Failed) || attempt === ATTEMPTS) throw error;
      await pause(Math.max(error.pauseMs, 100 * 2 ** attempt));
    }
  }
}

async function main() {
  const charge = await ask("POST", "/v0/charges", { amount: "21000", description: "tea" }, randomUUID());
  for (let read = 0; read < 20; read += 1) {
    await pause(200);
    if ((await ask("GET", `/v0/charges/${charge.id}`)).status === "completed") return 0;
  }
  return 1;
}

try {
  process.exit(await main());
} catch (error) {
  if (!(error instanceof Refused || error instanceof Failed)) throw error;
  console.error(`the charge was not created: ${error.message}`);
  process.exit(MISTAKE === "always succeeds" ? 0 : 1);
}
