// Search over the page: operations, callbacks, objects, fields, lifecycles and headings.

import { html, render, useEffect, useMemo, useRef, useState } from "../ui.js";

const MOST = 50;
const KINDS = { operation: "Operation", object: "Object", callback: "Callback", lifecycle: "Lifecycle", group: "Group" };
const ORDER = ["Operation", "Object", "Callback", "Group", "Lifecycle", "Section", "Field", "Error"];

const textOf = (node) => [...node.childNodes].filter((child) => child.className !== "here").map((child) => child.textContent).join("").trim();

/** What can be found: `{kind, title, path, context, place, node, words}`. It is read from the page once. */
function read() {
  const found = [];
  const note = (kind, title, section, { path = "", context = "", node = null, words = "" } = {}) => {
    if (title) found.push({ kind, title, path, context, place: section.id, node, words: `${title} ${path} ${context} ${words}`.toLowerCase() });
  };
  for (const section of document.querySelectorAll("main section[id]")) {
    const heading = section.querySelector("h1, h2, h3");
    const title = textOf(heading);
    const kind = KINDS[section.id.split("-")[0]] ?? "Section";
    const route = section.querySelector(".route");
    const name = section.id.slice(section.id.indexOf("-") + 1);
    const path = kind === "Operation" ? [...route.children].slice(0, 2).map((part) => part.textContent).join(" ") : "";
    note(kind, title, section, { path, words: `${name} ${kind === "Operation" ? section.querySelector(".text")?.textContent ?? "" : ""}` });
    for (const inner of section.querySelectorAll(".text :is(h2, h3, h4, h5)[id]")) note("Section", textOf(inner), inner, { context: title });
    for (const row of section.querySelectorAll("tbody tr")) {
      if (row.closest("section") !== section) continue;
      const caption = row.closest("table").caption?.textContent ?? "";
      const code = row.querySelector("th > code");
      const status = row.querySelector("th > .status");
      const words = row.textContent;
      if (code) note("Field", code.textContent, section, { context: `${title} · ${caption}`, path: row.querySelector(".kind")?.textContent, node: row, words });
      else if (status && section.id === "errors") note("Error", status.parentElement.innerText.replace("\n", " "), section, { context: caption, node: row, words });
    }
  }
  return found;
}

/** The better the match, the smaller the number; null if a word is missing. */
function rank(entry, text) {
  if (!text.split(/\s+/).every((word) => entry.words.includes(word))) return null;
  const title = entry.title.toLowerCase();
  const last = title.split(".").at(-1);
  const match = title === text ? 0 : last === text ? 1 : title.startsWith(text) ? 2 : title.includes(text) ? 3 : entry.path.toLowerCase().includes(text) ? 4 : 5;
  return match * ORDER.length + ORDER.indexOf(entry.kind);
}

const search = (entries, text) => entries.map((entry) => [rank(entry, text), entry]).filter(([order]) => order !== null)
  .sort(([one], [other]) => one - other).map(([, entry]) => entry);

function show({ place, node }) {
  if (location.hash !== `#${place}`) location.hash = place;
  const target = node ?? document.getElementById(place);
  for (let part = target.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
  target.tabIndex = -1;
  target.focus({ preventScroll: true });
  target.scrollIntoView({ block: node ? "center" : "start" });
}

function Search({ dialog }) {
  const entries = useMemo(read, []);
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const list = useRef(null);
  const wanted = text.trim().toLowerCase();
  const results = useMemo(() => (wanted ? search(entries, wanted) : entries.filter(({ kind }) => kind === "Operation")), [wanted]);
  const shown = results.slice(0, MOST);
  useEffect(() => list.current?.children[at]?.scrollIntoView({ block: "nearest" }), [at, wanted]);
  const choose = (entry) => { dialog.close(); show(entry); };
  const step = (by) => setAt((at + by + shown.length) % (shown.length || 1));
  const pressed = (event) => {
    if (event.key === "ArrowDown") step(1);
    else if (event.key === "ArrowUp") step(-1);
    else if (event.key === "Enter" && shown[at]) choose(shown[at]);
    else return;
    event.preventDefault();
  };
  const notice = results.length === 0 ? "Nothing has this text." : results.length > MOST ? `The first ${MOST} of ${results.length}.` : `${results.length} ${wanted ? "found" : "operations"}.`;
  return html`<div class="row"><input type="search" id="search-text" role="combobox" aria-label="Search operations, fields and objects" placeholder="Search operations, fields and objects"
      autocomplete="off" spellcheck=${false} aria-expanded=${shown.length > 0} aria-controls="search-results" aria-autocomplete="list"
      aria-activedescendant=${shown.length ? `search-${at}` : undefined} value=${text} onInput=${(event) => { setText(event.target.value); setAt(0); }} onKeyDown=${pressed} />
      <button type="button" class="quiet" onClick=${() => dialog.close()}>Close</button></div>
    <p class="hint" role="status">${notice}</p>
    <ul id="search-results" role="listbox" aria-label="Results" ref=${list}>${shown.map((entry, place) => html`
      <li key=${`${entry.place} ${entry.title} ${place}`} id="search-${place}" role="option" aria-selected=${place === at} onClick=${() => choose(entry)} onMouseMove=${() => setAt(place)}>
        <span class="found"><b>${entry.title}</b> ${entry.path && html`<code>${entry.path}</code>`}${entry.context && html`<span class="hint">${entry.context}</span>`}</span>
        <span class="hint">${entry.kind}</span></li>`)}</ul>`;
}

/** Open the search in a dialog, which is put into the element. */
export function open(holder) {
  if (holder.firstChild === null) {
    const dialog = Object.assign(document.createElement("dialog"), { className: "searching", ariaLabel: "Search" });
    holder.append(dialog);
    dialog.setAttribute("closedby", "any"); // a click beside it
    render(html`<${Search} dialog=${dialog} />`, dialog);
  }
  holder.firstChild.showModal();
  holder.querySelector("input").select();
}
