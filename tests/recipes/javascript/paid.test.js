import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { createSandbox } from "./leyden.js";
import { createCharge, startReceiver } from "./shop.js";

let sandbox, receiver;

before(async () => {
  sandbox = await createSandbox({ name: "paid", seed: 7 });
  receiver = await startReceiver(sandbox.webhookSecret);
});

after(async () => {
  await receiver.close();
  await sandbox.delete();
});

test("the receiver gets one genuine callback for each paid charge", async () => {
  for (let number = 1; number <= 5; number += 1) {
    const order = { amount: "250000", description: `paid ${number}`, callbackUrl: receiver.url };
    const charge = await createCharge(sandbox, order);
    const payment = await sandbox.pay(charge);
    assert.equal(payment.status, "succeeded");
    await sandbox.advance("1s");
  }
  assert.equal(receiver.rejected, 0);
  const received = [...receiver.orders.values()];
  assert.deepEqual(received.map((charge) => charge.status), Array(5).fill("completed"));
  assert.deepEqual(received.map((charge) => charge.description), received.map((_, place) => `paid ${place + 1}`));
});

test("the sandbox has only the charges of this file", async () => {
  const { data } = await sandbox.ask("GET", "/v0/charges?limit=100");
  assert.equal(data.length, 5);
  assert.ok(data.every((charge) => charge.description.startsWith("paid ")));
});
