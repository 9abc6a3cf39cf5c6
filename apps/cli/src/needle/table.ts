import { colors as pc } from '../colors.ts';
import { bytesText, columns } from '../columns.ts';
import type { Mode } from './settings.ts';
import type { Accuracy, Row } from './summary.ts';

export const MODE_TITLES: Readonly<Record<Mode, string>> = {
  aware: 'Query-aware: the question is in the prompt when the cache is cut',
  agnostic: 'Query-agnostic: the document is cut first, then comes the question',
};
const HEAD = ['policy', 'budget', 'right', 'Wilson 95 %', 'value kept', 'cache, mean', 'cache, peak', 'tokens/s'];

export const percent = (share: number, digits = 0): string => `${(100 * share).toFixed(digits)} %`;
export const intervalText = ({ interval: { low, high } }: Accuracy): string =>
  `${(100 * low).toFixed(0)}-${(100 * high).toFixed(0)} %`;
export const budgetText = ({ way: { budget } }: Row): string => (budget === undefined ? 'all' : String(budget));

/** The rows as a table for a terminal, one block a mode, and what its columns say. */
export function table(rows: readonly Row[]): string {
  const modes = [...new Set(rows.map(({ way }) => way.mode))];
  const blocks = modes.map((mode) => {
    const own = rows.filter(({ way }) => way.mode === mode);
    return `${pc.bold(MODE_TITLES[mode])}\n${columns([HEAD.map(pc.dim), ...own.map((row, i) => line(row, own[i - 1]))], new Set([1, 2, 3, 4, 5, 6, 7]))}`;
  });
  return `${blocks.join('\n\n')}\n\n${pc.dim(LEGEND)}`;
}

function line(row: Row, above: Row | undefined): readonly string[] {
  const { policy, accuracy, retained, memory, speed } = row;
  const tint = accuracy.share >= 0.9 ? pc.green : accuracy.share < 0.4 ? pc.red : pc.yellow;
  return [
    above?.policy === policy ? '' : policy,
    budgetText(row),
    tint(percent(accuracy.share)),
    intervalText(accuracy),
    percent(retained),
    memory ? bytesText(memory.mean) : '-',
    memory ? bytesText(memory.peak) : '-',
    speed === undefined ? '-' : `${speed.toFixed(2)}x`,
  ];
}

const LEGEND = `value kept: layers and KV heads that still hold every token of the value, mean over prompts.
cache: bytes of keys, values, positions and what the policy remembers, of one run by itself: mean while answering, and peak.
tokens/s: against the full cache on the same prompts.`;
