// The sandbox's time between two responses: it goes on with the rate of its clock.

import { html, store, useEffect, useState, useStore } from "./ui.js";

/** `{nowMs, rate, readAt}`: the sandbox's time when it was read, and the page's time then; null before the first response. */
export const reading = store(null);

/** The clock was read: `now` as in a response of the server. */
export const readClock = (now, rate) => reading.set({ nowMs: Date.parse(now), rate, readAt: performance.now() });

/** The sandbox's time in milliseconds, or null; the component is rendered again each second while the clock runs. */
export function useNow() {
  const clock = useStore(reading);
  const [, tick] = useState(0);
  const running = clock !== null && clock.rate > 0;
  useEffect(() => {
    if (!running) return undefined;
    const timer = setInterval(() => tick((count) => count + 1), 1_000);
    return () => clearInterval(timer);
  }, [running]);
  return clock === null ? null : clock.nowMs + (performance.now() - clock.readAt) * clock.rate;
}

/** A time of the sandbox in the past or the future, as written by `write(milliseconds from now)`. */
export function Until({ at, write }) {
  const now = useNow();
  return html`<span>${now === null ? "" : write(Date.parse(at) - now)}</span>`;
}
