// A request of the log as something to send: with curl, in a test, from this page.

import { curl, keyHeader } from "./api.js";

const OWN = new Set(["apikey", keyHeader("/"), "host", "content-length", "connection", "user-agent", "accept-encoding", "leyden-client", "origin", "referer", "cookie"]);
const MASK = /\((\S{1,8}\.\.\., )?\d+ characters\)/; // what the log shows of a key
const isBrowsers = (header) => header.startsWith("sec-") || header.startsWith("accept-language");

/** The headers that belong to the request and not to its connection, its client or its key. */
export const repeatedHeaders = (logged) => Object.fromEntries(logged.request.headers.filter(([header]) => !OWN.has(header) && !isBrowsers(header)));

/** Whether the log has all that is needed to send the request again. */
export function isRepeatable({ path, request }) {
  const masked = [path, request.body, ...request.headers.filter(([header]) => !OWN.has(header)).map(([, value]) => value)];
  return !request.truncated && !masked.some((text) => MASK.test(text));
}

/** The request as a command for a shell, with the key of this page. */
export const asCurl = (logged) => curl(logged.method, logged.path, { text: logged.request.body || undefined, headers: repeatedHeaders(logged) });

const ESCAPES = { "\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t" };
const escaped = (mark) => ESCAPES[mark] ?? `\\x${mark.charCodeAt(0).toString(16).padStart(2, "0")}`;
/** A text as a Python literal. */
const literal = (text) => `"${text.replace(/[\\"\u0000-\u001f\u007f]/g, escaped)}"`;

/** The request as a test of pytest that expects the status which the client got. */
export function asPytest(logged) {
  const headers = Object.entries(repeatedHeaders(logged)).map(([header, value]) => `, ${literal(header)}: ${literal(value)}`).join("");
  const lines = [
    "import httpx2", "", "", `def test_${(logged.operation ?? "request").replace(/[A-Z]/g, (mark) => `_${mark.toLowerCase()}`)}(leyden_server):`,
    `    headers = {${literal(keyHeader(logged.path))}: leyden_server.api_key${headers}}`,
    ...(logged.request.body ? [`    body = ${literal(logged.request.body)}`] : []),
    `    answer = httpx2.request(${literal(logged.method)}, leyden_server + ${literal(logged.path)}, headers=headers${logged.request.body ? ", content=body" : ""})`,
    logged.status === null ? "    assert answer.status_code < 500  # the logged request got no response" : `    assert answer.status_code == ${logged.status}, answer.text`,
  ];
  return `${lines.join("\n")}\n`;
}
