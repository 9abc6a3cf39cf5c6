import { bytesText } from '@kv/core/shared';
import { escapeHtml } from '../../needle/report/escape.ts';
import { style as base } from '../../needle/report/style.ts';
import type { Choice } from '../choice.ts';
import { choiceColumns, choiceLegend, shownRows } from './columns.ts';
import type { UseLine } from './lines.ts';
import { axesOf, frontierOf, pictureTexts, shownIn } from './picture.ts';
import { choiceSentences, rowOf, wayText } from './sentence.ts';

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [640, 320, 56, 16, 14, 44];

const style = `${base}
.chart { width: 100%; max-width: 46rem; height: auto; }
.chart text { font: 12px system-ui, sans-serif; fill: var(--soft); }
.chart .axis, .chart .frontier { fill: none; stroke: var(--line); }
.chart .frontier { stroke: rgb(var(--mark)); stroke-width: 1.5; }
.chart circle { fill: var(--pale); } .chart .best { fill: rgb(var(--mark)); } .chart .chosen { fill: none; stroke: var(--bad); stroke-width: 3; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: var(--empty); padding: .6rem .8rem; border-radius: 8px; }
td:nth-child(2), th:nth-child(2) { text-align: left; } tbody th { white-space: normal; overflow-wrap: anywhere; max-width: 30rem; }
`;

/** The policy of the file: its own style, and nothing else: no script, address or form. */
const CSP = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/** Facts about a choice for its report. */
export interface ChoiceReportFacts {
  readonly command: string;
  /** A last sentence: how the choice goes on. */
  readonly goesOn?: string | undefined;
  /** Versions by name. */
  readonly versions: Readonly<Record<string, string>>;
}

/** Renders a choice as one HTML file without scripts or network: sentences, picture, table, and the lines that use it. */
export function choiceReport(
  choice: Choice,
  lines: readonly UseLine[],
  { command, goesOn, versions }: ChoiceReportFacts,
): string {
  const [first, ...others] = choiceSentences(choice),
    about: readonly (readonly [string, string])[] = [
      ['model', choice.model],
      ['engine', choice.engine],
      ['command', command],
      ['seed', String(choice.seed)],
      ['texts', promptsText(choice)],
      ...Object.entries(versions),
    ];
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${CSP}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>What ${escapeHtml(choice.model)} may drop</title>
<style>${style}</style>
<main>
<h1>What may be dropped, and what it costs</h1>
<p class="lead"><strong>${escapeHtml(first)}</strong></p>
${[...others, ...(goesOn === undefined ? [] : [goesOn])].map((sentence) => `<p>${escapeHtml(sentence)}</p>`).join('\n')}
<section><h2>Loss against bytes</h2>
${chart(choice)}</section>
${uses(lines)}
<section><h2>The best candidates</h2>
${table(choice)}
<p class="key">${escapeHtml(choiceLegend(choice))}</p></section>
<footer>${about.map(([name, value]) => `<p>${escapeHtml(name)}: ${escapeHtml(value)}</p>`).join('')}</footer>
</main>
</html>
`;
}

/** Describes the texts that were asked. */
export const promptsText = ({ prompts: { choosing, confirming, documents, tokens } }: Choice): string =>
  `${choosing} to choose and ${confirming} to confirm, of ${documents} documents, ${Math.round(tokens)} tokens on average`;

/** Renders losses against bytes, a circle a candidate with its name as title, and the frontier as a line. */
function chart(choice: Choice): string {
  const { title, points, labelOf } = shownIn(choice);
  if (points.length === 0) return '<p>No candidate was asked.</p>';
  const { bytes, loss } = axesOf(points, choice.full.bytes),
    along = (value: number): string =>
      (LEFT + ((WIDTH - LEFT - RIGHT) * (value - bytes.from)) / (bytes.to - bytes.from)).toFixed(1),
    up = (value: number): string =>
      (HEIGHT - BOTTOM - ((HEIGHT - TOP - BOTTOM) * (value - loss.from)) / (loss.to - loss.from)).toFixed(1),
    best = frontierOf(points),
    chosen = rowOf(choice);
  const dots = points.map(
      (point) =>
        `<circle${best.includes(point) ? ' class="best"' : ''} cx="${along(point.bytes)}" cy="${up(point.loss)}" r="3.5"><title>${escapeHtml(`${wayText(point.row)}: ${labelOf(point.loss)}, ${bytesText(point.bytes)}`)}</title></circle>`,
    ),
    ring = points
      .filter(({ row }) => row === chosen)
      .map((point) => `<circle class="chosen" cx="${along(point.bytes)}" cy="${up(point.loss)}" r="8"/>`),
    ticks = [0, 0.5, 1],
    labels = [
      ...ticks.map((at) => {
        const value = loss.from + at * (loss.to - loss.from);
        return `<text x="${LEFT - 6}" y="${up(value)}" dy="4" text-anchor="end">${labelOf(value)}</text>`;
      }),
      ...ticks.map((at, i) => {
        const value = bytes.from + at * (bytes.to - bytes.from);
        return `<text x="${along(value)}" y="${HEIGHT - 26}" text-anchor="${['start', 'middle', 'end'][i]}">${bytesText(value)}</text>`;
      }),
      `<text x="${WIDTH / 2}" y="${HEIGHT - 8}" text-anchor="middle">bytes of the cache (the full cache has ${bytesText(choice.full.bytes)})</text>`,
    ];
  return `<svg class="chart" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${title} against bytes of ${points.length} candidates">
<path class="axis" d="M${LEFT} ${TOP}V${HEIGHT - BOTTOM}H${WIDTH - RIGHT}"/>${labels.join('')}
<polyline class="frontier" points="${best.map((point) => `${along(point.bytes)},${up(point.loss)}`).join(' ')}"/>
${dots.join('\n')}${ring.join('')}</svg>
<p class="key">A circle is a candidate; the line joins those on the frontier: none loses less in as few bytes. The ring is the choice, or what came nearest. ${escapeHtml(pictureTexts(choice))}</p>`;
}

/** Renders the lines that use a choice; empty without any. */
const uses = (lines: readonly UseLine[]): string =>
  lines.length === 0
    ? ''
    : `<section><h2>To use it</h2>
${lines
  .map(({ where, line, why, note }) =>
    line === undefined
      ? `<h3>${escapeHtml(where)}</h3><p>Cannot run it: ${escapeHtml(why ?? '')}.</p>`
      : `<h3>${escapeHtml(where)}</h3><pre>${escapeHtml(line)}</pre>${note === undefined ? '' : `<p class="key">${escapeHtml(note)}</p>`}`,
  )
  .join('\n')}</section>`;

function table(choice: Choice): string {
  const columns = choiceColumns(choice),
    lines = shownRows(choice).map((row) =>
      columns
        .map(([, cell], c) =>
          c === 0 ? `<th scope="row">${escapeHtml(cell(row))}</th>` : `<td>${escapeHtml(cell(row))}</td>`,
        )
        .join(''),
    );
  return `<div class="scroll" role="region" aria-label="Candidates" tabindex="0"><table><thead><tr>${columns.map(([title]) => `<th scope="col">${escapeHtml(title)}</th>`).join('')}</tr></thead><tbody>${lines.map((line) => `<tr>${line}</tr>`).join('\n')}</tbody></table></div>`;
}
