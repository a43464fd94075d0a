// The active parts of a documentation page: copy buttons, search, "Try it" and "Open in console" for each operation.
//
// The page is complete without them. They are added after it is shown; the parts that a reader opens are loaded then.

import { apiKey, base } from "../api.js";
import { Copy } from "../parts.js";
import { html, render } from "../ui.js";
import { isServerPage, viewOf } from "./views.js";

/** Put a component into the page, in an element of its own beside or in another one. */
function add(place, where, component, className) {
  const holder = document.createElement("span");
  holder.className = className;
  place[where](holder);
  render(component, holder);
}

/** The text of an element without the link to itself. */
const headingOf = (section) => [...section.querySelector("h1, h2, h3").childNodes].filter((node) => node.className !== "here").map((node) => node.textContent).join("");

// The commands of the page use variables of the shell. What this page knows of them is filled in.
const known = { "base-url": location.origin + base, "api-key": isServerPage ? "" : apiKey.get() };
for (const [name, value] of Object.entries(known)) {
  const node = document.querySelector(`[data-value="${name}"]`);
  if (node && value) node.textContent = /^[\w:/.-]+$/.test(value) ? value : `'${value.replaceAll("'", "'\\''")}'`;
}

for (const pre of document.querySelectorAll("main pre")) {
  const caption = pre.parentElement.querySelector(":scope > figcaption");
  const section = pre.closest("section");
  const what = [section && headingOf(section), pre.getAttribute("aria-label")].filter(Boolean).join(", ");
  const copy = html`<${Copy} text=${pre.textContent} what=${what} />`;
  if (caption) {
    add(caption, "append", copy, "copy");
  } else {
    const frame = document.createElement("div");
    frame.className = "copied";
    pre.replaceWith(frame);
    frame.append(pre);
    add(frame, "prepend", copy, "copy");
  }
}

for (const section of document.querySelectorAll('section[id^="operation-"]')) {
  const id = section.id.slice("operation-".length);
  const title = headingOf(section);
  add(section.querySelector(".route"), "after", html`
    <button type="button" class="first small" onClick=${() => openTry(section.id)} aria-label="Try it: ${title}">Try it</button>
    <a class="button small" href="${base}/console/${viewOf(id)}" target="_blank" rel="opener" aria-label="Open in console: ${title}">Open in console</a>`, "row doing");
}

const dialogs = document.createElement("div");
document.body.append(dialogs);

/** A dialog whose module is loaded when it is opened first. `open` gets the element that the dialog is in. */
function lazily(load) {
  let opening = null;
  const holder = document.createElement("div");
  dialogs.append(holder);
  return async (...options) => {
    if (opening !== null) return;
    opening = load();
    try {
      (await opening).open(holder, ...options);
    } finally {
      opening = null;
    }
  };
}

const openTry = lazily(() => import("./try.js"));
const openSearch = lazily(() => import("./search.js"));

const searchButton = () => html`<button type="button" class="search" onClick=${() => openSearch()} aria-keyshortcuts="/">Search <kbd aria-hidden="true">/</kbd></button>`;
const contents = document.querySelector("nav > div");
add(contents, "after", searchButton(), "find");
const menu = document.querySelector(".bar .menu");
add(menu, "before", searchButton(), "find far");

document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog")) return;
  event.preventDefault();
  openSearch();
});

const style = Object.assign(document.createElement("link"), { rel: "stylesheet", href: new URL("docs.css", import.meta.url).href });
document.head.append(style);
