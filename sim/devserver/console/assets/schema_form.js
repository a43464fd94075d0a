// A form with the fields of a schema of the control plane's document: a panel that uses it has every field that the server has.

import { controlDocument } from "./api.js";
import { Field, Outcome } from "./parts.js";
import { html, useEffect, useState } from "./ui.js";

const words = (name) => name.replace(/[A-Z]/g, (mark) => ` ${mark.toLowerCase()}`).replace(/^./, (mark) => mark.toUpperCase());

/** The schema with its references replaced, or null until the document is loaded. */
export function useSchema(name, load = controlDocument) {
  const [schema, setSchema] = useState(null);
  useEffect(() => {
    load().then(({ components: { schemas } }) => {
      const resolved = (one) => (one.$ref ? { ...schemas[one.$ref.split("/").at(-1)], ...one } : one);
      const { properties, required = [] } = schemas[name];
      setSchema({ required, properties: Object.fromEntries(Object.entries(properties).map(([key, one]) => [key, resolved(one)])) });
    }, () => {});
  }, [name]);
  return schema;
}

/** The types that a value of the schema may have. */
export const typesOf = (schema) => [schema, ...(schema.anyOf ?? []), ...(schema.oneOf ?? [])].flatMap((one) => one.type ?? []);
/** The text of a field as a value of its schema; a text that is none stays, so that the server says what is wrong. */
function parsed(text, schema) {
  const types = typesOf(schema);
  if (types.includes("boolean") && /^(true|false)$/.test(text)) return text === "true";
  if (types.includes("null") && text === "null") return null;
  if (types.includes("array")) return text.split(",").map((one) => one.trim()).filter(Boolean);
  return (types.includes("integer") || types.includes("number")) && /^-?\d{1,15}(\.\d{1,9})?$/.test(text) ? Number(text) : text;
}

/** The first paragraph of a description, without Markdown. */
export const plain = (text = "") => text.trim().split("\n\n")[0].replaceAll("\n", " ").replaceAll("`", "").replaceAll("**", "");

/**
 * The form: `onSubmit(body)` gets the fields that have a value. `lead` names the fields that come first; the others are below
 * "more fields". `verb` is the text of the button, `load` the function that loads the document.
 */
export function SchemaForm({ id, of: name, lead, action, verb, onSubmit, load }) {
  const schema = useSchema(name, load);
  if (schema === null) return null;
  const problem = action.result?.problem;
  const submit = (event) => {
    event.preventDefault();
    const texts = [...new FormData(event.target)].map(([field, text]) => [field, text.trim()]).filter(([, text]) => text !== "");
    onSubmit(Object.fromEntries(texts.map(([field, text]) => [field, parsed(text, schema.properties[field])])), event.target);
  };
  const field = (key) => {
    const one = schema.properties[key];
    const values = one.enum ?? (typesOf(one).includes("boolean") ? [true, false] : null);
    const required = schema.required.includes(key);
    const shared = { key, label: words(key), name: key, problem, required, hint: one.enum || one.description === undefined ? undefined : plain(one.description) };
    if (values === null) return html`<${Field} ...${shared} placeholder=${one.default === undefined ? "" : String(one.default)} />`;
    return html`<${Field} ...${shared}>${!required && html`<option value="">${one.default === undefined ? "" : `${one.default} (default)`}</option>`}
      ${values.filter((value) => value !== null).map((value) => html`<option key=${value} value=${value}>${String(value).replaceAll("_", " ")}</option>`)}</${Field}>`;
  };
  const others = Object.keys(schema.properties).filter((key) => !lead.includes(key));
  return html`<form class="form" id=${id} onSubmit=${submit}>
    ${lead.map(field)}
    ${others.length > 0 && html`<details class="more wide"><summary>more fields</summary><div class="form">${others.map(field)}</div></details>`}
    <div class="field wide"><button class="first" disabled=${action.busy}>${verb}</button></div><${Outcome} of=${action} /></form>`;
}
