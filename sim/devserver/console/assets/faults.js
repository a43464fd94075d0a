// The kinds of faults: where they are listed and added, and how one is described in a line.

const joined = (...parts) => parts.filter((part) => part !== null && part !== undefined && part !== "" && part !== false).join(", ");
const words = (kind) => kind.replaceAll("_", " ");

/** `name`, `title`, `hint`, the list's `path`, the `schema` of a new one with its `lead` fields, and `words(fault)`. `clears`: DELETE ends all. */
export const faultKinds = [
  {
    name: "service", title: "of the service", path: "/sandbox/v1/service-faults", schema: "ServiceFaultCreate", clears: true,
    lead: ["kind", "operation", "status", "count", "probability"],
    hint: "What the service answers to your client goes wrong: errors, lost answers, slow and damaged responses.",
    words: (fault) => joined(words(fault.kind), fault.status, fault.operation ?? [fault.method, fault.path].filter(Boolean).join(" "), fault.probability < 1 && `${100 * fault.probability} %`),
  },
  {
    name: "callbacks", title: "of callbacks", path: "/sandbox/v1/faults", schema: "FaultCreate", clears: true,
    lead: ["kind", "event", "chargeId", "count", "delay"],
    hint: "A callback is dropped, delayed, sent twice, or changed before your receiver gets it.",
    words: (fault) => joined(words(fault.kind), fault.event ?? fault.operation, fault.chargeId, fault.attempt && `attempt ${fault.attempt}`),
  },
  {
    name: "network", title: "of the network", path: "/sandbox/v1/network/interceptors", schema: "InterceptorOrder", clears: false,
    lead: ["kind", "node", "hop", "delay", "times"],
    hint: "Nodes of the simulated network delay, fail or drop the HTLCs of payments.",
    words: (one) => joined(words(one.kind), one.node, one.channel && `channel ${one.channel}`, one.hop !== null && one.hop !== undefined && `hop ${one.hop}`, one.payment),
  },
];

/** Whether the fault can apply again. */
export const isActive = (fault) => {
  const [most, used] = [fault.count ?? fault.times ?? null, fault.used ?? fault.hits ?? fault.acted ?? 0];
  return most === null || used < most;
};
