// Values as text: amounts, times, spans, JSON.

/** Digits in groups of three, with narrow no-break spaces. */
export const grouped = (digits) => String(digits).replace(/\B(?=(\d{3})+$)/g, "\u202f");

/** An amount in millisatoshis, also in satoshis where that is a whole number. */
export function satoshis(msat) {
  const text = String(msat);
  return text.length > 3 && text.endsWith("000") ? `${grouped(text.slice(0, -3))} sat` : "";
}

/** A time of the sandbox: `2030-01-01 09:00:00`, with milliseconds if there are any. */
export const instant = (iso) => iso.replace("T", " ").replace(".000Z", "").replace("Z", "");

/** Milliseconds as a short span: `45 s`, `9 min`, `3 h`, `2 days`. */
export function span(ms) {
  const seconds = Math.ceil(ms / 1_000);
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.round(seconds / 3_600)} h` : `${Math.round(seconds / 86_400)} days`;
}

/** Microseconds as milliseconds: `0.4 ms`, `12 ms`. */
export const milliseconds = (us) => `${us < 10_000 ? (us / 1_000).toFixed(1) : grouped(Math.round(us / 1_000))} ms`;

/** Milliseconds as a countdown: `9:59`, `1:02:03`. */
export function countdown(ms) {
  const seconds = Math.max(0, Math.ceil(ms / 1_000));
  const two = (number) => String(number).padStart(2, "0");
  const [hours, minutes] = [Math.floor(seconds / 3_600), Math.floor(seconds / 60) % 60];
  return hours ? `${hours}:${two(minutes)}:${two(seconds % 60)}` : `${minutes}:${two(seconds % 60)}`;
}

/** JSON text with indents; any other text as it is. */
export function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
