// The signature of a callback, verified in the page as a receiver does it (Standard Webhooks, "Verifying webhook authenticity").

import { useResource } from "./data.js";
import { useEffect, useState } from "./ui.js";

const bytes = (base64) => Uint8Array.from(atob(base64), (mark) => mark.charCodeAt(0));

async function signed(secret, message) {
  const key = await crypto.subtle.importKey("raw", bytes(secret.replace(/^whsec_/, "")), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  const digest = new Uint8Array(await crypto.subtle.sign("HMAC", key, new TextEncoder().encode(message)));
  return `v1,${btoa(String.fromCharCode(...digest))}`;
}

async function verdictOn(headers, body, now, then) {
  const named = Object.fromEntries(Object.entries(headers).map(([header, value]) => [header.toLowerCase(), value]));
  const [id, timestamp, signatures] = ["webhook-id", "webhook-timestamp", "webhook-signature"].map((header) => named[header]);
  if (id === undefined || timestamp === undefined || signatures === undefined) return { good: false, text: "a header of the signature is missing" };
  for (const secret of new Set([...now, ...then])) {
    if (!signatures.split(" ").includes(await signed(secret, `${id}.${timestamp}.${body}`))) continue;
    if (secret === now[0]) return { good: true, text: "the signature is that of the current secret" };
    return { good: true, text: `the signature is that of a former secret, which ${now.includes(secret) ? "signs too" : "signed at that time"}` };
  }
  return { good: false, text: "the signature is of no secret that signed at that time" };
}

const texts = (resource) => resource.data?.secrets.map((one) => one.secret);

/** Whether a secret that signed at the time `at` made the signature: `{good, text}`, or null while that is unknown. */
export function useSignature(headers, body, at) {
  const path = headers && body !== undefined ? "/sandbox/v1/webhook-secret" : null;
  const now = texts(useResource(path));
  const then = texts(useResource(path && `${path}?at=${at}`));
  const [verdict, setVerdict] = useState(null);
  const known = JSON.stringify([headers, body, now, then]);
  useEffect(() => {
    setVerdict(null);
    if (!headers || !now || !then || globalThis.crypto?.subtle === undefined) return undefined; // a page without TLS beyond this machine has no `subtle`
    let current = true;
    verdictOn(headers, body, now, then).then((one) => { if (current) setVerdict(one); });
    return () => { current = false; };
  }, [known]);
  return verdict;
}
