// The signature of a callback, verified in the page as a receiver does it (Standard Webhooks, "Verifying webhook authenticity").

import { useResource } from "./data.js";
import { useEffect, useState } from "./ui.js";

const bytes = (base64) => Uint8Array.from(atob(base64), (mark) => mark.charCodeAt(0));

async function signed(secret, message) {
  const key = await crypto.subtle.importKey("raw", bytes(secret.replace(/^whsec_/, "")), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  const digest = new Uint8Array(await crypto.subtle.sign("HMAC", key, new TextEncoder().encode(message)));
  return `v1,${btoa(String.fromCharCode(...digest))}`;
}

async function verdictOn(headers, body, secrets) {
  const named = Object.fromEntries(Object.entries(headers).map(([header, value]) => [header.toLowerCase(), value]));
  const [id, timestamp, signatures] = ["webhook-id", "webhook-timestamp", "webhook-signature"].map((header) => named[header]);
  if (id === undefined || timestamp === undefined || signatures === undefined) return { good: false, text: "a header of the signature is missing" };
  for (const [place, { secret }] of secrets.entries()) {
    if (signatures.split(" ").includes(await signed(secret, `${id}.${timestamp}.${body}`))) {
      return { good: true, text: place === 0 ? "the signature is that of the current secret" : "the signature is that of a former secret, which signs too" };
    }
  }
  return { good: false, text: "the signature is of no secret that signs now" };
}

/** Whether one of the secrets that sign now made the signature: `{good, text}`, or null while that is unknown. */
export function useSignature(headers, body) {
  const secrets = useResource(headers && body !== undefined ? "/sandbox/v1/webhook-secret" : null).data?.secrets;
  const [verdict, setVerdict] = useState(null);
  const known = JSON.stringify([headers, body, secrets?.map((one) => one.secret)]);
  useEffect(() => {
    setVerdict(null);
    if (!headers || !secrets || globalThis.crypto?.subtle === undefined) return undefined; // a page without TLS beyond this machine has no `subtle`
    let current = true;
    verdictOn(headers, body, secrets).then((one) => { if (current) setVerdict(one); });
    return () => { current = false; };
  }, [known]);
  return verdict;
}
