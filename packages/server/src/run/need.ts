import { isState, mostKept } from '@kv/core/engine';
import type { AnySignal } from '@kv/core';
import type { CompiledPolicy } from '@kv/core/engine';
import { waits, watchOf } from '@kv/engine';
import type { ModelConfig } from '@kv/models';
import type { SequenceRequest } from './job.ts';
import type { SequencePolicy } from './way.ts';

/** Signals that are remembered while a sequence goes this way. */
const remembered = ({ policy }: SequencePolicy): readonly AnySignal[] =>
  policy ? [...policy.needs, ...[...policy.hooks('view'), ...policy.hooks('step')].flatMap(({ needs }) => needs)] : [];

/** The policy, where its events evict. */
const evicting = ({ policy, budget }: SequencePolicy): CompiledPolicy | undefined =>
  policy?.evicts && (budget !== undefined || policy.sizes) ? policy : undefined;

/** Whether every head keeps as many slots as the budget says. */
const even = ({ steps, sizes }: CompiledPolicy): boolean => !sizes && steps.every(({ kind }) => kind !== 'allocator');

/** Whether nothing of a prompt need be there but its cache: it may begin with a cache that another prompt left. */
export function beginsAnywhere(way: SequencePolicy, rest: number): boolean {
  const needs = remembered(way),
    { window, accumulated, block } = watchOf(needs);
  const hooks = way.policy && [...way.policy.hooks('view'), ...way.policy.hooks('step'), ...way.policy.hooks('freeze')];
  return (
    way.block === undefined &&
    (hooks?.length ?? 0) === 0 &&
    window <= rest &&
    !accumulated &&
    !block &&
    !needs.some((signal) => signal.hidden || isState(signal))
  );
}

/** Most slots of a layer's longest head while a prompt of so many tokens is read. */
export function slotsReading(way: SequencePolicy, tokens: number): number {
  const policy = evicting(way),
    { budget, block = policy?.hooks('cadence')[0]?.block } = way;
  if (!policy || waits(policy) || !even(policy) || block === undefined || budget === undefined) return tokens;
  return Math.min(tokens, mostKept(policy, budget, tokens) + block);
}

/**
 * Slots that a head with so many may gain while so many tokens follow a prompt: all of them, or what is left of the
 * budget and the tokens between two events.
 */
export function slotsGained(way: SequencePolicy, slots: number, prompt: number, tokens: number): number {
  const policy = evicting(way),
    { budget, every = policy?.hooks('cadence')[0]?.every } = way;
  if (!policy || !even(policy) || every === undefined || budget === undefined) return tokens;
  return Math.min(tokens, Math.max(0, mostKept(policy, budget, prompt, prompt + tokens) - slots) + every);
}

/** Bytes of everything that a sequence may hold with so many slots a layer, storage that is being replaced included. */
export function bytesFor(
  { queryHeads: H, kvHeads: G, headDim: d, hidden: D }: ModelConfig,
  slots: readonly number[],
  tokens: number,
  way: SequencePolicy,
): number {
  const needs = remembered(way),
    { window, accumulated, block } = watchOf(needs),
    hidden = needs.some((signal) => signal.hidden);
  const rows =
    (accumulated === 'kv' ? G : accumulated ? H : 0) +
    (block ? H : 0) +
    needs
      .filter(isState)
      .reduce((sum, { state }) => sum + (state.rows === 'query' ? H : state.rows === 'kv' ? G : 1), 0);
  const grown = (n: number): number => Math.ceil(1.25 * n) + 2,
    cache = (n: number): number => 4 * G * n * (2 * d + 2),
    beside = 4 * rows * grown(tokens);
  const all = slots.reduce((sum, n) => sum + cache(grown(n)) + beside + 4 * window * (H * d + 1 + H), 0);
  return all + cache(Math.max(...slots)) + beside + (hidden ? 8 * tokens * D : 0);
}

/** Bytes that a prompt and its answers may hold at most, while it is read or while they are generated. */
export function needOf({ ids, way, answering, n }: SequenceRequest, config: ModelConfig): number {
  const layers = (slots: number): number[] => Array<number>(config.layers).fill(slots),
    all = ids.length + answering.maxNewTokens,
    read = slotsReading(way, ids.length),
    reading = bytesFor(config, layers(read), all, way),
    answer = bytesFor(config, layers(read + slotsGained(way, read, ids.length, answering.maxNewTokens)), all, way);
  return Math.max(reading, answer) + (n - 1) * answer;
}

/**
 * Bytes that passes use beside all sequences: rows of a part on their way through a layer, logits, and the room that
 * attention works in.
 */
export function scratchBytes(
  { hidden: D, ffn, queryHeads: H, kvHeads: G, headDim: d, vocab, maxPositions }: ModelConfig,
  part: number,
  running: number,
): number {
  const row = 4 * (4 * D + 2 * (H + 2 * G) * d + 3 * ffn);
  return part * row + 2 * 4 * running * vocab + 4 * maxPositions * (2 * d + 64);
}

/**
 * Bytes of what is said of a prompt until its reader has it: ids, text, and, where tokens are scored, the likeliest
 * beside each, as objects and as JSON. Of a stream no more is there than its reader may be behind.
 */
export function saidBytes({ ids, answering, n, scorePrompt, streamed }: SequenceRequest, ahead: number): number {
  const scored = (count: number | undefined): number => (count === undefined ? 0 : 250 + 200 * (count + 1)),
    answers = streamed ? Math.min(n * answering.maxNewTokens, ahead + n) : n * answering.maxNewTokens,
    prompts = scorePrompt === undefined ? 0 : (streamed ? 1 : n) * ids.length;
  return 32 * ids.length + answers * (64 + scored(answering.logprobs)) + prompts * scored(scorePrompt);
}

/**
 * Bytes of a body of so many, until its text is read as ids: as it came, as text and as values, and what reading a long
 * text works in, of no more characters than fit.
 */
export const textBytes = (bytes: number, characters: number): number => 6 * bytes + 40 * Math.min(bytes, characters);
