import { builtPrefix } from "../built-template.ts";
import { E2bError } from "../errors.ts";
import { nodeName } from "../node-name.ts";

/** Throws `bad_request` unless `name` can be a template's, in the namespace and in a path of an upload store. */
export function checkTemplateName(namespace: string, name: string): void {
  nodeName("name", builtPrefix(namespace), name);
  // A template "tags" could be neither shown nor deleted: that path is of all tags.
  if (
    name === "tags" ||
    name.includes(":") ||
    name.split("/").some((part) => part === "" || part === "." || part === "..")
  ) {
    throw new E2bError("bad_request", `name: ${JSON.stringify(name)} is not the name of a template`);
  }
}

/** The two parts of `name` or `name:tag`. Throws `bad_request`. */
export function templateName(namespace: string, text: string): { readonly name: string; readonly tag?: string } {
  if (text.trim() === "") {
    throw new E2bError("bad_request", "name: a name is required");
  }
  const colon = text.lastIndexOf(":");
  const name = colon === -1 ? text : text.slice(0, colon);
  checkTemplateName(namespace, name);
  return colon === -1 ? { name } : { name, tag: text.slice(colon + 1) };
}
