/** A class for every whole percentage, since the page's policy forbids inline styles. */
const shades = Array.from({ length: 101 }, (_, k) => `.k${k} { --k: ${k / 100}; }`).join(' ');

/** Style of the report: light and dark colours, fits a phone. */
export const style = `
:root { color-scheme: light dark; print-color-adjust: exact; -webkit-print-color-adjust: exact; --paper: #fff; --ink: #1b1f24; --soft: #59626e; --line: #d5dae0; --empty: #eef1f4; --mark: 24 92 172; --on: #fff; --good: #176b34; --bad: #a3231b; --pale: #767d86; }
@media screen and (prefers-color-scheme: dark) { :root { --paper: #14171b; --ink: #e6e9ed; --soft: #a3abb5; --line: #363c44; --empty: #23282e; --mark: 106 168 242; --on: #0c1015; --good: #79d296; --bad: #ff9a90; --pale: #858d97; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 70rem; margin: 0 auto; padding: 1rem clamp(1rem, 4vw, 2.5rem) 3rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 1.2rem 0 .6rem; }
h2 { font-size: 1.25rem; margin: 2.4rem 0 .4rem; }
h3 { font-size: 1rem; margin: 1.4rem 0 .6rem; }
p { max-width: 46rem; margin: .4rem 0; }
.lead { font-size: 1.05rem; }
strong { overflow-wrap: anywhere; }
.panels { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(10rem, 45%), 1fr)); gap: 1.2rem 1rem; align-items: end; }
.panels.wide { grid-template-columns: repeat(auto-fill, minmax(min(15rem, 100%), 1fr)); }
figure { margin: 0; min-width: 0; align-self: start; }
figcaption { font-size: .85rem; line-height: 1.3; min-height: 4em; max-width: 12.5rem; overflow-wrap: anywhere; display: flex; flex-direction: column; justify-content: flex-end; padding-bottom: .35rem; }
figcaption small { color: var(--soft); font-size: .75rem; }
.key { color: var(--soft); font-size: .85rem; }
.ramp { display: inline-block; width: 6rem; height: .8rem; vertical-align: -1px; border-radius: 3px; background: linear-gradient(to right, var(--empty), rgb(var(--mark))); }
.choose { display: flex; flex-wrap: wrap; gap: .6rem 1.2rem; margin: .8rem 0; }
.choose span { max-width: 100%; }
select { font: inherit; color: inherit; background: var(--empty); border: 1px solid var(--line); border-radius: 6px; padding: .35rem .5rem; max-width: 100%; }
:focus-visible { outline: 3px solid rgb(var(--mark)); outline-offset: 2px; }
.text { max-width: 48rem; line-height: 1.75; border: 1px solid var(--line); border-radius: 8px; padding: .8rem 1rem; overflow-wrap: anywhere; }
.text span { background: rgb(var(--mark) / calc(var(--k, 0) * .55)); padding: .15em 0; }
.text .gone { color: var(--pale); }
.text .value { text-decoration: underline 2px; text-underline-offset: 4px; font-weight: 600; }
.right { color: var(--good); }
.wrong { color: var(--bad); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .3rem .7rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child { text-align: left; font-weight: 500; }
thead th { color: var(--soft); font-weight: 500; }
thead th::first-letter { text-transform: uppercase; }
table.panel { border-collapse: separate; border-spacing: 2px; table-layout: fixed; max-width: 100%; }
.panel th, .panel th:first-child { padding: 0 .4rem 0 0; border: 0; color: var(--soft); font-weight: 400; font-size: .75rem; text-align: right; }
.panel th[scope=col] { padding: 0; text-align: center; }
.panel th:first-child { white-space: normal; line-height: 1.15; }
.panel td { height: 30px; padding: 0; border: 0; border-radius: 3px; text-align: center; font-size: .75rem; background: linear-gradient(rgb(var(--mark) / var(--k)) 0 0), var(--empty); }
${shades}
.panel .on { color: var(--on); }
footer { margin-top: 2rem; color: var(--soft); font-size: .85rem; }
`;
