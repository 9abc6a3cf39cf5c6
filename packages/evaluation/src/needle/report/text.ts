import { modeTitles } from '../columns.ts';
import type { NeedleSample, NeedleResult } from '../results.ts';
import { budgetLabel } from '../settings.ts';
import type { NeedleTable } from '../table.ts';
import { escapeHtml, inlineJson } from './escape.ts';

/**
 * Renders one text, every token shaded by the number of layers and heads that kept it, with selectors of policy, budget
 * and mode.
 */
export function keptText(
  { settings, arms }: NeedleTable,
  { value, outcomes }: NeedleResult,
  example: NeedleSample,
): string {
  const { rows, kept, valueTokens } = example;
  const answers = arms
    .map((_, arm) => outcomes.find((outcome) => outcome.arm === arm))
    .map((outcome) => ({ text: outcome?.answer.trim() ?? '', hit: outcome?.hit ?? false }));
  const cut = arms.filter(({ budget, forced }) => budget !== undefined && forced === undefined);
  const first = cut.find(({ policy }) => settings.policies[policy].startsWith('snapkv')) ?? cut[0] ?? arms[0];
  const select = (id: string, label: string, items: readonly (readonly [string, string])[], chosen: string): string =>
    `<span><label for="${id}">${label}</label> <select id="${id}">${items
      .map(
        ([item, shown]) =>
          `<option value="${escapeHtml(item)}"${item === chosen ? ' selected' : ''}>${escapeHtml(shown)}</option>`,
      )
      .join('')}</select></span>`;
  return `<p>Hidden: <strong>${escapeHtml(value)}</strong>. The stronger its shade, the more of the ${rows} pairs of layer and KV head kept a token; pale ones are in none of them. The value is underlined.</p>
<form class="choose">
${select(
  'policy',
  'Policy',
  settings.policies.map((policy, i) => [String(i), policy]),
  String(first.policy),
)}
${select(
  'budget',
  'Budget',
  [...new Set(cut.map(budgetLabel))].map((budget) => [budget, budget]),
  budgetLabel(first),
)}
${select(
  'mode',
  'Question',
  settings.modes.map((mode) => [mode, modeTitles[mode].split(':')[0]]),
  first.mode,
)}
</form>
<p id="said" role="status" aria-live="polite"></p>
<p class="text" id="kept">${tokens(example)}</p>
<script type="application/json" id="data">${inlineJson({ rows, kept, answers, value, valueTokens, arms: arms.map((arm) => [arm.policy, arm.budget === undefined ? null : budgetLabel(arm), arm.mode, arm.forced ?? null]) })}</script>`;
}

/** Renders a span for every token; a space before a word belongs to its token. */
function tokens({ text, offsets, valueTokens }: NeedleSample): string {
  const value = new Set(valueTokens);
  return offsets
    .map(([start, end], i) =>
      end > start
        ? `<span data-t="${i}"${value.has(i) ? ' class="value"' : ''}>${escapeHtml(text.slice(start, end)).replace(/\n/g, '<br>')}</span>`
        : '',
    )
    .join('');
}
