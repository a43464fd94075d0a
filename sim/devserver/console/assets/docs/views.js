// The view of the console that does what an operation does.

/** Whether the page documents the operations that create and end sandboxes: they belong to the server. */
export const isServerPage = location.pathname === "/sandbox/v1/server/docs";

const VIEWS = {
  "charges/new": ["createCharge"],
  "charges/pay": ["createPayment"],
  charges: ["listCharges", "getChargeDetails", "listSandboxCharges", "inspectCharge", "failCharge", "settlePayment", "cancelPayment"],
  "static-charges/new": ["createStaticCharge"],
  "static-charges": [
    "listStaticCharges", "getStaticChargeDetails", "updateStaticCharge", "listStaticChargeCharges", "listSandboxStaticCharges", "inspectStaticCharge",
  ],
  requests: ["listRequests", "getRequest"],
  callbacks: ["listDeliveries", "getDelivery", "replayDelivery", "replayDeliveries"],
  "callbacks/inboxes": ["listInboxes", "getInbox", "scriptInbox"],
  "callbacks/secrets": ["getWebhookSecret", "rotateWebhookSecret"],
  "faults/service": ["listServiceFaults", "addServiceFault", "clearServiceFaults", "clearServiceFault"],
  "faults/callbacks": ["listFaults", "addFault", "clearFaults", "clearFault"],
  time: [
    "getSandbox", "reset", "getClock", "setClock", "advanceClock", "listDueEvents",
    "createSnapshot", "listSnapshots", "deleteSnapshot", "restoreSandbox", "forkSandbox",
  ],
  network: [
    "listNetworkNodes", "getNetworkNode", "drainNode", "rebalanceNode", "openChannel", "closeChannel",
    "listInterceptors", "addInterceptor", "removeInterceptor", "listAttempts",
  ],
  journal: ["getJournal"],
  search: ["search"],
};
const views = new Map(Object.entries(VIEWS).flatMap(([view, operations]) => operations.map((operation) => [operation, view])));

/** Its path below `/console/`; for an operation that no panel does, the logged requests to it. */
export const viewOf = (operation) => (isServerPage ? "sandboxes" : views.get(operation) ?? `requests?operation=${encodeURIComponent(operation)}`);
