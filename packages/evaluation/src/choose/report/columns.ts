import { bytesText } from '@kv/core/shared';
import { percent } from '../../numbers.ts';
import type { Choice, ChoiceRow } from '../choice.ts';

/** A column of the table: its title, and the cell of a row. */
export type ChoiceColumn = readonly [title: string, cell: (row: ChoiceRow) => string];

/** Returns the columns of the table of candidates; those without any value are left out. */
export function choiceColumns({ kind, full, rows }: Choice): readonly ChoiceColumn[] {
  const points = (share: number): string => (100 * share).toFixed(1),
    all: readonly ChoiceColumn[] = [
      ['policy', ({ policy }) => policy],
      ['budget', ({ budget }) => String(budget)],
      [kind === 'answers' ? 'right lost, %' : 'changed, %', ({ confirmed, loss }) => points((confirmed ?? loss)?.mean ?? NaN)],
      [
        '95 %',
        ({ confirmed, loss }) => {
          const of = confirmed ?? loss;
          return of ? `${points(of.low)} to ${points(of.high)}` : '';
        },
      ],
      ['texts', ({ confirmed, prompts }) => (confirmed ? `${confirmed.n} new` : String(prompts))],
      ['KL', ({ kl }) => (kl === undefined ? '' : kl.toPrecision(2))],
      ['right', ({ right }) => (right === undefined ? '' : percent(right))],
      ['cache', ({ bytes }) => bytesText(bytes)],
      ['time', ({ ms }) => (ms === undefined || full.ms <= 0 ? '' : (ms / full.ms).toFixed(2))],
    ];
  return all.filter(([, cell], c) => c < 3 || rows.some((row) => cell(row) !== ''));
}

/** Rows of the table. */
const MOST_ROWS = 12;
/** Returns the rows that are shown: of those that were asked the best. */
export const shownRows = ({ rows }: Choice): readonly ChoiceRow[] =>
  rows.filter(({ loss, confirmed }) => loss ?? confirmed).slice(0, MOST_ROWS);

/** Explains the columns. */
export const choiceLegend = `95 %: interval of the loss; that of the texts that chose (without "new") flatters the first rows.
KL: nats a token along the full cache's own answer. cache: bytes after the event, mean. time: of reading a text and its answer, against that of the full cache.`;
