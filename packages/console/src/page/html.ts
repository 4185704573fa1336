import { html, raw } from "hono/html";
import { SCRIPT } from "./script.ts";
import { STYLE } from "./style.ts";

/** Text that `hono/html` escaped. */
export type Page = ReturnType<typeof html>;

/** The policy knows both by their very bytes: nothing may stand between the tags and the text. */
const STYLE_TAG = raw(`<style>${STYLE}</style>`);
const SCRIPT_TAG = raw(`<script>${SCRIPT}</script>`);

function document(title: string, body: Page, script: boolean): Page {
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <title>${title}</title>
        <link rel="icon" href="data:," />
        ${STYLE_TAG}
      </head>
      <body>
        ${body} ${script ? SCRIPT_TAG : ""}
      </body>
    </html>`;
}

/** The form that asks for the credential. */
export function loginPage(problem = ""): Page {
  const body = html`<main class="login">
    <h1>Sandbox console</h1>
    <form method="post" action="/login">
      <label for="credential">Credential of this console</label>
      <input
        id="credential"
        name="credential"
        type="password"
        autocomplete="current-password"
        required
        autofocus
        ${problem === "" ? "" : raw('aria-describedby="problem"')}
      />
      ${problem === "" ? "" : html`<p id="problem" class="problem" role="alert">${problem}</p>`}
      <button>Log in</button>
    </form>
  </main>`;
  return document("Log in · Sandbox console", body, false);
}

/** The frame that the script fills. */
export function consolePage(version: string): Page {
  const body = html`<a class="skip" href="#nodes">Skip to the nodes</a>
    <header>
      <h1>Sandbox console</h1>
      <p class="version">${version}</p>
      <p id="state" role="status">Loading…</p>
      <form method="post" action="/logout"><button class="quiet">Log out</button></form>
    </header>
    <main>
      <section aria-labelledby="now">
        <h2 id="now">Now</h2>
        <dl id="tiles"></dl>
      </section>
      <section id="history" aria-labelledby="lately" hidden>
        <h2 id="lately">Last ten minutes</h2>
        <div class="charts">
          <figure>
            <figcaption>
              Time of creates, in milliseconds <span class="key one">half</span> <span class="key two">95 of 100</span>
            </figcaption>
            <svg id="latency" role="img" viewBox="0 0 600 160" preserveAspectRatio="none"></svg>
            <p class="summary" id="latency-text"></p>
          </figure>
          <figure>
            <figcaption>
              Requests a second <span class="key one">all</span> <span class="key bad">errors</span>
            </figcaption>
            <svg id="requests" role="img" viewBox="0 0 600 160" preserveAspectRatio="none"></svg>
            <p class="summary" id="requests-text"></p>
          </figure>
        </div>
      </section>
      <section aria-labelledby="nodes">
        <h2 id="nodes" tabindex="-1">Nodes</h2>
        <div class="scroll" role="region" aria-labelledby="nodes" tabindex="0"><table id="node-table"></table></div>
      </section>
      <section aria-labelledby="pools">
        <h2 id="pools">Warm pools</h2>
        <div class="scroll" role="region" aria-labelledby="pools" tabindex="0"><table id="pool-table"></table></div>
      </section>
      <section aria-labelledby="sandboxes">
        <h2 id="sandboxes">Newest sandboxes</h2>
        <label class="filter" for="filter"
          >Filter <input id="filter" type="search" placeholder="id, template, node…"
        /></label>
        <div class="scroll" role="region" aria-labelledby="sandboxes" tabindex="0">
          <table id="sandbox-table"></table>
        </div>
      </section>
    </main>`;
  return document("Sandbox console", body, true);
}
