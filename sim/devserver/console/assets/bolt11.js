// Reads a BOLT11 invoice: its amount, its time and its tagged fields. The signature is not checked.

const ALPHABET = "qpzry9x8gf2tvdw0s3jn54khce6mua7l";
const TAGS = {
  1: ["payment hash", "hex"], 3: ["route hint", "route"], 5: ["features", "bits"], 6: ["expiry", "seconds"], 9: ["fallback address", "hex"],
  13: ["description", "text"], 16: ["payment secret", "hex"], 19: ["payee", "hex"], 23: ["description hash", "hex"], 24: ["final CLTV delta", "number"],
  27: ["metadata", "hex"],
};
const PICO_MSAT = { "": 100_000_000_000n * 10n, m: 1_000_000_000n, u: 1_000_000n, n: 1_000n, p: 1n };
const SIGNATURE_WORDS = 104;
const CHECKSUM_WORDS = 6;

const number = (words) => words.reduce((total, word) => total * 32n + BigInt(word), 0n);

function bytes(words) {
  const out = [];
  let [held, bits] = [0, 0];
  for (const word of words) {
    held = (held << 5) | word;
    bits += 5;
    if (bits >= 8) {
      bits -= 8;
      out.push((held >> bits) & 255);
      held &= (1 << bits) - 1;
    }
  }
  return Uint8Array.from(out);
}

const hex = (array) => [...array].map((byte) => byte.toString(16).padStart(2, "0")).join("");

function routeHint(array) {
  const hops = [];
  for (let start = 0; start + 51 <= array.length; start += 51) {
    const channel = BigInt(`0x${hex(array.subarray(start + 33, start + 41))}`);
    const scid = `${channel >> 40n}x${(channel >> 16n) & 0xffffffn}x${channel & 0xffffn}`;
    hops.push(`${hex(array.subarray(start, start + 33))} over ${scid}`);
  }
  return hops.join(", ");
}

function featureBits(words) {
  const value = number(words);
  return Array.from({ length: words.length * 5 }, (_, bit) => bit).filter((bit) => (value >> BigInt(bit)) & 1n).join(", ");
}

const READERS = {
  hex: (words) => hex(bytes(words)),
  text: (words) => new TextDecoder().decode(bytes(words)),
  seconds: (words) => `${number(words)} s`,
  number: (words) => String(number(words)),
  bits: featureBits,
  route: (words) => routeHint(bytes(words)),
};

/** The fields of an invoice as `[name, value]`, or null if the text is none. */
export function decode(invoice) {
  const text = invoice.toLowerCase().replace(/^lightning:/, "");
  const end = text.lastIndexOf("1");
  const prefix = /^ln(bcrt|bc|tbs|tb)(?:(\d+)([munp]?))?$/.exec(text.slice(0, end));
  const words = [...text.slice(end + 1)].map((letter) => ALPHABET.indexOf(letter));
  if (!prefix || words.includes(-1) || words.length < 7 + SIGNATURE_WORDS + CHECKSUM_WORDS) return null;
  const [, network, digits, unit] = prefix;
  const amount = digits === undefined ? "any" : `${(BigInt(digits) * PICO_MSAT[unit]) / 10n} msat`;
  const createdAt = new Date(Number(number(words.slice(0, 7))) * 1_000).toISOString();
  const fields = [["network", network], ["amount", amount], ["created", createdAt]];
  const data = words.slice(7, -SIGNATURE_WORDS - CHECKSUM_WORDS);
  for (let start = 0; start + 3 <= data.length;) {
    const length = data[start + 1] * 32 + data[start + 2];
    const [name, kind] = TAGS[data[start]] ?? [`tag ${ALPHABET[data[start]]}`, "hex"];
    fields.push([name, READERS[kind](data.slice(start + 3, start + 3 + length))]);
    start += 3 + length;
  }
  return fields;
}
