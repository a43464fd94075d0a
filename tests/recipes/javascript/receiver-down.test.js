import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { createSandbox } from "./leyden.js";
import { createCharge, startReceiver } from "./shop.js";

let sandbox, receiver;

before(async () => {
  sandbox = await createSandbox({ name: "receiver-down", seed: 7 });
  receiver = await startReceiver(sandbox.webhookSecret);
});

after(async () => {
  await receiver.close();
  await sandbox.delete();
});

test("a callback is sent again until the receiver accepts it", async () => {
  receiver.unavailable = 1;
  const order = { amount: "250000", description: "receiver down 1", callbackUrl: receiver.url };
  await sandbox.pay(await createCharge(sandbox, order));
  await sandbox.advance("10s");
  const { data } = await sandbox.ask("GET", "/sandbox/v1/deliveries");
  assert.deepEqual(data.map((delivery) => delivery.attempts.map((attempt) => attempt.status)), [[503, 204]]);
  assert.deepEqual([...receiver.orders.values()].map((order) => order.description), ["receiver down 1"]);
});

test("a callback with a changed body is refused", async () => {
  await sandbox.ask("POST", "/sandbox/v1/faults", { kind: "changed_body" });
  const order = { amount: "250000", description: "receiver down 2", callbackUrl: receiver.url };
  await sandbox.pay(await createCharge(sandbox, order));
  await sandbox.advance("1s");
  assert.equal(receiver.rejected, 1);
  assert.equal(receiver.orders.size, 1);
});
