// What components load and send: one resource, a list in pages, an action.

import { apiKey, curl, newRuns, notifyChange, onChange, Problem, request, serviceOperation } from "./api.js";
import { navigate } from "./router.js";
import { useCallback, useEffect, useRef, useState, useStore } from "./ui.js";

/** A resource that is loaded again after each change: `{data, problem, loading}`. With the path null nothing is loaded. */
export function useResource(path) {
  const key = useStore(apiKey);
  const name = `${key} ${path}`;
  const [state, setState] = useState({ name, data: null, problem: null });
  useEffect(() => {
    if (path === null || key === "") return undefined;
    const stop = new AbortController();
    const load = oneAtATime(async () => {
      try {
        const data = await request("GET", path, { signal: stop.signal });
        if (!stop.signal.aborted) setState({ name, data, problem: null });
      } catch (problem) {
        if (stop.signal.aborted) return;
        if (!(problem instanceof Problem)) throw problem;
        setState((former) => ({ name, data: problem.status === 404 || former.name !== name ? null : former.data, problem }));
      }
    });
    const changed = rested(load, path, stop.signal);
    changed();
    const unsubscribe = onChange(changed);
    return () => { unsubscribe(); stop.abort(); };
  }, [name, path === null]);
  // Data of another path or key is not shown, not for one frame.
  if (path === null) return { data: null, problem: null, loading: false };
  return state.name === name ? { ...state, loading: state.data === null && state.problem === null } : { data: null, problem: null, loading: true };
}

/** The function, run once more afterwards if it is called while it runs. */
function oneAtATime(run) {
  let running = false;
  let again = false;
  return async () => {
    again = running;
    if (running) return;
    running = true;
    try {
      do {
        again = false;
        await run();
      } while (again);
    } finally {
      running = false;
    }
  };
}

const REST = 9;

/**
 * The function for each change. A search may read every row of the sandbox: after one there is a rest of nine times its duration, so that
 * an open search takes a tenth of the server's time at most. A change in the rest is shown at its end.
 */
function rested(load, path, signal) {
  if (!/[?&]text=/.test(path)) return load;
  let rests = false;
  let again = false;
  return async function run() {
    again = rests;
    if (rests) return;
    rests = true;
    const began = performance.now();
    await load();
    setTimeout(() => {
      rests = false;
      if (again && !signal.aborted) run();
    }, REST * (performance.now() - began));
  };
}

const PAGE = 200;

/**
 * A list in pages, newest first, of rows with an `id` (or a `name`): `{rows, problem, loading, complete, more, show}`.
 *
 * `more()` loads the next page. A change loads the first page again, and those that have one of the rows from `show(first,
 * last)`, the rows that the table displays. `options` are those of `request`.
 */
export function usePages(path, options = {}) {
  const key = useStore(apiKey);
  const run = useStore(newRuns); // pages that are not displayed would stay those of the former run
  const name = `${key} ${run} ${path} ${JSON.stringify(options)}`;
  const [state, setState] = useState({ name, pages: null, problem: null });
  const work = useRef(null);
  useEffect(() => {
    if (path === null || key === "") return undefined;
    const stop = new AbortController();
    const view = { first: 0, last: 0 };
    let pages = null;
    const page = (after) => {
      const mark = path.includes("?") ? "&" : "?";
      const from = after === null ? "" : `&after=${encodeURIComponent(after)}`;
      return request("GET", `${path}${mark}limit=${PAGE}${from}`, { ...options, signal: stop.signal });
    };
    const guarded = (run) => oneAtATime(async () => {
      try {
        await run();
        if (!stop.signal.aborted) setState({ name, pages, problem: null });
      } catch (problem) {
        if (stop.signal.aborted) return;
        if (!(problem instanceof Problem)) throw problem;
        setState({ name, pages, problem });
      }
    });
    let turn = Promise.resolve(); // a refresh and a further page change the same list: one after the other
    const inTurn = (run) => () => { turn = turn.then(run); return turn; };
    const refresh = inTurn(guarded(async () => {
      const { data, next } = await page(null);
      pages = replaced(pages ?? [], 0, data, next);
      for (let place = 1, start = pages[0].rows.length; place < pages.length && start <= view.last; place += 1) {
        const count = pages[place].rows.length;
        if (start + count > view.first) {
          const fresh = await page(pages[place].after);
          pages = replaced(pages, place, fresh.data, fresh.next);
        }
        start += pages[place].rows.length;
      }
    }));
    const more = inTurn(guarded(async () => {
      const next = pages?.at(-1).next ?? null;
      if (next === null) return;
      const fresh = await page(next);
      pages = [...pages, { after: next, rows: fresh.data, next: fresh.next }];
    }));
    work.current = { more, view };
    const changed = rested(refresh, path, stop.signal);
    changed();
    const unsubscribe = onChange(changed);
    return () => { unsubscribe(); stop.abort(); };
  }, [name, path === null]);
  const more = useCallback(() => work.current?.more(), []);
  const show = useCallback((first, last) => { if (work.current) Object.assign(work.current.view, { first, last }); }, []);
  const pages = state.name === name ? state.pages : null;
  const memo = useRef({ pages: null, rows: [] });
  if (memo.current.pages !== pages) memo.current = { pages, rows: pages === null ? [] : pages.flatMap((one) => one.rows) };
  const problem = state.name === name ? state.problem : null;
  return {
    rows: memo.current.rows, problem, loading: pages === null && problem === null, complete: pages !== null && pages.at(-1).next === null, more, show,
  };
}

const idOf = (row) => row.id ?? row.name;

/** The pages after one of them was loaded again. Rows that new ones pushed out of it move to the page below. */
function replaced(pages, place, rows, next) {
  const after = pages[place]?.after ?? null;
  const before = pages.slice(0, place);
  const fresh = { after, rows, next };
  const end = rows.length ? (pages[place]?.rows ?? []).findIndex((row) => idOf(row) === idOf(rows.at(-1))) : -1;
  if (next === null || end < 0) return [...before, fresh];
  const pushed = pages[place].rows.slice(end + 1);
  const below = pages[place + 1];
  if (!pushed.length) return [...before, fresh, ...pages.slice(place + 1)];
  if (below === undefined) return [...before, fresh, { after: next, rows: pushed, next: pages[place].next }];
  return [...before, fresh, { after: next, rows: [...pushed, ...below.rows], next: below.next }, ...pages.slice(place + 2)];
}

/**
 * An action of the user: `{run, busy, result, clear}`.
 *
 * `run(method, path, {notice, ...options})` sends the request with the options of `request` and returns its JSON, or null if it was
 * refused. `{operationId, value}` in place of the path is an operation of the service, whose document has the path. `notice` is the sentence about its success, or a function of the response that returns one. `result` is for `Outcome`.
 */
export function useAction() {
  const [state, setState] = useState({ busy: false, result: null });
  const run = useCallback(async (method, where, { notice = "Done.", ...given } = {}) => {
    let path = where, options = given, command = "";
    setState((former) => ({ ...former, busy: true }));
    try {
      if (typeof where !== "string") {
        const { path: own, type } = await serviceOperation(where.operationId, where.value);
        [path, options] = [own, { type, ...given }];
      }
      command = curl(method, path, options);
      const answer = await request(method, path, options);
      setState({ busy: false, result: { text: typeof notice === "function" ? notice(answer) : notice, command, problem: null } });
      return answer ?? {};
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      setState({ busy: false, result: { text: problem.message, command, problem } });
      return null;
    } finally {
      notifyChange();
    }
  }, []);
  const clear = useCallback(() => setState({ busy: false, result: null }), []);
  return { ...state, run, clear };
}

/** The creation of a charge or a static charge: an action with `create(body, idempotencyKey)` and the `id` of the last one, which is opened. */
export function useCreation(panel, notice) {
  const action = useAction();
  const [id, setId] = useState(null);
  const create = async (body, idempotencyKey) => {
    const headers = idempotencyKey ? { "idempotency-key": idempotencyKey } : {};
    const operationId = panel === "charges" ? "createCharge" : "createStaticCharge";
    const answer = await action.run("POST", { operationId }, { body, headers, notice });
    if (answer === null) return;
    setId(answer.data.id);
    navigate(`${panel}/${answer.data.id}${location.search}`);
  };
  return { ...action, id, create };
}
