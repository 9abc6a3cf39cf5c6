import { intervalText, modeTitles } from '../columns.ts';
import { budgetLabel } from '../settings.ts';
import type { Accuracy } from '../summary.ts';
import type { NeedleTable } from '../table.ts';
import { escapeHtml } from './escape.ts';
import { isWide, panel, type PanelRow } from './panel.ts';

/**
 * Renders a small table for every policy and mode: depths across, budgets down, shaded by the share of right answers.
 */
export function depthPanels({ settings: { modes, policies, depths }, rows }: NeedleTable): string {
  const wide = rows.some(({ arm }) => isWide(budgetLabel(arm)));
  const panels = modes.map((mode) => {
    const ofMode = policies.map((name, policy) => {
      const lines = rows
        .filter(({ arm }) => arm.mode === mode && arm.policy === policy)
        .map(({ arm, byDepth }): PanelRow => {
          const room = `<td colspan="${depths.length}" title="${arm.forced} slots are forced in every head">no room</td>`;
          return [budgetLabel(arm), arm.forced === undefined ? byDepth.map(cell).join('') : room];
        });
      return `<figure data-mode="${mode}"><figcaption>${caption(name)}</figcaption>${panel(lines, depths)}</figure>`;
    });
    return `<h3>${escapeHtml(modeTitles[mode])}</h3>\n<div class="panels${wide ? ' wide' : ''}">${ofMode.join('\n')}</div>`;
  });
  return `${panels.join('\n')}<p class="key"><span class="ramp" aria-hidden="true"></span> 0 to 100 % right; the number in a square is the percentage.</p>`;
}

/** Renders a policy with its name large and its options small. */
function caption(policy: string): string {
  const [, name = policy, options = ''] = /^(\w+)\((.*)\)$/s.exec(policy) ?? [];
  return `<strong>${escapeHtml(name)}</strong>${options ? ` <small>${escapeHtml(options).replace(/,/g, ', ')}</small>` : ''}`;
}

function cell(accuracy: Accuracy): string {
  const { share, hits, n } = accuracy,
    percent = Math.round(100 * share);
  return `<td title="${hits} of ${n} right, Wilson 95 %: ${intervalText(accuracy)}" class="k${percent}${share > 0.72 ? ' on' : ''}">${percent}</td>`;
}
