import { bytesText, counted } from '@kv/core/shared';
import { percent } from '../../numbers.ts';
import type { Choice, ChoiceRow } from '../choice.ts';
import { keepsLoss, withinOne } from '../statistics/losses.ts';
import { documentsToTell } from '../statistics/loss-interval.ts';
import { lossText, powerNote } from '../statistics/words.ts';
import { lossOf } from './columns.ts';

/** Returns a policy and its budget. */
export const wayText = ({ policy, budget }: Pick<ChoiceRow, 'policy' | 'budget'>): string =>
  `${policy} ${budgetWords(String(budget))}`;

/** Says what a budget is: a number of slots, a share of them or of memory, or bytes. */
function budgetWords(budget: string): string {
  const [, share, form] = /^([\d.]+)%(?: of (\w+))?$/.exec(budget) ?? [];
  if (share !== undefined)
    return form === undefined ? `with ${share} % of the slots` : `with ${share} % of the memory of ${form}`;
  return /^\d+$/.test(budget) ? `with ${counted(Number(budget), 'slot')} per layer and KV head` : `in ${budget}`;
}

/** Returns the candidate that a choice is about: the chosen one, or the one that came nearest. */
export const rowOf = ({ rows, chosen, nearest }: Choice): ChoiceRow | undefined => rows[chosen ?? nearest ?? -1];

/**
 * Whether a candidate lost 50 points of the grade or more. An answer in other words may be as good, so that without grades
 * nothing is said to be of no use.
 */
export const losesMost = ({ kind }: Pick<Choice, 'kind'>, row: ChoiceRow): boolean =>
  kind === 'answers' && (lossOf(row)?.mean ?? 0) >= 0.5;

/** Whether a choice was stopped, or ran out of time, before all was asked: given its state, another goes on from it. */
export const isEarly = ({ done, left }: Pick<Choice, 'done' | 'left'>): boolean => !done || left > 0;

/**
 * Says what a choice came to, a sentence each: what to use, what is lost with its interval on texts that took no part in
 * the choice, memory and time against the full cache, when slots are dropped, what cannot be told apart, and what lost
 * answers have in common.
 */
export function choiceSentences(choice: Choice): readonly string[] {
  const row = rowOf(choice);
  if (row === undefined) return ['No candidate was asked, so nothing is known yet.'];
  return [
    lead(choice, row),
    ...useless(choice, row),
    cost(choice, row),
    event(choice),
    ...power(choice, row),
    ...alike(choice),
    ...ties(choice),
    ...failures(choice, row),
    ...measure(choice),
  ];
}

function lead(choice: Choice, row: ChoiceRow): string {
  const { goal, kind, level, chosen } = choice,
    { confirmed, loss } = row,
    lost =
      confirmed !== undefined
        ? `${lossText(confirmed, { kind, level })}, on texts that took no part in the choice`
        : loss !== undefined
          ? `${lossText(loss, { kind, level, chose: true })}, measured on the texts that chose it; expect to lose more on others`
          : 'not measured yet',
    way = wayText(row);
  const said =
    chosen === undefined
      ? `no candidate ${'lose' in goal ? `loses at most ${percent(goal.lose, 1)}` : `fits ${goal.budget}`}, so nothing should be dropped. Nearest is ${way}`
      : 'lose' in goal
        ? `use the policy ${way}`
        : `the best policy is ${way}`;
  return sentence(`${soFar(choice)}${said}: ${lost}.`);
}

/** Begins what is not final: how many candidates were asked. */
function soFar(choice: Choice): string {
  const { rows, left } = choice;
  if (!isEarly(choice)) return '';
  return left > 0
    ? `so far, with ${rows.length - left} of ${counted(rows.length, 'candidate')} asked, `
    : 'so far, with all candidates asked but not all texts, ';
}

const sentence = (text: string): string => text[0].toUpperCase() + text.slice(1);

/** Says that a choice is of no use. */
function useless(choice: Choice, row: ChoiceRow): readonly string[] {
  const { rows, goal, chosen } = choice;
  if (chosen === undefined || !losesMost(choice, row)) return [];
  const all = rows.filter((one) => lossOf(one)).every((one) => losesMost(choice, one));
  return [
    'budget' in goal && all
      ? 'In this memory every candidate that was asked loses half or more, so none of them is of use: give it more memory.'
      : `It loses half or more, so do not use it: give ${'budget' in goal ? 'it more memory, or more texts' : 'more texts'}.`,
  ];
}

function cost({ full, form }: Choice, { bytes, ms }: ChoiceRow): string {
  const time =
    ms === undefined || full.ms <= 0
      ? ''
      : `; reading a text and its answer takes ${(ms / full.ms).toFixed(2)} times as long`;
  return `Once slots are dropped, the cache holds ${bytesText(bytes)} of ${bytesText(full.bytes)} (${percent(bytes / full.bytes)})${form === undefined ? '' : ` in ${form}`}; until then it may hold all that was read${time}.`;
}

const event = ({ prompts }: Choice): string => EVENTS[prompts.question];
const EVENTS: Readonly<Record<Choice['prompts']['question'], string>> = {
  after: 'Slots are dropped once the text has been read, before the question about it is asked.',
  inside: 'Slots are dropped once the whole prompt has been read, with any question in it.',
  both: 'Slots are dropped once the text has been read: before the question where a prompt has one apart, else with any question in it.',
};

/** Says whether the interval keeps a loss that was asked for. */
function power({ goal, kind, level, chosen }: Choice, { confirmed }: ChoiceRow): readonly string[] {
  if (chosen === undefined || !confirmed || !('lose' in goal) || keepsLoss(confirmed.high, goal.lose)) return [];
  return [
    ...(!keepsLoss(confirmed.mean, goal.lose)
      ? [`That is more than ${percent(goal.lose, 1)}; on the texts that chose it, it lost no more than that.`]
      : []),
    ...[powerNote(confirmed.clusters, goal.lose, { kind, level }) ?? []].flat(),
  ];
}

/** Says what decided where losses did not: what keeps a loss is put in order by bytes. */
function alike({ rows, goal, chosen }: Choice): readonly string[] {
  const losses = rows.flatMap(({ loss }) => (loss ? [loss] : [])),
    means = losses.map(({ mean }) => mean),
    decided = 'the divergence of the next token (KL) decided';
  if (losses.length < 2 || ('lose' in goal && chosen !== undefined)) return [];
  if (new Set(means).size === 1) return [`All candidates lost alike on the texts that chose: ${decided}.`];
  const near = withinOne(Math.min(...means), Math.max(...losses.map(({ clusters }) => clusters))),
    alike = means.filter(near).length;
  return 'lose' in goal || alike < 2
    ? []
    : [`${alike} candidates lost alike on the texts that chose, to within one text: ${decided} between them.`];
}

function ties({ goal, chosen, tied, rows, level }: Choice): readonly string[] {
  if ('lose' in goal || chosen === undefined || tied.length === 0) return [];
  const compared = rows.filter(({ confirmed }) => confirmed).length - 1,
    others = tied.map((at) => wayText(rows[at]));
  const documents = rows[chosen].confirmed?.clusters ?? 0,
    needed = documentsToTell(Math.max(1, compared), level);
  if (documents < needed)
    return [
      `${counted(documents, 'text')} that took no part cannot tell it from ${compared === 1 ? 'one other' : `${compared} others`}, however much these lose: it takes ${needed} at least.`,
    ];
  if (compared > 0 && tied.length >= compared)
    return [
      `No difference was found between it and the ${compared === 1 ? 'other that was' : `${compared} others that were`} compared on those texts.`,
    ];
  return [
    `These texts cannot tell it from ${counted(tied.length, 'other')}: ${others.slice(0, 3).join('; ')}${others.length > 3 ? '; …' : ''}.`,
  ];
}

function failures({ failures, prompts }: Choice, { confirmed }: ChoiceRow): readonly string[] {
  if (!failures || !prompts.answers) return []; // what the right answer's tokens are is not known
  const { lost, dropped, full } = failures;
  return [
    ...(dropped > 0
      ? [
          `It lost the answer of ${counted(lost, 'text')}: in ${dropped} of these no layer and KV head still held all of the answer's tokens.`,
        ]
      : []),
    ...(full > 0 && confirmed
      ? [`On ${full} of the ${confirmed.n} texts that confirm, the model is wrong with its full cache too.`]
      : []),
  ];
}

/** Says what the full cache answers, or what its answers were compared by. */
function measure({ kind, prompts, full }: Choice): readonly string[] {
  if (kind === 'answers')
    return full.right === undefined ? [] : [`With its full cache the model is right on ${percent(full.right)}.`];
  return [
    prompts.answers && full.right === 0
      ? 'With its full cache the model gives none of the right answers, so its own answers were the measure.'
      : "An answer that is worded otherwise than the full cache's counts as changed, right or not; prompts with an 'answer' each are graded by it.",
  ];
}
