// Requests of the console, the notices that something changed, and the API key.
//
// Every request carries `Leyden-Client: console`, so that the server can tell the console from the client under test.

import { store } from "./ui.js";

/** The path of the sandbox on this server: empty, or `/sandboxes/ID`. */
export const base = /^\/sandboxes\/[^/]+/.exec(location.pathname)?.[0] ?? "";

const nameOf = (root) => `leyden key ${root}`;
const keyName = nameOf(base);
const configured = document.querySelector('meta[name="leyden-key"]').content;

export const apiKey = store(sessionStorage.getItem(keyName) ?? (base ? "" : configured));
/** Why the key was refused; empty while it is accepted. The page asks for another key. */
export const refusedKey = store(apiKey.get() === "" ? "Enter the API key of your project." : "");

/** Use another key from now on. All that the page shows is loaded again. */
export function useKey(key) {
  sessionStorage.setItem(keyName, key);
  refusedKey.set(key === "" ? "Enter the API key of your project." : "");
  apiKey.set(key);
  notifyChange();
}

const tokenName = "leyden admin token";

/** The token for the operations of the server: those that create and end sandboxes. */
export const adminToken = store(sessionStorage.getItem(tokenName) ?? "");

/** Use another admin token from now on. */
export function useAdminToken(token) {
  sessionStorage.setItem(tokenName, token);
  adminToken.set(token);
}

/** Keep the key of another sandbox of this server: its console opens with it, in this tab or in one that this page opens. */
export const storeKey = (root, key) => sessionStorage.setItem(nameOf(root), key);

/** A response with an error status, as a problem document; `status` is 0 if there was no response. */
export class Problem extends Error {
  constructor(status, document) {
    const fields = Array.isArray(document.errors) ? document.errors : [];
    super(fields.map((field) => `${field.pointer} ${field.detail}`.trim()).join("; ") || document.detail || `status ${status}`);
    this.status = status;
    this.title = document.title ?? "";
    this.detail = document.detail ?? "";
    this.fields = fields;
    this.requestId = document.request_id ?? null;
  }
}

async function problemOf(response) {
  const text = await response.text().catch((error) => {
    if (error.name === "AbortError") throw error;
    return ""; // a service fault may cut the body
  });
  try {
    const document = JSON.parse(text);
    if (document !== null && typeof document === "object") return new Problem(response.status, document);
  } catch {
    // not JSON: a service fault may answer like a proxy
  }
  return new Problem(response.status, { detail: `the server answered ${response.status}: ${text.slice(0, 200) || "empty body"}` });
}

const JSON_TYPE = "application/json";
const asText = (body) => (body === undefined ? undefined : JSON.stringify(body));

// The documentation pages name the header of each operation, and have no such element.
const serviceHeader = document.querySelector('meta[name="leyden-key-header"]')?.content ?? "apikey";
/** The header of the key in a request to this path: that of the service's document, or of the control plane's. */
export const keyHeader = (path) => (/^\/sandbox\/v1(?![^/?])/.test(path) ? "apikey" : serviceHeader);
const withKey = (path) => ({ [keyHeader(path)]: apiKey.get() });

/**
 * Send one request and return its `Response`, whatever its status. Raises `Problem` if the server does not answer.
 *
 * `body` is a value that is sent as JSON, `text` a body that is sent as it is. `root` is the part of the address before `path`:
 * that of the sandbox, or "" for operations of the server. `auth` are the headers with the key, `type` is the media type of `body`.
 */
export async function send(method, path, { body, text = asText(body), headers = {}, signal, root = base, auth = withKey(path), type = JSON_TYPE } = {}) {
  const sent = { ...auth, "leyden-client": "console", ...headers };
  if (body !== undefined) sent["content-type"] = type;
  try {
    return await fetch(root + path, { method, headers: sent, signal, body: text });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, { detail: "The server does not answer. Check that it runs." });
  }
}

/** Send one request, with the options of `send`, and return the JSON of its response. Raises `Problem`; a refused key is asked for again. */
export async function request(method, path, options = {}) {
  const key = apiKey.get();
  if (key === "") throw new Problem(401, { detail: "Enter the API key of your project." });
  const response = await send(method, path, options);
  if (response.status === 401 && options.root === undefined && key === apiKey.get() && !response.headers.has("leyden-fault")) {
    const problem = await problemOf(response);
    refusedKey.set(problem.message);
    throw problem;
  }
  if (!response.ok) throw await problemOf(response);
  try {
    return response.status === 204 ? null : await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(response.status, { detail: "The body of the response is not JSON. A service fault may have changed it." });
  }
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** The same request as a command for a shell. */
export function curl(method, path, { body, text = asText(body), headers = {}, root = base, auth = withKey(path), type = JSON_TYPE } = {}) {
  const verb = method === (text === undefined ? "GET" : "POST") ? "" : `-X ${method} `;
  const lines = [`curl -s ${verb}${quoted(location.origin + root + path)}`];
  for (const [name, value] of Object.entries({ ...auth, ...headers })) lines.push(`-H ${quoted(`${name}: ${value}`)}`);
  if (body !== undefined) lines.push(`-H ${quoted(`content-type: ${type}`)}`);
  if (text !== undefined) lines.push(`--data-raw ${quoted(text)}`);
  return lines.join(" \\\n  ");
}

// The operations of the control plane. Its document says what this server can do and which values a field may have.

const documents = new Map();

function documentAt(path, root) {
  if (!documents.has(path)) {
    const loading = send("GET", path, { root }).then((response) => response.json());
    loading.catch(() => documents.delete(path));
    documents.set(path, loading);
  }
  return documents.get(path);
}

/** The OpenAPI document of the control plane, loaded once. */
export const controlDocument = () => documentAt("/sandbox/v1/openapi.json");
/** The OpenAPI document of the operations that create and end sandboxes. */
export const serverDocument = () => documentAt("/sandbox/v1/server/openapi.json", "");

/** An operation of the service, as its document has it: its path, with the value of its one variable, and the media type of its body. */
export async function serviceOperation(operationId, value = "") {
  const { paths, components } = await documentAt("/openapi.json");
  for (const [path, item] of Object.entries(paths)) {
    const found = Object.values(item).find((one) => one.operationId === operationId);
    if (found === undefined) continue;
    const name = found.requestBody?.$ref?.split("/").at(-1);
    const types = Object.keys((name === undefined ? found.requestBody : components.requestBodies[name])?.content ?? {});
    const type = types.length === 0 || types.includes(JSON_TYPE) ? JSON_TYPE : types[0];
    return { path: path.replace(/\{[^{}]+\}/, encodeURIComponent(value)), type };
  }
  throw new Problem(404, { detail: `The document of the service has no operation ${operationId}.` });
}

/** Whether the control plane has this operation. */
export async function hasOperation(method, path) {
  return (await controlDocument()).paths[path]?.[method.toLowerCase()] !== undefined;
}

// Notices of changes

const listeners = new Set();
const SHORTEST_PAUSE_MS = 250;
let notifiedAt = -SHORTEST_PAUSE_MS;
let pending = null;

/** Call the function after each change of the sandbox, at most four times a second. Returns the function that ends this. */
export function onChange(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Something changed: every view loads its data again. */
export function notifyChange() {
  if (pending !== null) return;
  pending = setTimeout(() => {
    pending = null;
    notifiedAt = performance.now();
    for (const listener of [...listeners]) listener();
  }, Math.max(0, notifiedAt + SHORTEST_PAUSE_MS - performance.now()));
}

/** How changes by others are noticed: `stream`, `connecting`, or `focus` (when the page gets the focus, and by the timer). */
export const liveness = store("connecting");
/** The number of entries of the event journal, or null until the stream has said it. */
export const journalLength = store(null);
/** How many new runs of the sandbox, such as after a reset, the stream has shown: lists are then loaded anew. */
export const newRuns = store(0);

const EVENTS = "/sandbox/v1/events";
const RETRY_MS = 2_000;

/** Follow the sandbox's event stream as long as the page is open. Without one, the page refreshes when it gets the focus. */
export async function followChanges() {
  window.addEventListener("focus", notifyChange);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) notifyChange(); });
  if (!(await hasOperation("GET", EVENTS).catch(() => false))) return liveness.set("focus");
  let lastId = "";
  let stop = new AbortController();
  let run = null;
  apiKey.subscribe(() => { lastId = ""; run = null; stop.abort(); });
  // A browser opens six connections to a server, for all tabs together: a tab that nobody sees gives its own back.
  window.addEventListener("pagehide", () => stop.abort());
  document.addEventListener("visibilitychange", () => { if (document.hidden) stop.abort(); });
  for (;;) {
    await shown();
    stop = new AbortController();
    try {
      if (refusedKey.get() === "") {
        const headers = { accept: "text/event-stream", ...(lastId && { "last-event-id": lastId }) };
        const response = await send("GET", EVENTS, { headers, signal: stop.signal });
        if (!response.ok) throw await problemOf(response);
        liveness.set("stream");
        notifyChange(); // what happened before the stream began
        for await (const event of eventsOf(response.body)) {
          lastId = event.id || lastId;
          if (event.type === "changed") {
            const state = JSON.parse(event.data);
            journalLength.set(state.journal);
            if (run !== null && run !== state.run) newRuns.set(newRuns.get() + 1);
            run = state.run;
          }
          notifyChange(); // a request that a client made, or another change
        }
      }
    } catch {
      // the server stopped, refused one more listener, or the key changed: try again
    }
    liveness.set("focus");
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}

/** Resolves as soon as the page is visible. */
function shown() {
  if (!document.hidden) return Promise.resolve();
  return new Promise((resolve) => {
    const look = () => {
      if (document.hidden) return;
      document.removeEventListener("visibilitychange", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
  });
}

async function* eventsOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (rest + value.replaceAll("\r", "")).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const event = { type: "message", id: "", data: "" };
      for (const line of block.split("\n")) {
        const [, name, text] = /^(\w*): ?(.*)$/.exec(line) ?? [];
        if (name === "event") event.type = text;
        if (name === "id") event.id = text;
        if (name === "data") event.data += text;
      }
      if (event.data) yield event;
    }
  }
}
