// The program under test, as an example: a client of the charge service, and a receiver of its callbacks. Your own
// program is here instead.
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { setTimeout as pause } from "node:timers/promises";
import { Webhook } from "standardwebhooks";

const ATTEMPTS = 4;
const TIMEOUT_MS = 5_000;
const HOST = process.env.RECEIVER_HOST ?? "127.0.0.1"; // the name by which Leyden reaches this machine

// Create a Charge. Each repetition has the same Idempotency-Key, so there is one Charge, whatever is lost.
export async function createCharge({ url, apiKey }, order) {
  const headers = { apikey: apiKey, "content-type": "application/json", "idempotency-key": randomUUID() };
  for (let attempt = 1; ; attempt += 1) {
    let wait = 50 * 2 ** attempt;
    try {
      const signal = AbortSignal.timeout(TIMEOUT_MS);
      const response = await fetch(`${url}/v0/charges`, { method: "POST", headers, body: JSON.stringify(order), signal });
      if (response.ok) return (await response.json()).data;
      if (response.status < 409) throw new Refused(`the charge is refused with ${response.status}`);
      wait = Math.max(wait, 1_000 * Number(response.headers.get("retry-after") ?? 0));
    } catch (error) {
      if (error instanceof Refused || attempt === ATTEMPTS) throw error;
    }
    if (attempt === ATTEMPTS) throw new Error(`no charge after ${ATTEMPTS} attempts`);
    await pause(wait);
  }
}

class Refused extends Error {}

// Receive callbacks. `orders` has one entry for each genuine message, however often it is sent.
export async function startReceiver(secret) {
  const webhook = new Webhook(secret);
  const receiver = { orders: new Map(), rejected: 0, unavailable: 0 };
  const server = createServer(async (incoming, outgoing) => {
    const parts = [];
    for await (const part of incoming) parts.push(part);
    let status = 204;
    if (receiver.unavailable > 0) {
      receiver.unavailable -= 1;
      status = 503;
    } else {
      try {
        const message = webhook.verify(Buffer.concat(parts).toString(), incoming.headers);
        receiver.orders.set(incoming.headers["webhook-id"], message);
      } catch {
        receiver.rejected += 1;
        status = 401;
      }
    }
    outgoing.writeHead(status).end();
  });
  await new Promise((listening) => server.listen(0, HOST, listening));
  receiver.url = `http://${HOST}:${server.address().port}/paid`;
  receiver.close = () => {
    server.closeAllConnections();
    return new Promise((closed) => server.close(closed));
  };
  return receiver;
}
