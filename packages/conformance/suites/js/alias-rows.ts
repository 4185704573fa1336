import assert from "node:assert/strict";

import { isApiError, type Row } from "./context.ts";

/** §14.3 of the control-plane contract. */
export const aliasRows: Readonly<Record<string, Row>> = {
  A1: async (context) => {
    const sandbox = await context.create();
    context.share(sandbox);
    const info = await sandbox.getInfo();
    assert.equal(info.name, "base");
    assert.equal(info.templateId, context.rig.image);
    const reply = await context.raw("POST", "/v2/sandboxes", { body: { templateID: "base", timeout: 60 } });
    assert.equal(reply.status, 201);
    const body = reply.body as { templateID: string; alias: string; sandboxID: string; domain: string };
    assert.equal(body.templateID, context.rig.image);
    assert.equal(body.alias, "base");
    assert.equal(body.domain, context.rig.domain);
    assert.equal((await context.raw("DELETE", `/sandboxes/${body.sandboxID}`)).status, 204);
  },

  A2: async (context) => {
    const { sandboxId } = await context.shared();
    for (const template of ["base", "code-interpreter-v1", context.rig.image]) {
      const items = await context.sdk.Sandbox.list({ ...context.options(), query: { template } }).nextItems();
      const found = items.find((item) => item.sandboxId === sandboxId);
      assert.equal(found?.name, "base", `filter ${template}`);
    }
    const others = await context.sdk.Sandbox.list({ ...context.options(), query: { template: "nope" } }).nextItems();
    assert.deepEqual(others, []);
  },

  A3: async (context) => {
    const { Template } = context.sdk;
    assert.equal(await Template.exists("base", context.options()), true, "alias");
    assert.equal(await Template.exists(context.rig.image, context.options()), true, "image");
    assert.equal(await Template.exists("nope", context.options()), false, "unknown");
  },

  A4: async (context) => {
    isApiError(await context.raw("GET", "/templates/aliases/base", { key: null }), 401);
  },

  A5: async (context) => {
    const reply = await context.raw("GET", "/templates");
    assert.equal(reply.status, 200);
    const templates = reply.body as { templateID: string; aliases: string[]; createdAt: string }[];
    const entry = templates.find((template) => template.templateID === context.rig.image);
    assert.deepEqual(entry?.aliases, ["base", "code-interpreter-v1", "e2bdev/base", "medium-box"]);
    assert.ok(!Number.isNaN(Date.parse(entry?.createdAt ?? "")), "createdAt is a date");
    for (const template of templates) {
      assert.ok(Array.isArray(template.aliases), `aliases of ${template.templateID}`);
    }
  },

  A6: async (context) => {
    const medium = await context.create({ template: "medium-box" });
    assert.equal((await context.onNode(medium.sandboxId)).key.size, "medium");
    assert.equal((await medium.getInfo()).memoryMB, 1_024);
    await medium.kill();
    const plain = await context.create({ template: context.rig.image });
    assert.equal((await context.onNode(plain.sandboxId)).key.size, "small");
    await plain.kill();
  },
};
