// The address of the page: `/console/PANEL/ID?filters`. Links are ordinary anchors.

import { base } from "./api.js";
import { html, store } from "./ui.js";

const root = `${base}/console`;

function read() {
  const [panel = "", ...rest] = location.pathname.slice(root.length + 1).split("/");
  return { panel, id: rest.length && rest[0] ? decodeURIComponent(rest.join("/")) : null, query: new URLSearchParams(location.search) };
}

/** Where the page is: the path of the panel, the id below it (or null), and the filters. */
export const route = store(read());

window.addEventListener("popstate", () => route.set(read()));
// A click on a link of the console changes the view without loading the page. Other buttons and keys keep their meaning.
document.addEventListener("click", (event) => {
  const anchor = event.target.closest?.("a[href]");
  if (!anchor || event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  if (anchor.target || anchor.origin !== location.origin || !`${anchor.pathname}/`.startsWith(`${root}/`)) return;
  event.preventDefault();
  navigate(anchor.pathname.slice(root.length + 1) + anchor.search);
});

/** The address of a view, such as `charges` or `charges/ID`. */
export const address = (path) => `${root}/${path}`;

/** Show a view. With `replace` the present one is left out of the browser's history. */
export function navigate(path, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", address(path));
  route.set(read());
}

/** Change filters of the present view. An empty value removes its filter. */
export function setFilter(changes) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) value ? query.set(name, value) : query.delete(name);
  const text = query.toString();
  history.replaceState(null, "", location.pathname + (text && `?${text}`));
  route.set(read());
}

/** A link to a view of the console. The filters of the list stay with `keep`. */
export function Link({ to, keep = false, children, ...rest }) {
  return html`<a ...${rest} href=${address(to) + (keep ? location.search : "")}>${children}</a>`;
}
