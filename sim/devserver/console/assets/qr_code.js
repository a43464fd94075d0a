// QR codes.

import { html } from "./ui.js";
import { encode } from "./vendor/uqr.js";

/** A text as a QR code, dark on light. A payment request is encoded in capitals, as BOLT 11 advises: the code is smaller. */
export function QrCode({ text, label }) {
  const { size, data } = encode(/^(lightning:)?ln[a-z0-9]*$/.test(text) ? text.toUpperCase() : text, { ecc: "L", border: 4 });
  const dark = data.flatMap((row, y) => row.map((on, x) => (on ? `M${x} ${y}h1v1h-1z` : "")));
  return html`<svg class="qr" viewBox="0 0 ${size} ${size}" role="img" aria-label=${label} shape-rendering="crispEdges">
    <rect width=${size} height=${size} fill="#fff" /><path d=${dark.join("")} fill="#000" /></svg>`;
}
