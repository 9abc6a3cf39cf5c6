import { each, engineLaws, type EngineHost, type EngineSequence } from '@kv/laws';
import type { Policy } from '@kv/core';
import type { LlamaContext, LlamaContextSequence, Token } from 'node-llama-cpp';
import { test } from 'vitest';
import { retainTokens } from '../src/index.ts';
import { tokensOf } from '../src/tokens.ts';
import { embeddedLlama } from './llama.ts';

const model = await embeddedLlama(),
  context: LlamaContext = await model.createContext({ contextSize: 256, sequences: 1, threads: 1 });
let last: LlamaContextSequence | undefined;

/** A sequence of llama.cpp as the laws of engines see it: what stays is counted from the ranges that went. */
function hosted(policy: Policy, sequence: LlamaContextSequence): EngineSequence {
  const ids: Token[] = [];
  let positions: number[] = [];
  return {
    async feed(more) {
      await sequence.evaluateWithoutGeneratingNewTokens(more as Token[]);
      positions.push(...more.map((_, i) => ids.length + i));
      ids.push(...(more as Token[]));
    },
    async evict(budget) {
      const ranges = await retainTokens(sequence, { policy, budget });
      await sequence.eraseContextTokenRanges(ranges);
      positions = positions.filter((_, slot) => !ranges.some(({ start, end }) => start <= slot && slot < end));
    },
    async cache() {
      // ids of what it holds as llama.cpp says them
      const said = [...ids];
      for (const [slot, position] of positions.entries()) said[position] = sequence.contextTokens[slot];
      return {
        queryHeads: 1,
        length: ids.length,
        tokens: tokensOf(said, model.tokenizer),
        layers: [{ positions: { data: Uint32Array.from(positions), shape: [1, positions.length] } }],
      };
    },
    fork: () => Promise.reject(new Error('llama.cpp has no copies of a sequence')),
  };
}

const host: EngineHost = {
  vocab: 1024,
  async open(policy) {
    last?.dispose();
    return hosted(policy, (last = context.getSequence()));
  },
};
// Without token 0 llama.cpp would evaluate all others again; a sequence has no copies.
const { forks: _, ...laws } = engineLaws(host, { texts: true, sinks: 1, runs: 10 });
each(laws, test);
