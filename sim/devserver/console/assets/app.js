// The page: navigation, bar, and the panel that the address names.

import { base, followChanges } from "./api.js";
import { Bar, Notices } from "./bar.js";
import { KeyForm } from "./key.js";
import { focusedTable } from "./lists.js";
import { apiKey, refusedKey } from "./api.js";
import { panels } from "./panels/index.js";
import { Link, navigate, route } from "./router.js";
import { html, render, store, useEffect, useRef, useState, useStore } from "./ui.js";

const theme = store(localStorage.getItem("leyden theme") ?? "system");
const setTheme = (name) => {
  localStorage.setItem("leyden theme", name);
  theme.set(name);
};

function Theme() {
  const name = useStore(theme);
  useEffect(() => { document.documentElement.dataset.theme = name; }, [name]);
  return html`<label class="theme">Theme <select value=${name} onChange=${(event) => setTheme(event.target.value)}>
    ${["system", "light", "dark"].map((one) => html`<option key=${one} value=${one}>${one}</option>`)}</select></label>`;
}

const KEYS = [
  ["/", "go to the search field of the list"], ["j", "next row"], ["k", "previous row"], ["Escape", "close the detail, or the open part"],
  ["g then a letter", "another panel: the underlined letter"], ["?", "this list"],
];

function Help({ dialog }) {
  return html`<dialog ref=${dialog} aria-labelledby="keys-title"><h2 id="keys-title">Keys</h2>
    <table class="plain"><thead class="unseen"><tr><th scope="col">Key</th><th scope="col">Meaning</th></tr></thead>
    <tbody>${KEYS.map(([key, meaning]) => html`<tr key=${key}><td><kbd>${key}</kbd></td><td>${meaning}</td></tr>`)}</tbody></table>
    <form method="dialog" class="row end"><button>Close</button></form></dialog>`;
}

/** The keys of the page. Keys that are typed into a field are left alone. */
function useKeys(help, current) {
  useEffect(() => {
    let leading = false;
    const pressed = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const typing = event.target.closest("input, textarea, select, dialog");
      if (event.key === "Escape") {
        if (typing) event.target.blur();
        else if (route.get().id !== null && !document.querySelector("details.popover[open], dialog[open]")) navigate(current + location.search);
        return;
      }
      if (typing) return;
      const goes = leading ? panels.find((panel) => panel.letter === event.key) : undefined;
      leading = event.key === "g";
      if (goes) navigate(goes.path);
      else if (event.key === "/") document.getElementById("search")?.focus();
      else if (event.key === "j") focusedTable.step?.(1);
      else if (event.key === "k") focusedTable.step?.(-1);
      else if (event.key === "?") help.current.showModal();
      else return;
      event.preventDefault();
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, [current]);
}

function Title({ panel }) {
  const at = panel.title.toLowerCase().indexOf(panel.letter);
  return html`${panel.title.slice(0, at)}<u>${panel.title.slice(at, at + 1)}</u>${panel.title.slice(at + 1)}`;
}

function App() {
  const where = useStore(route);
  const key = useStore(apiKey);
  const refused = useStore(refusedKey);
  const [menu, setMenu] = useState(false);
  const help = useRef(null);
  const panel = panels.find((one) => one.path === where.panel) ?? null;
  useKeys(help, panel?.path ?? "");
  useEffect(() => {
    if (where.panel === "") navigate(panels[0].path, { replace: true });
    document.title = panel ? `${panel.title} · Leyden console` : "Leyden console";
    setMenu(false);
  }, [where.panel]);
  const choose = () => setMenu(false);
  return html`
    <a class="skip" href="#main">Skip to the content</a>
    <header>
      <button type="button" class="menu" aria-expanded=${menu ? "true" : "false"} aria-controls="navigation" onClick=${() => setMenu(!menu)}><span class="unseen">Menu</span>☰</button>
      <h1>Leyden</h1>
      <${Bar} key=${key} />
    </header>
    <nav id="navigation" class=${menu ? "shown" : ""} aria-label="Panels">
      <ul>${panels.map((one) => html`<li key=${one.path}><${Link} to=${one.path} onClick=${choose} aria-current=${one === panel ? "page" : undefined}><${Title} panel=${one} /></${Link}></li>`)}</ul>
      <div class="foot"><${Theme} /><a href="${base}/docs" target="_blank" rel="opener">Documentation</a>
        <button type="button" class="quiet" onClick=${() => help.current.showModal()}>Keys <kbd>?</kbd></button></div>
    </nav>
    <main id="main" tabindex="-1">
      <${Notices} />
      ${refused ? html`<${KeyForm} why=${refused} />`
        : panel ? html`<${panel.Panel} key=${`${panel.path} ${key}`} route=${where} />`
        : where.panel !== "" && html`<div class="padded"><h2>No such page</h2><p><${Link} to=${panels[0].path}>${panels[0].title}</${Link}></p></div>`}
    </main>
    <${Help} dialog=${help} />`;
}

render(html`<${App} />`, document.getElementById("app"));
followChanges();
