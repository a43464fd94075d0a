// The form for the API key, where the page has none or the server refused it.

import { apiKey, useKey as enterKey } from "./api.js";
import { html, useEffect, useRef } from "./ui.js";

/** Ask for the key; `why` says why. */
export function KeyForm({ why }) {
  const input = useRef(null);
  useEffect(() => input.current.focus(), []);
  const submit = (event) => {
    event.preventDefault();
    enterKey(input.current.value.trim());
  };
  return html`<form class="keyform" onSubmit=${submit}>
    <h2>API key</h2>
    <p role="alert" id="key-why">${why}</p>
    <label for="key">API key of the project or of the sandbox</label>
    <div class="row"><input id="key" ref=${input} defaultValue=${apiKey.get()} autocomplete="off" spellcheck=${false} aria-describedby="key-why" required />
    <button class="first">Open</button></div>
  </form>`;
}
