import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { createSandbox } from "./leyden.js";
import { createCharge, startReceiver } from "./shop.js";

let sandbox, receiver;

before(async () => {
  sandbox = await createSandbox({ name: "expired", seed: 7 });
  receiver = await startReceiver(sandbox.webhookSecret);
});

after(async () => {
  await receiver.close();
  await sandbox.delete();
});

test("an unpaid charge expires, and a later payment fails", async () => {
  const order = { amount: "250000", description: "expired 1", expiresIn: 60, callbackUrl: receiver.url };
  const charge = await createCharge(sandbox, order);
  await sandbox.advance("60s");
  const payment = await sandbox.pay(charge);
  assert.equal(payment.status, "failed");
  assert.deepEqual([...receiver.orders.values()].map((order) => order.status), ["expired"]);
  assert.equal(receiver.rejected, 0);
});

test("the sandbox has only the charges of this file", async () => {
  const { data } = await sandbox.ask("GET", "/v0/charges?limit=100");
  assert.deepEqual(data.map((charge) => [charge.description, charge.status]), [["expired 1", "expired"]]);
});
