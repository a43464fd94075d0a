// The OpenAPI document of the page: its operations, with what a request to one of them needs.

const url = document.querySelector('meta[name="leyden-document"]').content;
const METHODS = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];
const MAX_DEPTH = 8;
const BY_FORMAT = { uuid: "8f14e45f-ceea-467f-a8b5-91f3d5a1c0de", "date-time": "2030-01-01T09:00:00.000Z", date: "2030-01-01", uri: "https://example.com/", email: "ana@example.com" };

let loading = null;

async function load() {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${new URL(url, location).pathname} was answered with ${response.status}.`);
  return response.json();
}

/** The document, loaded once. */
export function openApi() {
  loading ??= load().catch((error) => {
    loading = null;
    throw error;
  });
  return loading;
}

/** The value at a JSON pointer; undefined if there is none. */
export const at = (value, pointer) => pointer.split("/").slice(1)
  .reduce((part, step) => part?.[step.replaceAll("~1", "/").replaceAll("~0", "~")], value);

/** A node of the document with its reference followed. */
export function resolved(whole, node) {
  let one = node ?? {};
  for (let depth = 0; one.$ref && depth < MAX_DEPTH; depth += 1) {
    const { $ref, ...beside } = one;
    one = { ...at(whole, decodeURIComponent($ref.slice(1))), ...beside };
  }
  return one;
}

/** A value made from a schema, where the document has no example: as the page makes it. */
function sample(whole, node, depth = 0) {
  const schema = resolved(whole, node);
  if (schema.examples?.length) return schema.examples[0];
  for (const word of ["const", "default"]) if (word in schema) return schema[word];
  if (schema.enum?.length) return schema.enum[0];
  if (depth >= MAX_DEPTH) return null;
  const parts = [...(schema.allOf ?? []).map((branch) => sample(whole, branch, depth + 1)), Object.fromEntries(
    Object.entries(schema.properties ?? {}).map(([name, inner]) => [name, sample(whole, inner, depth + 1)]))];
  const example = Object.assign({}, ...parts.filter((part) => part !== null && typeof part === "object"));
  if (Object.keys(example).length) return example;
  const branch = [...(schema.oneOf ?? []), ...(schema.anyOf ?? [])][0];
  if (branch) return sample(whole, branch, depth + 1);
  const type = [schema.type].flat().find((one) => one !== "null");
  if (type === "array") return schema.items ? [sample(whole, schema.items, depth + 1)] : [];
  return { string: BY_FORMAT[schema.format] ?? "text", integer: schema.minimum ?? 1, number: schema.minimum ?? 1, boolean: true, object: {} }[type] ?? null;
}

/** The examples of a body or parameter: `[title, value]` each. */
function examplesOf(whole, node) {
  if ("example" in node) return [["", node.example]];
  const named = Object.entries(node.examples ?? {}).map(([name, one]) => [name, resolved(whole, one)]);
  return named.length ? named.map(([name, one]) => [one.summary ?? name, one.value]) : [["", sample(whole, node.schema)]];
}

/** Operations have ids on the page that are made of their `operationId`. */
const anchorOf = (id) => `operation-${id.replace(/[^A-Za-z0-9_-]+/g, "-")}`;

/**
 * The operation with this id on the page: `{id, method, path, summary, header, parameters, body, links}`.
 *
 * `header` is the name of the header with the key, or null. A parameter has `{name, in, required, description, schema, example,
 * hasExample}`; without an example in the document, `example` is made from the schema.
 * `body` is null or `{mediaType, examples}`. `links` has the links of each status.
 */
export async function operationAt(place) {
  const whole = await openApi();
  for (const [path, item] of Object.entries(whole.paths)) {
    for (const method of METHODS) {
      const written = item[method];
      if (written && anchorOf(written.operationId) === place) return described(whole, path, method, item, written);
    }
  }
  throw new Error("The document of this page has no such operation. Load the page again.");
}

function described(whole, path, method, item, written) {
  const scheme = Object.keys((written.security ?? whole.security ?? [])[0] ?? {})[0];
  const [mediaType, media] = Object.entries(resolved(whole, written.requestBody).content ?? {})[0] ?? [];
  const responses = Object.entries(written.responses ?? {}).map(([status, response]) => [status, resolved(whole, response)]);
  return {
    id: written.operationId, path, method: method.toUpperCase(), summary: written.summary ?? written.operationId,
    header: scheme === undefined ? null : resolved(whole, whole.components.securitySchemes[scheme]).name,
    parameters: [...(item.parameters ?? []), ...(written.parameters ?? [])].map((one) => resolved(whole, one)).map((one) => {
      const schema = resolved(whole, one.schema);
      const hasExample = "example" in one || "examples" in one || "examples" in schema || "default" in schema;
      return { ...one, schema, description: one.description ?? schema.description, example: examplesOf(whole, one)[0][1], hasExample };
    }),
    body: media === undefined ? null : { mediaType, examples: examplesOf(whole, media) },
    links: new Map(responses.map(([status, { links = {} }]) => [status, Object.values(links).map((one) => resolved(whole, one))])),
  };
}

/** The value of a runtime expression of a link, such as `$response.body#/data/id`; undefined if it has none. */
export function evaluated(expression, { path, query, body }) {
  if (typeof expression !== "string" || !expression.startsWith("$")) return expression;
  const [, source, name] = /^\$(?:request\.(path|query)\.(.+)|response\.body#(.*))$/.exec(expression) ?? [];
  if (source) return { path, query }[source][name];
  return expression.startsWith("$response.body#") ? at(body, expression.slice("$response.body#".length)) : undefined;
}
