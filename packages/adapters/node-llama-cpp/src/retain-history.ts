import { KvError, retain } from '@kv/core';
import type { Policy } from '@kv/core';
import { expectTextual } from './demands.ts';
import { tokensOf } from './tokens.ts';

/** An item of a chat history of node-llama-cpp. */
export type HistoryItem =
  | { readonly type: 'system'; readonly text: unknown }
  | { readonly type: 'user'; readonly text: string }
  | { readonly type: 'model'; readonly response: readonly unknown[] };

/** What `contextShift.strategy` of a `LlamaChatSession` is given. */
export interface HistoryShift<Item extends HistoryItem = HistoryItem> {
  readonly chatHistory: readonly Item[];
  readonly maxTokensCount: number;
  readonly tokenizer: ((text: string) => readonly number[]) & {
    detokenize(tokens: readonly number[], specialTokens?: boolean, lastTokens?: readonly number[]): string;
  };
  readonly chatWrapper: {
    generateContextState(options: { chatHistory: readonly Item[] }): {
      readonly contextText: { tokenize(tokenizer: unknown): readonly unknown[] };
    };
  };
}

/** A sentence of an item, and how much of it the policy keeps. */
interface Sentence {
  readonly item: number;
  readonly part: number;
  readonly text: string;
  readonly worth: number;
}

/**
 * A strategy for `LlamaChatSession`: a history shortened by whole sentences, those first of which the policy keeps the
 * smallest share of tokens, and older before newer. System messages, the last question and what follows it stay.
 *
 * @throws KvError for a policy that reads more than tokens and positions; from the strategy, for a history that does
 * not fit without any sentence.
 */
export function retainHistory({
  policy,
}: {
  readonly policy: Policy;
}): <Item extends HistoryItem>(shift: HistoryShift<Item>) => Promise<{ chatHistory: Item[] }> {
  expectTextual(policy, 'retainHistory');
  return async ({ chatHistory, maxTokensCount, tokenizer, chatWrapper }) => {
    const count = (history: typeof chatHistory): number =>
      chatWrapper.generateContextState({ chatHistory: history }).contextText.tokenize(tokenizer).length;
    if (count(chatHistory) <= maxTokensCount) return { chatHistory: [...chatHistory] };
    const sentences = await weighed(chatHistory, maxTokensCount, tokenizer, policy),
      order = [...sentences.keys()].sort((a, b) => sentences[a].worth - sentences[b].worth || a - b),
      without = (n: number): typeof chatHistory => shortened(chatHistory, sentences, new Set(order.slice(0, n)));
    let [low, high] = [0, order.length];
    if (count(without(high)) > maxTokensCount)
      throw new KvError(
        'retainHistory',
        `expected a system message and a last question of at most ${maxTokensCount} tokens, got ${count(without(high))}`,
      );
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (count(without(middle)) > maxTokensCount) low = middle;
      else high = middle;
    }
    return { chatHistory: [...without(high)] };
  };
}

/** Sentences of a text, each with the white space behind it. */
const sentencesOf = (text: string): readonly string[] =>
  text.match(/[^.!?\n]*(?:[.!?\n]+\s*|$)/g)?.filter(Boolean) ?? [];

async function weighed(
  history: readonly HistoryItem[],
  room: number,
  tokenizer: HistoryShift['tokenizer'],
  policy: Policy,
): Promise<readonly Sentence[]> {
  const last = history.findLastIndex(({ type }) => type === 'user'),
    found: Omit<Sentence, 'worth'>[] = [],
    ids: number[] = [],
    ends: number[] = [];
  for (const [item, entry] of history.slice(0, Math.max(0, last)).entries()) {
    const parts = entry.type === 'user' ? [entry.text] : entry.type === 'model' ? entry.response : [];
    for (const [part, text] of parts.entries())
      for (const sentence of typeof text === 'string' ? sentencesOf(text) : []) {
        found.push({ item, part, text: sentence });
        ids.push(...tokenizer(sentence));
        ends.push(ids.length);
      }
  }
  if (ids.length === 0) return [];
  const { slots } = await retain(
      policy,
      {
        layers: [{ positions: { data: Uint32Array.from(ids.keys()), shape: [1, ids.length] } }],
        queryHeads: 1,
        tokens: tokensOf(ids, { detokenize: tokenizer.detokenize.bind(tokenizer) }),
      },
      { budget: Math.max(1, Math.min(ids.length, room)) },
    ),
    kept = slots[0][0];
  return found.map((sentence, i) => {
    const [from, to] = [i === 0 ? 0 : ends[i - 1], ends[i]];
    return { ...sentence, worth: kept.filter((slot) => slot >= from && slot < to).length / Math.max(1, to - from) };
  });
}

/** The history without some sentences; messages that lose all of theirs go. */
function shortened<Item extends HistoryItem>(
  history: readonly Item[],
  sentences: readonly Sentence[],
  gone: ReadonlySet<number>,
): Item[] {
  const left = new Map<string, string>();
  for (const [i, { item, part, text }] of sentences.entries()) {
    const at = `${item} ${part}`;
    left.set(at, (left.get(at) ?? '') + (gone.has(i) ? '' : text));
  }
  return history.flatMap((entry, item): Item[] => {
    const text = (part: number, whole: unknown): unknown => left.get(`${item} ${part}`) ?? whole;
    if (entry.type === 'user') {
      const kept = text(0, entry.text);
      return kept === '' ? [] : [{ ...entry, text: kept }];
    }
    if (entry.type !== 'model') return [entry];
    const response = entry.response.map((part, i) => text(i, part)).filter((part) => part !== '');
    return response.length === 0 && entry.response.length > 0 ? [] : [{ ...entry, response }];
  });
}
