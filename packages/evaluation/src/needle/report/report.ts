import { createHash } from 'node:crypto';
import { budgetLabel } from '../settings.ts';
import type { Mode, NeedleSettings } from '../settings.ts';
import type { NeedleTable } from '../table.ts';
import { escapeHtml } from './escape.ts';
import { depthPanels } from './panels.ts';
import { script } from './script.ts';
import { style } from './style.ts';
import { resultTable } from './table.ts';
import { keptText } from './text.ts';

/** Returns the hash by which a content security policy allows an inline element. */
const allowed = (content: string): string => `'sha256-${createHash('sha256').update(content).digest('base64')}'`;

/**
 * Content security policy: only the report's own script and style; no address, form, frame or handler that a name could
 * inject.
 */
const policy = `default-src 'none'; script-src ${allowed(script)}; style-src ${allowed(style)}; base-uri 'none'; form-action 'none'`;

/** Renders the report as one HTML file without external resources. */
export function needleReport(table: NeedleTable): string {
  const { settings, results } = table;
  const shown = results.find(({ example }) => example),
    minutes = results.flatMap(({ outcomes }) => outcomes).reduce((sum, { ms }) => sum + ms, 0) / 60_000;
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>What the cache keeps: ${escapeHtml(settings.model)}, ${settings.tokens} tokens</title>
<style>${style}</style>
<main>
<h1>Which policy still finds the needle?</h1>
<p class="lead">${lead(table)}</p>
<section aria-labelledby="depth"><h2 id="depth">Right answers, by depth and budget</h2>
<p>Each square is ${settings.prompts} prompts. Depth is where the fact stands in the text, from its beginning (0) to its end (1); the budget is what stays in the cache.</p>
${depthPanels(table)}</section>
${
  shown?.example
    ? `<section aria-labelledby="text"><h2 id="text">What was kept of one text</h2>
${keptText(table, shown, shown.example)}</section>`
    : ''
}
<section aria-labelledby="numbers"><h2 id="numbers">All numbers</h2>
${resultTable(table)}</section>
<footer><p>Seed ${settings.seed}; weights ${escapeHtml(settings.weights)}, on ${escapeHtml(settings.engine)}; ${asked(settings)}. Answers are greedy${settings.asking === 'cued' ? ' and right only if they are the value exactly' : ''}. Speed was measured over ${minutes.toFixed(1)} minutes of answering.</p></footer>
</main>
<script>${script}</script>
</html>
`;
}

function lead({ settings: { model, tokens, prompts, depths, modes, policies }, rows }: NeedleTable): string {
  const say = (mode: Mode, when: string): string => {
    const cut = rows.filter(({ arm }) => arm.mode === mode && arm.budget !== undefined && arm.forced === undefined),
      [best, next] = [...cut].sort(
        (a, b) => b.accuracy.share - a.accuracy.share || (a.memory?.mean ?? 0) - (b.memory?.mean ?? 0),
      );
    return modes.includes(mode) && best
      ? ` ${when}, <strong>${escapeHtml(best.policy)}</strong> at ${budgetLabel(best.arm)} is right most often, ${Math.round(100 * best.accuracy.share)} %${next?.accuracy.hits === best.accuracy.hits ? ' (the smallest cache of those that are)' : ''}.`
      : '';
  };
  return `A fact is hidden in a book, a policy cuts the model's cache, and the model is asked for the fact. ${prompts * depths.length} prompts of ${tokens} tokens, ${policies.length} policies, model “${escapeHtml(model)}”.${say('aware', 'When the question is known before the cut')}${say('agnostic', 'When it comes after the cut')}`;
}

const asked = ({ form, asking, distractors }: NeedleSettings): string =>
  `${{ code: '8-character codes', number: '7-digit numbers', both: '8-character codes and 7-digit numbers in turn' }[form]}, asked ${asking === 'cued' ? 'by the beginning of the statement' : 'as a question, right if the answer names the value'}${distractors > 0 ? `, among ${distractors} other facts of the same form` : ''}`;
