/** The page's style. Colours of both schemes keep a contrast of 4.5 to 1 for text. */
export const STYLE = `
:root {
  --ground: #f6f7f9; --card: #ffffff; --line: #d9dee5; --text: #1b2430; --dim: #566273;
  --one: #1f66c1; --two: #a35a00; --bad: #b3261e; --good: #1c7a3e; --focus: #1f66c1;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #12161c; --card: #1b212a; --line: #323b48; --text: #e7ecf2; --dim: #a3afbe;
    --one: #7db3ff; --two: #f2b35e; --bad: #ff8a80; --good: #6fd08c; --focus: #9cc4ff;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--text); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.15rem; margin: 0; }
h2 { font-size: 1rem; margin: 0 0 .5rem; }
header { display: flex; flex-wrap: wrap; gap: .25rem 1rem; align-items: center; padding: .75rem 1rem; border-bottom: 1px solid var(--line); background: var(--card); }
header p { margin: 0; color: var(--dim); }
header #state { margin-left: auto; }
#state.lost { color: var(--bad); font-weight: 600; }
main { max-width: 1200px; margin: 0 auto; padding: 1rem; display: grid; gap: 1rem; grid-template-columns: minmax(0, 1fr); }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 1rem; min-width: 0; }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(11rem, 1fr)); gap: .75rem; margin: 0; }
dl div { border-left: 3px solid var(--line); padding-left: .75rem; }
dt { color: var(--dim); font-size: .85rem; }
dd { margin: 0; font-size: 1.5rem; font-variant-numeric: tabular-nums; }
dd.bad { color: var(--bad); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); gap: 1rem; }
figure { margin: 0; min-width: 0; }
figcaption { color: var(--dim); font-size: .85rem; }
svg { width: 100%; height: 160px; display: block; margin-top: .25rem; }
svg path { fill: none; stroke-width: 2; vector-effect: non-scaling-stroke; }
svg .one { stroke: var(--one); } svg .two { stroke: var(--two); } svg .bad { stroke: var(--bad); }
svg line { stroke: var(--line); vector-effect: non-scaling-stroke; }
.key { margin-left: .75rem; } .key::before { content: ""; display: inline-block; width: .8em; height: .2em; margin-right: .3em; vertical-align: middle; background: currentColor; }
.key.one { color: var(--one); } .key.two { color: var(--two); } .key.bad { color: var(--bad); }
.summary { margin: .25rem 0 0; color: var(--dim); font-size: .85rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .35rem .75rem .35rem 0; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { color: var(--dim); font-weight: 600; font-size: .85rem; }
td.number, th.number { text-align: right; }
td.name { font-family: ui-monospace, monospace; font-size: .9rem; }
tbody tr:last-child td { border-bottom: 0; }
td.empty { color: var(--dim); white-space: normal; }
.phase { font-weight: 600; } .phase.Running { color: var(--good); } .phase.Hibernated { color: var(--two); }
button, input { font: inherit; color: inherit; }
button { background: var(--one); color: var(--card); border: 0; border-radius: 6px; padding: .4rem .9rem; cursor: pointer; }
button.quiet { background: transparent; color: var(--dim); border: 1px solid var(--line); }
input { background: var(--ground); border: 1px solid var(--dim); border-radius: 6px; padding: .4rem .6rem; width: 100%; }
.filter { display: block; max-width: 22rem; color: var(--dim); font-size: .85rem; margin-bottom: .5rem; }
:focus-visible { outline: 3px solid var(--focus); outline-offset: 2px; }
.skip { position: absolute; left: -999px; } .skip:focus { left: 1rem; top: .5rem; background: var(--card); padding: .5rem; z-index: 1; }
.login { max-width: 24rem; margin: 15vh auto 0; }
.login form { display: grid; gap: .75rem; margin-top: 1rem; }
.problem { color: var(--bad); margin: 0; }
@media (max-width: 600px) {
  main { padding: .5rem; gap: .5rem; } section { padding: .75rem; border-radius: 8px; }
  thead { position: absolute; clip-path: inset(50%); width: 1px; height: 1px; overflow: hidden; }
  table, tbody, tr, td { display: block; width: 100%; }
  tr { border-bottom: 1px solid var(--line); padding: .4rem 0; } tbody tr:last-child { border-bottom: 0; }
  td, td.number { border: 0; padding: .1rem 0; text-align: left; white-space: normal; overflow-wrap: anywhere; display: flex; gap: .75rem; }
  td::before { content: attr(data-label); color: var(--dim); font: .85rem system-ui, sans-serif; flex: 0 0 6.5rem; }
  td.empty::before { content: none; }
}
@media (prefers-reduced-motion: no-preference) { svg path { transition: d .3s; } }
`;
