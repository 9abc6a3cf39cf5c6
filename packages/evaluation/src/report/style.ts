import { style as base } from '../needle/report/style.ts';

/** Style for screens and paper: dark colours only on screens, no page break inside a figure. */
export const style = `${base}
ol.verdicts { padding-left: 1.4rem; max-width: 60rem; }
ol.verdicts li { margin: .35rem 0; }
thead th { white-space: normal; vertical-align: bottom; }
pre { margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; }
.chart { width: 100%; max-width: 46rem; height: auto; }
.chart text, .map text { font: 11px system-ui, sans-serif; fill: var(--soft); }
.chart .axis { stroke: var(--line); fill: none; }
.maps { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(16rem, 100%), 1fr)); gap: 1rem; }
.maps figcaption { min-height: 0; max-width: none; }
@media screen and (max-width: 40rem) { .chart text { font-size: 18px; } }
.map { width: 100%; height: auto; border: 1px solid var(--line); background: var(--empty); }
.map rect { fill: rgb(var(--mark)); }
${[...Array(8).keys()].map((i) => `.s${i} { stroke: var(--c${i}); color: var(--c${i}); }${i === 0 ? '' : ` .s${i} .line, .legend .s${i} { stroke-dasharray: 10 ${2 * i}; }`}`).join(' ')}
.chart .line { fill: none; stroke-width: 2; } .chart .band { stroke: none; fill: currentColor; opacity: .15; } .chart .dot { fill: currentColor; stroke: none; }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; list-style: none; padding: 0; font-size: .85rem; } .legend svg { width: 1.6rem; height: .8rem; vertical-align: -1px; }
dl { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 2fr); gap: .2rem 1rem; font-size: .85rem; } dd { margin: 0; } dd, dt { overflow-wrap: anywhere; } dt { color: var(--soft); }
:root { --c0: #1857a4; --c1: #b3541e; --c2: #2b7a3d; --c3: #8a2f8f; --c4: #a3231b; --c5: #00707a; --c6: #6b5b00; --c7: #555c66; }
@media screen and (prefers-color-scheme: dark) { :root { --c0: #6aa8f2; --c1: #f0a070; --c2: #79d296; --c3: #d79be0; --c4: #ff9a90; --c5: #6fd0d8; --c6: #d6c64e; --c7: #b4bcc6; } }
@media print { :root { color-scheme: light; } body { font-size: 10pt; } main, p, ol.verdicts { max-width: none; } main { padding: 0; } h2, h3 { break-after: avoid; } figure, tr, li, dl { break-inside: avoid; } .chart { max-width: 34rem; } .scroll { overflow: visible; } table { font-size: 7.5pt; } th, td { padding: .15rem .3rem; } th, td.name { white-space: normal; } tbody th, td.name { overflow-wrap: anywhere; } }
`;
