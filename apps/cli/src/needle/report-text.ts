import { escapeHtml, inlineJson } from './report-escape.ts';
import type { Example, PromptResult } from './results.ts';
import type { Settings, Way } from './settings.ts';
import { MODE_TITLES } from './table.ts';

/** One text, every token shaded by how many layers and heads kept it, with selectors of policy, budget and mode. */
export function keptText(
  { settings, ways }: { readonly settings: Settings; readonly ways: readonly Way[] },
  { value, outcomes, example }: PromptResult,
): string {
  const { rows, kept } = example!;
  const answers = ways
    .map((_, way) => outcomes.find((outcome) => outcome.way === way))
    .map((outcome) => ({ text: outcome?.answer.trim() ?? '', hit: outcome?.hit ?? false }));
  const cut = ways.filter(({ budget }) => budget !== undefined);
  const first = cut.find(({ policy }) => settings.policies[policy].startsWith('snapkv')) ?? cut[0] ?? ways[0];
  const options = (items: readonly (readonly [value: string, label: string])[], chosen: string): string =>
    items
      .map(
        ([item, label]) =>
          `<option value="${escapeHtml(item)}"${item === chosen ? ' selected' : ''}>${escapeHtml(label)}</option>`,
      )
      .join('');
  const select = (id: string, label: string, items: readonly (readonly [string, string])[], chosen: string): string =>
    `<label for="${id}">${label}</label> <select id="${id}">${options(items, chosen)}</select>`;
  return `<p>Hidden: <strong>${escapeHtml(value)}</strong>. The stronger its shade, the more of the ${rows} pairs of layer and KV head kept a token; pale ones are in none of them. The value is underlined.</p>
<form class="choose">
<span>${select(
    'policy',
    'Policy',
    settings.policies.map((policy, i) => [String(i), policy]),
    String(first.policy),
  )}</span>
<span>${select(
    'budget',
    'Budget',
    settings.budgets.map((budget) => [String(budget), String(budget)]),
    String(first.budget),
  )}</span>
<span>${select(
    'mode',
    'Question',
    settings.modes.map((mode) => [mode, MODE_TITLES[mode].split(':')[0]]),
    first.mode,
  )}</span>
</form>
<p id="said" role="status" aria-live="polite"></p>
<p class="text" id="kept">${tokens(example!)}</p>
<script type="application/json" id="data">${inlineJson({ rows, kept, answers, value, valueTokens: example!.valueTokens, ways: ways.map(({ policy, budget, mode }) => [policy, budget === undefined ? null : String(budget), mode]) })}</script>`;
}

/** A span for every token; a space before a word belongs to its token. */
function tokens({ text, offsets, valueTokens }: Example): string {
  const value = new Set(valueTokens);
  return offsets
    .map(([start, end], i) =>
      end > start
        ? `<span data-t="${i}"${value.has(i) ? ' class="value"' : ''}>${escapeHtml(text.slice(start, end)).replace(/\n/g, '<br>')}</span>`
        : '',
    )
    .join('');
}
