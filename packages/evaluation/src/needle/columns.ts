import { bytesText } from '@kv/core/shared';
import { percent } from '../numbers.ts';
import { budgetLabel } from './settings.ts';
import type { Mode } from './settings.ts';
import type { Accuracy, NeedleRow } from './summary.ts';

/** Title of a table, by mode. */
export const modeTitles: Readonly<Record<Mode, string>> = {
  aware: 'Query-aware: the question is in the prompt when the cache is cut',
  agnostic: 'Query-agnostic: the document is cut first, then comes the question',
};

export const intervalText = ({ interval: { low, high } }: Accuracy): string =>
  `${(100 * low).toFixed(0)}-${(100 * high).toFixed(0)} %`;

/** Formats a cell; `-` for an arm that was not run. */
const run =
  (cell: (row: NeedleRow) => string) =>
  (row: NeedleRow): string =>
    row.arm.forced === undefined ? cell(row) : '-';

/** The columns of a printed table: title, and cell of a row. */
export const needleColumns: readonly (readonly [title: string, cell: (row: NeedleRow) => string])[] = [
  ['policy', ({ policy }) => policy],
  ['budget', ({ arm }) => budgetLabel(arm)],
  ['right', run(({ accuracy: { share } }) => percent(share))],
  ['Wilson 95 %', (row) => (row.arm.forced === undefined ? intervalText(row.accuracy) : 'no room')],
  ['value kept', run(({ retained }) => percent(retained))],
  ['somewhere', run(({ somewhere }) => percent(somewhere))],
  ['cache, mean', ({ memory }) => (memory ? bytesText(memory.mean) : '-')],
  ['cache, peak', ({ memory }) => (memory ? bytesText(memory.peak) : '-')],
  ['speed', ({ speed }) => (speed === undefined ? '-' : `${speed.toFixed(2)}x`)],
];

/** Explains the columns. */
export const needleLegend = `value kept: layers and KV heads that still hold every token of the value, mean over prompts; somewhere: prompts where at least one does.
cache: bytes of keys, values, positions, what the policy remembers, and states of layers without slots: mean while answering, over prompts, and peak, with what its event reads of a prompt that passes layer by layer.
speed: tokens a second against those of the full cache in the same form on the same prompts.`;
