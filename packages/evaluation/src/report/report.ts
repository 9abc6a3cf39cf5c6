import { createHash } from 'node:crypto';
import { mean, percent } from '../numbers.ts';
import { bytesText } from '../needle/columns.ts';
import { escapeHtml } from '../needle/report/escape.ts';
import { sweepJson } from '../sweep/write.ts';
import type { SweepOutcome } from '../sweep/write.ts';
import { otherTable } from './beside.ts';
import { chart } from './chart.ts';
import { grouped } from '../grouped.ts';
import { failures, groupsOf, wholeOf } from './groups.ts';
import type { Group } from './groups.ts';
import { depths, keptMaps, wayText } from './maps.ts';
import { style } from './style.ts';
import { verdicts } from './verdicts.ts';

/** What a report says of the run beside its numbers. */
export interface ReportFacts {
  readonly command: string;
  /** Such as `kv 0.1.0`, `Node 24.1.0`: names with versions. */
  readonly versions: Readonly<Record<string, string>>;
  readonly seeds: readonly number[];
  /** Such as the weights of each model and the sweep's file: names with hashes. */
  readonly hashes: Readonly<Record<string, string>>;
  /** Makes the command's text fit to be shown to others. @defaultValue as it is */
  readonly redact?: (text: string) => string;
}

const sha256 = (text: string, encoding: 'hex' | 'base64'): string => createHash('sha256').update(text).digest(encoding);

/**
 * A sweep as one HTML file that needs nothing else, neither script nor network: sentences with intervals, accuracy
 * against bytes, heat maps, what heads kept, certificates, and what it was made of. The same sweep, the same bytes.
 */
export function sweepReport(outcome: SweepOutcome, facts: ReportFacts): string {
  const groups = groupsOf(outcome),
    tasks = [...grouped(groups, ({ row }) => JSON.stringify([row.model, row.task])).values()];
  const parts = tasks.map((some) => {
    const { model, task } = some[0].row,
      read = some.some(({ row }) => row.perplexity),
      title = `${task} on ${model}`;
    return `<section><h2>${escapeHtml(title)}</h2>
<h3>${read ? 'One over the perplexity' : 'Right answers'} against mean bytes of the cache</h3>
${chart(some, title)}
${read ? '' : `<h3>Right answers by depth and budget</h3>\n${depths(some)}\n`}<h3>What was kept, by layer and KV head</h3>
${keptMaps(some)}
<h3>Certificates: what the cache lost</h3>
${certificateTable(some, groups, title)}</section>`;
  });
  const { command, versions, seeds, hashes, redact = (text) => text } = facts;
  const about: readonly (readonly [string, string])[] = [
    ['command', redact(command)],
    ...Object.entries(versions),
    ['seeds', seeds.join(', ')],
    ...Object.entries(hashes),
    ['sha256 of rows and samples', sha256(sweepJson(outcome), 'hex')],
  ];
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'sha256-${sha256(style, 'base64')}'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>What the cache keeps, and what it costs</title>
<style>${style}</style>
<main>
<h1>What the cache keeps, and what it costs</h1>
<section><h2>What came out</h2>
${verdicts(groups)}</section>
${parts.join('\n')}
${otherTable(outcome.beside ?? [])}<section><h2>How this was made</h2><dl>${about.map(([name, value]) => `<dt>${escapeHtml(name)}</dt><dd>${escapeHtml(value)}</dd>`).join('')}</dl></section>
</main>
</html>
`;
}

const known = (numbers: readonly (number | undefined)[], digits = 1): string => {
  const some = numbers.filter((x) => x !== undefined);
  return some.length === 0 ? '' : percent(mean(some), digits);
};

/** Dropped mass, overlap with the best set, the answer's tokens, and whose fault wrong answers are, a line a row. */
function certificateTable(groups: readonly Group[], all: readonly Group[], title: string): string {
  const head = [
    'policy',
    'right',
    'mean',
    'peak',
    'dropped',
    'least possible',
    'overlap',
    'answer kept',
    'wrong',
    'full fails too',
    'model failed',
    'cache lost it',
    'not in prompt',
  ];
  const lines = groups.map((group) => {
    const { row, cells, meanBytes } = group,
      { wrong, beyond, model, cache, unknown } = failures(group, wholeOf(group, all)),
      of = (name: 'dropped' | 'least' | 'overlap' | 'answerKept'): string =>
        known(cells.map(({ evidence }) => evidence[name]));
    const texts = [
      row.perplexity ? '' : percent(row.accuracy, 1),
      bytesText(meanBytes),
      bytesText(row.peakBytes),
      of('dropped'),
      of('least'),
      of('overlap'),
      of('answerKept'),
      ...[wrong, beyond, model, cache, unknown].map((count) => (row.perplexity ? '' : String(count))),
    ];
    return `<tr><th scope="row">${escapeHtml(wayText(group))}</th>${texts.map((text) => `<td>${text}</td>`).join('')}</tr>`;
  });
  return `<div class="scroll" role="region" aria-label="${escapeHtml(`Certificates of ${title}`)}" tabindex="0"><table><thead><tr>${head.map((name) => `<th scope="col">${name}</th>`).join('')}</tr></thead><tbody>${lines.join('\n')}</tbody></table></div>
<p class="key">Dropped: attention mass of the newest query outside the kept set at each event, or that views hid; least possible: the least that a set of that size can drop; overlap: with that set. Answer kept: share of layers and KV heads that hold every token of the answer when it begins. Of wrong answers: the full cache fails too; the model failed with the answer's tokens in most heads; the cache lost them in most heads; or the answer does not stand in the prompt.</p>`;
}
