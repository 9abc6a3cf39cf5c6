import { createHash } from 'node:crypto';
import { duration } from './progress.ts';
import { escapeHtml } from './report-escape.ts';
import { depthPanels } from './report-panels.ts';
import { script } from './report-script.ts';
import { style } from './report-style.ts';
import { keptText } from './report-text.ts';
import { resultTable } from './report-table.ts';
import { isAlone } from './results.ts';
import type { PromptResult, Result } from './results.ts';
import type { Settings, Way } from './settings.ts';
import type { Row } from './summary.ts';

export interface ReportData {
  readonly settings: Settings;
  readonly ways: readonly Way[];
  readonly rows: readonly Row[];
  readonly results: readonly Result[];
}

/** The hash by which a policy lets an element run or apply. */
const allowed = (content: string): string => `'sha256-${createHash('sha256').update(content).digest('base64')}'`;

/** Nothing but the report's own script and style: no address, form, frame or handler that a name could bring in. */
const policy = `default-src 'none'; script-src ${allowed(script)}; style-src ${allowed(style)}; base-uri 'none'; form-action 'none'`;

/** The report as one HTML file without external resources. */
export function reportHtml(data: ReportData): string {
  const { settings, rows, results } = data;
  const example = results.find((result): result is PromptResult => !isAlone(result) && result.example !== undefined);
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>What the cache keeps: ${escapeHtml(settings.model)}, ${settings.tokens} tokens</title>
<style>${style}</style>
<main>
<h1>Which policy still finds the needle?</h1>
<p class="lead">${lead(data)}</p>
<section aria-labelledby="depth"><h2 id="depth">Right answers, by depth and budget</h2>
<p>Each square is ${settings.prompts} prompts. Depth is where the fact stands in the text, from its beginning (0) to its end (1); the budget is what stays in the cache.</p>
${depthPanels(settings, rows)}</section>
${
  example
    ? `<section aria-labelledby="text"><h2 id="text">What was kept of one text</h2>
${keptText(data, example)}</section>`
    : ''
}
<section aria-labelledby="numbers"><h2 id="numbers">All numbers</h2>
${resultTable(rows)}</section>
<footer><p>Seed ${settings.seed}; weights ${settings.weights}, on ${escapeHtml(settings.engine)}; ${asked(settings)}. Answers are greedy and right only if they are the value exactly. Speed was measured over ${answering(results)} of answering.</p></footer>
</main>
<script>${script}</script>
</html>
`;
}

function lead({ settings: { model, tokens, prompts, depths, modes, policies }, rows }: ReportData): string {
  const cut = rows.filter(({ way }) => way.budget !== undefined);
  const best = (mode: string): Row | undefined =>
    cut
      .filter(({ way }) => way.mode === mode)
      .sort((a, b) => b.accuracy.share - a.accuracy.share || (a.memory?.mean ?? 0) - (b.memory?.mean ?? 0))[0];
  const ties = (row: Row): boolean =>
    cut.some((other) => other !== row && other.way.mode === row.way.mode && other.accuracy.hits === row.accuracy.hits);
  const say = (mode: string, when: string): string => {
    const row = best(mode);
    return row
      ? ` ${when}, <strong>${escapeHtml(row.policy)}</strong> at ${row.way.budget} is right most often, ${Math.round(100 * row.accuracy.share)} %${ties(row) ? ' (the smallest cache of those that are)' : ''}.`
      : '';
  };
  return (
    `A fact is hidden in a book, a policy cuts the model's cache, and the model is asked for the fact. ${prompts * depths.length} prompts of ${tokens} tokens, ${policies.length} policies, model “${escapeHtml(model)}”.` +
    (modes.includes('aware') ? say('aware', 'When the question is known before the cut') : '') +
    (modes.includes('agnostic') ? say('agnostic', 'When it comes after the cut') : '')
  );
}

const asked = ({ form, asking, distractors }: Settings): string =>
  `${{ code: '8-character codes', number: '7-digit numbers', both: '8-character codes and 7-digit numbers in turn' }[form]}, asked ${asking === 'cued' ? 'by the beginning of the statement' : 'as a question, right if the answer names the value'}${distractors > 0 ? `, among ${distractors} other facts of the same form` : ''}`;

const answering = (results: readonly Result[]): string =>
  duration(
    results.flatMap((result) => (isAlone(result) ? [] : result.outcomes)).reduce((sum, { ms }) => sum + ms, 0) / 1000,
  );
