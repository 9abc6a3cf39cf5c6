import { bytesText, counted } from '@kv/core/shared';
import { percent } from '../../numbers.ts';
import type { Choice, ChoiceRow } from '../choice.ts';
import { lossText, powerNote } from '../statistics/words.ts';

/** Returns a policy and its budget. */
export const wayText = ({ policy, budget }: Pick<ChoiceRow, 'policy' | 'budget'>): string => `${policy} at ${budget}`;

/** Returns the candidate that a choice is about: the chosen one, or the one that came nearest. */
export const rowOf = ({ rows, chosen, nearest }: Choice): ChoiceRow | undefined => rows[chosen ?? nearest ?? -1];

/**
 * Says what a choice came to, a sentence each: what to keep, what is lost with its interval on texts that had no say,
 * memory and time against the full cache, what cannot be told apart, and what lost answers have in common.
 */
export function choiceSentences(choice: Choice): readonly string[] {
  const row = rowOf(choice);
  if (row === undefined) return ['No candidate was asked, so nothing is known yet.', ...unfinished(choice)];
  return [
    lead(choice, row),
    cost(choice, row),
    ...power(choice, row),
    ...ties(choice),
    ...failures(choice),
    ...model(choice),
    ...unfinished(choice),
  ];
}

function lead({ goal, kind, level, chosen, done }: Choice, row: ChoiceRow): string {
  const { confirmed, loss } = row,
    lost =
      confirmed !== undefined
        ? `${lossText(confirmed, { kind, level })}, on texts that had no say in the choice`
        : loss !== undefined
          ? `${lossText(loss, { kind, level, chose: true })}, on the texts that chose it, which flatters it`
          : 'not measured yet',
    way = wayText(row);
  if (chosen !== undefined && 'budget' in goal)
    return `${done ? 'Least' : 'So far least'} is lost with ${way}: ${lost}.`;
  if (chosen !== undefined) return `${done ? 'Keep' : 'So far, keep'} ${way}: ${lost}.`;
  const within = 'lose' in goal ? `loses at most ${percent(goal.lose, 1)}` : `fits ${goal.budget}`;
  return `${done ? 'No candidate' : 'So far no candidate'} ${within}, so nothing should be dropped. Nearest is ${way}: ${lost}.`;
}

function cost({ full, form }: Choice, { bytes, ms }: ChoiceRow): string {
  const time =
    ms === undefined || full.ms <= 0
      ? ''
      : `; reading a text and its answer takes ${(ms / full.ms).toFixed(2)} times as long`;
  return `The cache holds ${bytesText(bytes)} of ${bytesText(full.bytes)} (${percent(bytes / full.bytes)})${form === undefined ? '' : ` in ${form}`}${time}.`;
}

/** Says whether the interval keeps a loss that was asked for. */
function power({ goal, kind, level, chosen }: Choice, { confirmed }: ChoiceRow): readonly string[] {
  if (chosen === undefined || !confirmed || !('lose' in goal) || confirmed.high <= goal.lose) return [];
  return [
    ...(confirmed.mean > goal.lose
      ? [`That is more than ${percent(goal.lose, 1)}, within which it kept on the texts that chose it.`]
      : []),
    ...[powerNote(confirmed.clusters, goal.lose, { kind, level }) ?? []].flat(),
  ];
}

function ties({ goal, chosen, tied, rows }: Choice): readonly string[] {
  if ('lose' in goal || chosen === undefined || tied.length === 0) return [];
  const compared = rows.filter(({ confirmed }) => confirmed).length - 1,
    others = tied.map((at) => wayText(rows[at]));
  if (compared > 0 && tied.length >= compared)
    return [
      `No difference was found between it and the ${counted(compared, 'other')} that were compared on those texts.`,
    ];
  return [
    `These texts cannot tell it from ${counted(tied.length, 'other')}: ${others.slice(0, 3).join('; ')}${others.length > 3 ? '; …' : ''}.`,
  ];
}

function failures({ failures, prompts }: Choice): readonly string[] {
  if (!failures || !prompts.answers) return []; // what the right answer's tokens are is not known
  const { lost, dropped, full } = failures;
  return [
    ...(lost > 0
      ? [
          `In ${dropped} of ${counted(lost, 'text')} whose answer it lost, no head held all of the answer's tokens${dropped < lost ? '; elsewhere some head did, or the answer does not stand in the text' : ''}.`,
        ]
      : []),
    ...(full > 0 ? [`The model fails on ${full} of these texts with its full cache too.`] : []),
  ];
}

/** Says why answers were not used. */
const model = ({ kind, prompts, full }: Choice): readonly string[] =>
  kind === 'same' && prompts.answers && full.right === 0
    ? ['With its full cache the model gives none of the right answers, so its own answers were the measure.']
    : [];

const unfinished = ({ done, left }: Choice): readonly string[] => [
  ...(done ? [] : ['This is not the end: it was stopped early.']),
  ...(left > 0 ? [`${counted(left, 'candidate')} could not be asked in this time.`] : []),
];
