import { KvError } from '@kv/core';
import { expectPromises } from '@kv/core/engine';
import { expectAny, expectBiased, isAllowed } from '@kv/engine';
import type { Tensor } from '@kv/core';
import type { OpenScope } from '@kv/gpu';
import type { Output, SamplingRule } from '@kv/engine';
import { encodeArgmax, encodeSlots } from '../operations.ts';
import { rowsOf } from '../rows.ts';
import { encodeEditedLogits, encodeSample, type SampleOptions } from '../sample.ts';
import type { DeviceState } from './device-state.ts';
import type { ViewChecks } from './hidden-slots.ts';
import type { TokenChunk } from './token-chunk.ts';

/** The output of a pass without logits. */
export const noOutput: Output = {
  read: async () => [],
  next: () => Promise.reject(new KvError('next', 'expected logits of the last token fed, got none: rows was 0')),
  release: () => {},
};

/** What a draw on the device goes by. */
const selection = ({ temperature, topK, topP, minP, seed }: SamplingRule): SampleOptions => ({
  temperature,
  topK,
  topP,
  minP,
  seed: seed >>> 0,
});

/** The caches that logits were computed over, the scope they are recorded in, and what views promised. */
interface LogitsSource {
  readonly caches: DeviceState;
  readonly scope: OpenScope;
  readonly checks?: ViewChecks;
}

/**
 * Records the logits of rows of hidden states x `[m, D]`, oldest first, the newest at position `step - 1`, in the scope
 * that they own. Argmax, draws and reads are recorded when they are called.
 */
export function outputOf(from: LogitsSource, parts: readonly Pick<TokenChunk, 'x' | 'm'>[], step: number): Output {
  const {
    caches: { decoder, context },
    scope,
  } = from;
  const all = parts.map(({ x, m }): Tensor => {
      decoder.rows.head += m;
      const [logits] = decoder.head.encode(scope.commands, [x], m) as [Tensor];
      return { ...logits, shape: [m, context.model.config.vocab] };
    }),
    newest = all.at(-1)!; // there are rows
  return outputAt(from, newest, { first: 0, count: newest.shape[0], step, earlier: all.slice(0, -1) }, scope.end);
}

/**
 * Returns the output for `count` rows of `logits [rows, vocab]` from row `first` on, and all `earlier` ones, until it is
 * released. Every read includes the checks of the pass; if one fails, the sequence is unusable.
 */
export function outputAt(
  { caches, scope: { commands, read: readAll }, checks = [] }: LogitsSource,
  logits: Tensor,
  {
    first,
    count,
    step,
    earlier = [],
  }: {
    readonly first: number;
    readonly count: number;
    readonly step: number;
    readonly earlier?: readonly Tensor[];
  },
  release: () => void,
): Output {
  const [rows, vocab] = logits.shape,
    newest = { ...rowsOf(logits, vocab), at: (first + count - 1) * vocab };
  const read = async (...tensors: readonly Tensor[]): ReturnType<OpenScope['read']> => {
    const all = await readAll([...tensors, ...checks.map(({ bad }) => bad)]),
      found = all.slice(tensors.length);
    if (checks.length > 0) await caches.context.guard.change('a step', async () => expectPromises(checks, found));
    return all.slice(0, tensors.length);
  };
  const nextPending: NonNullable<Output['nextPending']> = (draw) => {
    const { allowed, edits, temperature = 0 } = draw ?? {};
    if (allowed) expectAny(allowed, vocab);
    if (edits) expectBiased(edits.ids, vocab);
    const row = encodeEditedLogits(commands, newest, { allowed, edits }),
      tensor =
        draw && temperature > 0
          ? encodeSample(commands, row, 1, { ...selection(draw), step })
          : encodeArgmax(commands, row, 1),
      id = read(tensor).then(([{ data }]) => {
        // the largest of logits that are all banned, or no numbers, is any
        if (allowed && !isAllowed(allowed, data[0]))
          throw new KvError(
            'logits',
            `must have a finite number for an id that the grammar allows, got none: look at what changed them, or at the checkpoint's weights`,
          );
        return data[0];
      });
    void id.catch(() => {}); // a caller sees the rejection; a step that is rolled back has none
    return { tensor, id };
  };
  return {
    nextPending,
    next: async (draw) => nextPending(draw).id,
    async read() {
      const some = rows === count ? logits : commands.make([1, count, vocab]);
      if (some !== logits) encodeSlots(commands, { ...logits, shape: [1, rows, vocab] }, some, count, first);
      return (await read(...earlier, some)).flatMap(({ data }) =>
        Array.from({ length: data.length / vocab }, (_, i) => (data as Float32Array).slice(i * vocab, (i + 1) * vocab)),
      );
    },
    release,
  };
}
