import { KvError } from '@kv/core';
import { retain } from '@kv/cpu';
import { expectObject } from '@kv/core/engine';
import type { Policy } from '@kv/core';
import type { ChatHistoryItem, LLamaChatContextShiftOptions, Token, Tokenizer } from 'node-llama-cpp';
import { expectTextual } from './demands.ts';
import { tokensOf } from './tokens.ts';

/** The type of `contextShift.strategy` of a `LlamaChatSession`. */
export type HistoryStrategy = Exclude<LLamaChatContextShiftOptions['strategy'], string | undefined>;

/** A sentence of a history item, with its tokens. */
interface Sentence {
  readonly item: number;
  readonly part: number;
  readonly text: string;
  readonly ids: readonly Token[];
}
type History = readonly ChatHistoryItem[];

/**
 * Returns a strategy for `LlamaChatSession` that shortens the history by whole sentences: first those that the policy
 * drops first as the budget shrinks, and older before newer. System messages, the last question and everything after it
 * stay.
 *
 * @throws KvError for a policy that reads more than tokens and positions; from the strategy, for a history that does
 * not fit even without all removable sentences.
 */
export function retainHistory(options: { readonly policy: Policy }): HistoryStrategy {
  expectObject({ name: 'retainHistory' }, 'options such as { policy }', options);
  const { policy } = options;
  expectTextual(policy, 'retainHistory');
  return async ({ chatHistory, maxTokensCount, tokenizer, chatWrapper }) => {
    const count = (history: History): number =>
      chatWrapper.generateContextState({ chatHistory: history }).contextText.tokenize(tokenizer).length;
    if (count(chatHistory) <= maxTokensCount) return { chatHistory: [...chatHistory] };
    const sentences = sentencesIn(chatHistory, tokenizer),
      least = count(shortened(chatHistory, sentences, new Set(sentences.keys())));
    if (least > maxTokensCount)
      throw new KvError(
        'retainHistory',
        `expected a system message and a last question of at most ${maxTokensCount} tokens, got ${least}`,
      );
    const worth = await worths(sentences, maxTokensCount - least, tokenizer, policy),
      order = [...sentences.keys()].sort((a, b) => worth[a] - worth[b] || a - b),
      without = (n: number): ChatHistoryItem[] => shortened(chatHistory, sentences, new Set(order.slice(0, n)));
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

/** Returns the removable sentences: everything before the last question except system messages. */
function sentencesIn(history: History, tokenizer: Tokenizer): readonly Sentence[] {
  const last = history.findLastIndex(({ type }) => type === 'user'),
    partsOf = (entry: ChatHistoryItem): readonly unknown[] =>
      entry.type === 'user' ? [entry.text] : entry.type === 'model' ? entry.response : [];
  return history
    .slice(0, Math.max(0, last))
    .flatMap((entry, item) =>
      partsOf(entry).flatMap((text, part) =>
        typeof text === 'string'
          ? sentencesOf(text).map((sentence) => ({ item, part, text: sentence, ids: tokenizer(sentence) }))
          : [],
      ),
    );
}

/** Number of budgets at which the policy runs, evenly spaced up to the available room. */
const PARTS = 8;

/**
 * Scores each sentence by the share of its tokens that the policy keeps, summed over shrinking budgets. At one budget a
 * credential that lost a word would rank below a whole sentence of filler.
 */
async function worths(
  sentences: readonly Sentence[],
  room: number,
  tokenizer: Tokenizer,
  policy: Policy,
): Promise<readonly number[]> {
  const ids = sentences.flatMap((sentence) => sentence.ids),
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
  return sentences.map(({ ids: own }) => {
    const sum = times.subarray(at, (at += own.length)).reduce((a, b) => a + b, 0);
    return sum / Math.max(1, own.length);
  });
}

/** Returns the history without the sentences `gone`; messages that lost all their text are removed. */
function shortened(history: History, sentences: readonly Sentence[], gone: ReadonlySet<number>): ChatHistoryItem[] {
  const left = new Map<string, string>();
  for (const [i, { item, part, text }] of sentences.entries()) {
    const at = `${item} ${part}`;
    left.set(at, (left.get(at) ?? '') + (gone.has(i) ? '' : text));
  }
  return history.flatMap((entry, item): ChatHistoryItem[] => {
    const text = <T>(part: number, whole: T): T | string => left.get(`${item} ${part}`) ?? whole;
    if (entry.type === 'user') {
      const kept = text(0, entry.text);
      return kept === '' && entry.text !== '' ? [] : [{ ...entry, text: kept }];
    }
    if (entry.type !== 'model') return [entry];
    const response = entry.response.flatMap((whole, i) => {
      const part = text(i, whole);
      return part === '' && whole !== '' ? [] : [part];
    });
    return response.length === 0 && entry.response.length > 0 ? [] : [{ ...entry, response }];
  });
}
