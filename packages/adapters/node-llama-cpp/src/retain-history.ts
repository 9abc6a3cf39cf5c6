import { KvError, required } from '@kv/core';
import { retain } from '@kv/cpu';
import { policyOption, settleOwn } from '@kv/core/engine';
import type { OptionValues, Policy } from '@kv/core';
import type {
  ChatHistoryItem,
  ChatModelResponse,
  LLamaChatContextShiftOptions,
  Token,
  Tokenizer,
} from 'node-llama-cpp';
import { expectTextual, textual } from './demands.ts';
import { tokensOf } from './tokens.ts';

/** The type of `contextShift.strategy` of a `LlamaChatSession`. */
export type HistoryStrategy = Exclude<LLamaChatContextShiftOptions['strategy'], string | undefined>;
type HistoryState = Parameters<HistoryStrategy>[0];

const RETAIN_HISTORY = {
  policy: required(policyOption<Policy | string>("A policy, or its text, such as 'taFast(reach=12,slots=24)'.")),
};
/** Options of `retainHistory`. */
export interface RetainHistoryOptions extends OptionValues<typeof RETAIN_HISTORY> {}

/** A removable part of a history item, with its tokens: a sentence, a call with its result, or a stretch of thought. */
interface Unit {
  readonly item: number;
  /** Indices in the response of what goes whole; of a sentence, where its text stands. */
  readonly parts: number[];
  /** The sentence; absent for what goes whole. */
  readonly text?: string;
  ids: readonly Token[];
}
type History = readonly ChatHistoryItem[];

/**
 * Returns a strategy for `LlamaChatSession` that shortens the history by whole sentences, calls with their results and
 * stretches of thought: first those that the policy drops first as the budget shrinks, and older before newer. A
 * question keeps its best sentence while anything of its answer stays. System messages, the last question and the text
 * after it stay; calls and thoughts after it go last.
 *
 * @throws KvError for a policy that reads more than tokens and positions, from the strategy if it is text; from the
 * strategy, for a history that does not fit even without all that can go.
 */
export function retainHistory(options: RetainHistoryOptions): HistoryStrategy {
  const { policy } = settleOwn('retainHistory', RETAIN_HISTORY, options);
  if (typeof policy !== 'string') expectTextual(policy, 'retainHistory');
  return async (state) => {
    const { chatHistory, maxTokensCount, tokenizer, chatWrapper } = state,
      count = (history: History): number =>
        chatWrapper.generateContextState({ chatHistory: history }).contextText.tokenize(tokenizer).length;
    if (count(chatHistory) <= maxTokensCount) return { chatHistory: [...chatHistory] };
    const read = await textual(policy, 'retainHistory'),
      units = unitsIn(state),
      least = count(shortened(chatHistory, units, new Set(units.keys())));
    if (least > maxTokensCount)
      throw new KvError(
        'retainHistory',
        `expected system messages, a last question and the text after it of at most ${maxTokensCount} tokens, got ${least}: take a larger context`,
      );
    const worth = await worths(units, maxTokensCount - least, tokenizer, read),
      order = orderOf(chatHistory, units, worth),
      without = (n: number): ChatHistoryItem[] => shortened(chatHistory, units, new Set(order.slice(0, n)));
    let [low, high] = [0, order.length];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (count(without(middle)) > maxTokensCount) low = middle;
      else high = middle;
    }
    return { chatHistory: without(high) };
  };
}

/**
 * Splits a text into sentences, each with the white space that follows it: after a line, or . ! ? before white space,
 * since dots stand in addresses and numbers too. A run of marks is tried from its first one only.
 */
export const sentencesOf = (text: string): readonly string[] =>
  text.match(/[\s\S]*?(?:(?<![.!?])[.!?]+(?:\s+|$)|[。！？]+\s*|\n\s*|$)/g)?.filter(Boolean) ?? [];

/** Index of the last question, after which text stays. */
const lastQuestion = (history: History): number => history.findLastIndex(({ type }) => type === 'user');

/** Returns what can go: all but system messages, the last question, and text and last parts after it. */
function unitsIn(state: HistoryState): readonly Unit[] {
  const { chatHistory, tokenizer } = state,
    last = lastQuestion(chatHistory),
    sentences = (text: string, item: number, part: number): readonly Unit[] =>
      item >= last
        ? []
        : sentencesOf(text).map((sentence) => ({ item, parts: [part], text: sentence, ids: tokenizer(sentence) }));
  return chatHistory.flatMap((entry, item) => {
    if (entry.type === 'user') return sentences(entry.text, item, 0);
    if (entry.type !== 'model') return [];
    const units = entry.response.flatMap((part, i) => (typeof part === 'string' ? sentences(part, item, i) : [])),
      end = entry.response.length - 1;
    // a model that goes on writes after its last part, or in a thought that is open
    for (const { open, ...unit } of wholesIn(entry.response, item, state))
      if (item < last || (!open && unit.parts.at(-1) !== end)) units.push(unit);
    return units.sort((a, b) => a.parts[0] - b.parts[0]);
  });
}

/** Returns a response's calls, and its thoughts from where one opens to where it ends, since a half would not close. */
function wholesIn(
  response: ChatModelResponse['response'],
  item: number,
  { chatWrapper, tokenizer }: HistoryState,
): readonly (Unit & { readonly open: boolean })[] {
  const units: (Unit & { open: boolean })[] = [];
  for (const [i, part] of response.entries()) {
    if (typeof part === 'string') continue;
    if (part.type === 'functionCall') {
      const ids = chatWrapper.generateFunctionCallsAndResults([part], true).tokenize(tokenizer);
      units.push({ item, parts: [i], ids, open: false });
      continue;
    }
    const isSame = ({ parts, open }: Unit & { open: boolean }): boolean => {
      const first = response[parts[0]];
      return open && typeof first === 'object' && first.type === 'segment' && first.segmentType === part.segmentType;
    };
    let unit = units.find(isSame);
    if (unit === undefined) units.push((unit = { item, parts: [], ids: [], open: true }));
    unit.parts.push(i);
    unit.ids = [...unit.ids, ...tokenizer(part.text)];
    unit.open = !part.ended;
  }
  return units;
}

/**
 * Returns the units in the order in which they go: by worth, older before newer, those after the last question last.
 * The best sentence of a question goes after all of its answer: templates refuse an answer that no question precedes.
 */
function orderOf(history: History, units: readonly Unit[], worth: readonly number[]): readonly number[] {
  const last = lastQuestion(history),
    ranks = [...worth],
    stays = new Set<number>(),
    exchanges: number[][] = [];
  let exchange = 0;
  const numbers = history.map(({ type }, i) =>
    type === 'user' && history[i - 1]?.type !== 'user' ? ++exchange : exchange,
  );
  for (const [i, { item }] of units.entries()) (exchanges[numbers[item]] ??= []).push(i);
  for (const own of exchanges.filter(Boolean)) {
    const question = own.filter((i) => history[units[i].item].type === 'user');
    if (question.length === 0) continue;
    const best = question.reduce((a, b) => (worth[b] >= worth[a] ? b : a));
    ranks[best] = own.reduce((most, i) => Math.max(most, worth[i]), 0);
    stays.add(best);
  }
  const keys = units.map(({ item }, i) => [Number(item > last), ranks[i], numbers[item], Number(stays.has(i)), i]);
  keys.sort((a, b) => {
    const at = a.findIndex((key, k) => key !== b[k]);
    return a[at] - b[at];
  });
  return keys.map((key) => key[4]);
}

/** Number of budgets at which the policy runs, evenly spaced up to the available room. */
const PARTS = 8;

/**
 * Scores each unit by the share of its tokens that the policy keeps, summed over shrinking budgets. At one budget a
 * credential that lost a word would rank below a whole sentence of filler.
 */
async function worths(
  units: readonly Unit[],
  room: number,
  tokenizer: Tokenizer,
  policy: Policy,
): Promise<readonly number[]> {
  const ids = units.flatMap((unit) => unit.ids),
    most = Math.max(1, Math.min(ids.length, room)),
    cache = {
      layers: [{ positions: { data: Uint32Array.from(ids.keys()), shape: [1, ids.length] } }],
      queryHeads: 1,
      tokens: tokensOf(ids, tokenizer),
    },
    times = new Uint32Array(ids.length);
  for (let part = PARTS; part > 0; part--) {
    // given as a share, since forced slots may exceed a share
    const percent = Math.min(100, (100 * (Math.ceil((most * part) / PARTS) + 0.5)) / ids.length),
      { slots } = await retain(policy, cache, { budget: `${Number(percent.toFixed(6))}%` });
    for (const slot of slots[0][0]) times[slot]++;
  }
  let at = 0;
  return units.map(({ ids: own }) => {
    const sum = times.subarray(at, (at += own.length)).reduce((a, b) => a + b, 0);
    return sum / Math.max(1, own.length);
  });
}

/**
 * Returns the history without the units `gone`; messages that lost all they had are removed, and an empty answer with its
 * question.
 */
function shortened(history: History, units: readonly Unit[], gone: ReadonlySet<number>): ChatHistoryItem[] {
  const left = new Map<string, string>();
  for (const [i, { item, parts, text }] of units.entries())
    for (const part of parts) {
      const at = `${item} ${part}`;
      if (text !== undefined) left.set(at, (left.get(at) ?? '') + (gone.has(i) ? '' : text));
      else if (gone.has(i)) left.set(at, '');
    }
  let asked = true;
  return history.flatMap((entry, item): ChatHistoryItem[] => {
    const text = <T>(part: number, whole: T): T | string => left.get(`${item} ${part}`) ?? whole;
    if (entry.type === 'user') {
      const kept = text(0, entry.text),
        goes = kept === '' && entry.text !== '';
      asked = !goes || (asked && history[item - 1]?.type === 'user');
      return goes ? [] : [{ ...entry, text: kept }];
    }
    if (entry.type !== 'model') return [entry];
    const response = entry.response.flatMap((whole, i) => {
      const part = text(i, whole);
      return part === '' && whole !== '' ? [] : [part];
    });
    const goes = asked ? response.length === 0 && entry.response.length > 0 : response.every((part) => part === '');
    return goes ? [] : [{ ...entry, response }];
  });
}
