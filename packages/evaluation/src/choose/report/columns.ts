import { bytesText } from '@kv/core/shared';
import { percent } from '../../numbers.ts';
import type { Choice, ChoiceRow } from '../choice.ts';

/** A column of the table: its title, and the cell of a row. */
export type ChoiceColumn = readonly [title: string, cell: (row: ChoiceRow) => string];

/** Returns the columns of the table of candidates, without those that say nothing: without any value, or with one for all. */
export function choiceColumns(choice: Choice): readonly ChoiceColumn[] {
  const { kind, full } = choice,
    rows = shownRows(choice),
    points = (share: number): string => (100 * share).toFixed(1),
    known = ({ confirmed, loss }: ChoiceRow): ChoiceRow['loss'] => confirmed ?? loss;
  const all: readonly ChoiceColumn[] = [
    ['policy', ({ policy }) => policy],
    ['budget', ({ budget }) => String(budget)],
    [
      kind === 'answers' ? 'lost' : 'changed',
      (row) => {
        const loss = known(row);
        return loss ? points(loss.mean) : '';
      },
    ],
    [
      'interval',
      (row) => {
        const loss = known(row);
        return loss ? `${points(loss.low)} to ${points(loss.high)}` : '';
      },
    ],
    ['prompts', ({ confirmed, prompts }) => (confirmed ? `${confirmed.n} new` : String(prompts))],
    ['KL', ({ kl }) => (kl === undefined ? '' : kl.toPrecision(2))],
    ['cache', ({ bytes }) => bytesText(bytes)],
    ['time', ({ ms }) => (ms === undefined || full.ms <= 0 ? '' : (ms / full.ms).toFixed(2))],
  ];
  return all.filter(([title, cell]) => {
    const cells = new Set(rows.map(cell));
    return title === 'budget' || title === 'cache'
      ? rows.length < 2 || cells.size > 1
      : !(cells.size === 1 && cells.has(''));
  });
}

/** Rows of the table. */
const MOST_ROWS = 12;
/** Returns the rows that are shown: of those that were asked the best. */
export const shownRows = ({ rows }: Choice): readonly ChoiceRow[] =>
  rows.filter(({ loss, confirmed }) => loss ?? confirmed).slice(0, MOST_ROWS);

/** Explains the columns. */
export const choiceLegend = ({ kind, level }: Pick<Choice, 'kind' | 'level'>): string =>
  `${kind === 'answers' ? 'lost: points of the grade that the full cache has more' : 'changed: percent of the answers that are not those of the full cache'}; interval: ${percent(level)}. prompts: 'new' ones had no say in the choice; the others flatter the first rows.
KL: nats a token along the full cache's answer. cache: bytes after the event. time: of reading a prompt and its answer, against the full cache.`;
