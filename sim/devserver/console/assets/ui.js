// Preact with htm, under the names that the panels import, and a store: a value that components follow.

import htm from "./vendor/htm.js";
import { h } from "./vendor/preact.js";
import { useEffect, useState } from "./vendor/preact-hooks.js";

export const html = htm.bind(h);
export { Component, Fragment, createContext, render } from "./vendor/preact.js";
export { useCallback, useContext, useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "./vendor/preact-hooks.js";

/** A value and its listeners. */
export function store(value) {
  const listeners = new Set();
  return {
    get: () => value,
    set(next) {
      if (Object.is(next, value)) return;
      value = next;
      for (const listener of [...listeners]) listener(value);
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** The value of a store; the component is rendered again when it changes. */
export function useStore(source) {
  const [value, setValue] = useState(source.get());
  useEffect(() => {
    setValue(() => source.get());
    return source.subscribe((next) => setValue(() => next));
  }, [source]);
  return value;
}
