import { LEVELS, type Policy } from '@kv/core';
import { compile } from '@kv/core/engine';
import { decode, Sequence, type Budget, type CacheForm, type Model } from '@kv/models';
import type { End, Frame } from '../messages.ts';
import type { PromptParts } from './prompt.ts';

/** The work of one side. */
export interface SideTask extends PromptParts {
  readonly model: Model;
  readonly policy: Policy;
  readonly budget: Budget;
  readonly cache: CacheForm | undefined;
  readonly maxNewTokens: number;
  readonly signal: AbortSignal;
}

/**
 * Prefills, evicts and answers; yields a frame per token, and finally how it ended. @throws KvError as `Sequence` does
 */
export async function* answer({
  model,
  policy,
  budget,
  cache,
  maxNewTokens,
  stop,
  signal,
  before,
  after,
}: SideTask): AsyncGenerator<Frame | End> {
  const { label, evicts } = compile(policy),
    sequence = new Sequence(model, undefined, { cache }),
    clock = { prefill: 0, decode: 0 };
  try {
    const started = performance.now();
    await sequence.prefill(before, { policy, budget, signal });
    if (after.length > 0) await sequence.append(after);
    const pieces = sequence.progress.text.decoder(),
      tokens = decode(sequence, { maxNewTokens, stop, signal });
    let text = '',
      next = await tokens.next();
    // a device works asynchronously: prefill ends when the first token is there
    clock.prefill = performance.now() - started;
    while (!next.done) {
      text += next.value.text;
      if (next.value.token !== undefined) yield frameOf(sequence, clock, pieces.push(next.value.token), text);
      const from = performance.now();
      next = await tokens.next();
      clock.decode += performance.now() - from;
    }
    yield { policy: label === '' ? 'full' : label, evicts, finish: next.value, notes: sequence.stats.notes };
  } finally {
    sequence.destroy();
  }
}

/** Builds a frame. @param clock milliseconds of this side alone */
function frameOf(
  sequence: Sequence,
  clock: { readonly prefill: number; readonly decode: number },
  token: string,
  answer: string,
): Frame {
  const { length, promptLength } = sequence.progress,
    { counts } = sequence.stats,
    rows = sequence.kept().flat(),
    kept = new Uint8Array(rows.length * length);
  for (const [row, positions] of rows.entries()) for (const position of positions) kept[row * length + position] = 1;
  const levels = levelsOf(sequence, rows);
  const { live, peak } = sequence.memory.ledger.bytes(),
    slots = rows.reduce((sum, row) => sum + row.length, 0) / rows.length;
  return {
    length,
    kept,
    ...(levels && { levels }),
    token,
    answer,
    bytes: live,
    peak,
    slots,
    prefillSpeed: (1000 * promptLength) / clock.prefill,
    ...(counts.steps > 0 && { decodeSpeed: (1000 * counts.steps) / clock.decode }),
  };
}

/** Returns the level of every slot, by row and position, once an event has given levels. */
function levelsOf(
  { active: { last }, progress: { length }, memory }: Sequence,
  rows: readonly (readonly number[])[],
): Uint8Array | undefined {
  if (!last?.levels) return undefined;
  // what joined since has the form of the cache
  const levels = new Uint8Array(rows.length * length).fill(LEVELS.indexOf(memory.cache.form)),
    given = last.levels.flat();
  for (const [row, positions] of last.kept.flat().entries())
    for (const [i, position] of positions.entries()) levels[row * length + position] = given[row][i];
  return levels;
}
