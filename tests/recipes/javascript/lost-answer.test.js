import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { createSandbox } from "./leyden.js";
import { createCharge } from "./shop.js";

let sandbox;

before(async () => {
  sandbox = await createSandbox({ name: "lost-answer", seed: 7 });
});

after(() => sandbox.delete());

test("a charge whose answer is lost is created once", async () => {
  await sandbox.addServiceFault({ kind: "connection_reset", operation: "createCharge", afterCommit: true });
  const charge = await createCharge(sandbox, { amount: "250000", description: "lost answer 1" });
  const { data } = await sandbox.ask("GET", "/v0/charges?limit=100");
  assert.deepEqual(data.map(({ id, description }) => [id, description]), [[charge.id, "lost answer 1"]]);
});

test("a refused request is not repeated", async () => {
  await sandbox.addServiceFault({ kind: "error", status: 403, operation: "createCharge", count: null });
  await assert.rejects(createCharge(sandbox, { amount: "250000", description: "lost answer 2" }), /refused with 403/);
  const { data } = await sandbox.ask("GET", "/sandbox/v1/service-faults");
  assert.deepEqual(data.map((fault) => [fault.kind, fault.hits]), [["connection_reset", 1], ["error", 1]]);
});
