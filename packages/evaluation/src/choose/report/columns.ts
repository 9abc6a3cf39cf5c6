import { bytesText } from '@kv/core/shared';
import { percent } from '../../numbers.ts';
import type { Choice, ChoiceRow } from '../choice.ts';
import type { LossInterval } from '../statistics/loss-interval.ts';
import { isGain } from '../statistics/words.ts';

/** A column of the table: its title, the cell of a row, and what it is where the title does not say it. */
export type ChoiceColumn = readonly [title: string, cell: (row: ChoiceRow) => string, says?: string];

/** Returns the loss of a row that is shown: on the texts that confirm, if it was asked these. */
export const lossOf = ({ confirmed, loss }: ChoiceRow): LossInterval | undefined => confirmed ?? loss;

/** Returns the columns of the table of candidates, without those that say nothing: without any value, or with one for all. */
export function choiceColumns(choice: Choice): readonly ChoiceColumn[] {
  const { kind, full, level } = choice,
    rows = shownRows(choice),
    points = (share: number): string => (100 * share).toFixed(1),
    ofLoss =
      (text: (loss: LossInterval) => string) =>
      (row: ChoiceRow): string => {
        const loss = lossOf(row);
        return loss ? text(loss) : '';
      };
  const all: readonly ChoiceColumn[] = [
    ['policy', ({ policy }) => policy],
    ['budget', ({ budget }) => String(budget)],
    kind === 'answers'
      ? [
          'lost',
          ofLoss(({ mean }) => points(mean)),
          `points of the grade that the full cache has more${rows.some((row) => isGain(lossOf(row)?.mean ?? 0)) ? '; below 0 the policy has more' : ''}`,
        ]
      : ['changed', ofLoss(({ mean }) => points(mean)), 'percent of the answers that are not those of the full cache'],
    [
      'interval',
      ofLoss(({ low, high }) => `${points(low)} to ${points(high)}`),
      `the ${percent(level)} interval of that`,
    ],
    [
      'prompts',
      ({ confirmed, prompts }) => (confirmed ? `${confirmed.n} new` : String(prompts)),
      [
        'how many were asked',
        ...(rows.some(({ confirmed }) => confirmed) ? ["'new' ones took no part in the choice"] : []),
        ...(rows.some(({ confirmed }) => !confirmed)
          ? [
              'by those without that word candidates were put in order, so the first rows look better on them than they are',
            ]
          : []),
      ].join('; '),
    ],
    ['KL', ({ kl }) => (kl === undefined ? '' : kl.toPrecision(2)), "nats a token along the full cache's answer"],
    ['cache', ({ bytes }) => bytesText(bytes), 'bytes once slots were dropped'],
    [
      'time',
      ({ ms }) => (ms === undefined || full.ms <= 0 ? '' : (ms / full.ms).toFixed(2)),
      'of reading a prompt and its answer, against the full cache',
    ],
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
  rows.filter((row) => lossOf(row)).slice(0, MOST_ROWS);

/** Explains the columns of the table. */
export const choiceLegend = (choice: Choice): string =>
  choiceColumns(choice)
    .flatMap(([title, , says]) => (says === undefined ? [] : [`${title}: ${says}.`]))
    .join(' ');
