import { createHash } from 'node:crypto';
import { mean, percent } from '../numbers.ts';
import { bytesText } from '@kv/core/shared';
import { escapeHtml } from '../needle/report/escape.ts';
import { shownSweep, sweepJson } from '../sweep/write.ts';
import type { SweepOutcome } from '../sweep/write.ts';
import type { Sweep } from '../sweep/sweep.ts';
import { otherTable } from './other-table.ts';
import { chart } from './chart.ts';
import { conditions } from './conditions.ts';
import { groupBy } from '../grouped.ts';
import { failures, groupsOf, wholeOf } from './groups.ts';
import type { SweepGroup } from './groups.ts';
import { depths, keptMaps, wayText } from './maps.ts';
import { style } from './style.ts';
import { contrastSentences, verdicts } from './verdicts.ts';

/** Facts about the run that a report gives in addition to its numbers. */
export interface ReportFacts {
  readonly command: string;
  /** The sweep file as it was read. */
  readonly sweep: Sweep;
  /** Versions by name, such as `kv 0.1.0`, `Node 24.1.0`. */
  readonly versions: Readonly<Record<string, string>>;
  /** Hashes by name, such as of each model's weights and of the sweep file. */
  readonly hashes: Readonly<Record<string, string>>;
  /** Redacts texts of the command and the sweep. @defaultValue unchanged */
  readonly redact?: (text: string) => string;
}

const sha256 = (text: string, encoding: 'hex' | 'base64'): string => createHash('sha256').update(text).digest(encoding);

/**
 * Renders a sweep as one self-contained HTML file without scripts: sentences with intervals, accuracy against bytes,
 * heat maps, what heads kept, certificates, and how it was made, including the sweep as JSON. The same sweep gives the
 * same bytes.
 */
export function sweepReport(
  outcome: SweepOutcome,
  { command, sweep, versions, hashes, redact = (text) => text }: ReportFacts,
): string {
  const groups = groupsOf(outcome),
    tasks = [...groupBy(groups, ({ row }) => JSON.stringify([row.model, row.task])).values()];
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
${certificateTable(some, groups, title, sweep)}</section>`;
  });
  const shown = shownSweep(sweep, redact);
  const about: readonly (readonly [string, string])[] = [
    ['command', redact(command)],
    ...Object.entries(versions),
    ...(outcome.code ? [['code', outcome.code.join(', ')] as const] : []),
    ['seeds', (sweep.seeds ?? [0]).join(', ')],
    ...Object.entries(hashes),
    ['sha256 of what --json prints', sha256(sweepJson(outcome), 'hex')],
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
<p>${escapeHtml(conditions(shown))}</p>
${contrastSentences(outcome.contrasts ?? [])}<section><h2>What came out</h2>
${verdicts(groups, outcome.contrasts ?? [], sweep.part)}</section>
${parts.join('\n')}
${otherTable(outcome.others ?? [])}<section><h2>How this was made</h2><dl>${about.map(([name, value]) => `<dt>${escapeHtml(name)}</dt><dd>${escapeHtml(value)}</dd>`).join('')}<dt>sweep</dt><dd><pre>${escapeHtml(JSON.stringify(shown, undefined, 2))}</pre></dd></dl></section>
</main>
</html>
`;
}

const known = (numbers: readonly (number | undefined)[], digits = 1): string => {
  const some = numbers.filter((x) => x !== undefined);
  return some.length === 0 ? '' : percent(mean(some), digits);
};

/**
 * Renders dropped mass, overlap with the best set, the answer's tokens, and causes of wrong answers, a line per row.
 */
function certificateTable(
  groups: readonly SweepGroup[],
  all: readonly SweepGroup[],
  title: string,
  { every }: Sweep,
): string {
  const head = [
    'policy',
    'right',
    'mean bytes',
    'peak bytes',
    'dropped',
    'least possible',
    'overlap',
    'answer kept',
    'wrong',
    'the full cache fails too',
    'kept in all heads',
    'kept in some',
    'kept in none',
    'not in prompt',
  ];
  const lines = groups.map((group) => {
    const { row, cells } = group,
      whole = wholeOf(group, all),
      { wrong, beyond, all: inAll, some, none, unknown } = failures(group, whole),
      of = (name: 'dropped' | 'least' | 'overlap' | 'answerKept'): string =>
        known(cells.map(({ evidence }) => evidence[name]));
    const texts = [
      row.perplexity ? '' : percent(row.accuracy, 1),
      bytesText(row.meanBytes),
      bytesText(row.peakBytes),
      of('dropped'),
      of('least'),
      of('overlap'),
      of('answerKept'),
      ...[wrong, whole && beyond, inAll, some, none, unknown].map((count) =>
        row.perplexity ? '' : String(count ?? ''),
      ),
    ];
    return `<tr><th scope="row">${escapeHtml(wayText(group))}</th>${texts.map((text) => `<td>${text}</td>`).join('')}</tr>`;
  });
  return `<div class="scroll" role="region" aria-label="${escapeHtml(`Certificates of ${title}`)}" tabindex="0"><table><thead><tr>${head.map((name) => `<th scope="col">${name}</th>`).join('')}</tr></thead><tbody>${lines.join('\n')}</tbody></table></div>
<p class="key">Dropped: attention mass of the newest query outside the kept set at each event, or that views hid; least possible: the least that a set of that size can drop; overlap: with that set. Answer kept: share of the KV heads of all layers that hold every token of the answer when it begins${every === undefined ? '' : `; an event every ${every} tokens of the answer may drop more later`}.</p>
<p class="key">Each wrong answer is one of these. The full cache fails too: it answers the same problem wrongly. Kept in all heads: every KV head of every layer held all of the answer's tokens when it began, so the model failed. Kept in some: some heads held them all and others did not, so either may have failed, as a model can answer from few heads. Kept in none: no head of any layer held them all, so the cache lost it. Not in prompt: the answer does not stand in the prompt word for word, so its tokens are not known.</p>`;
}
