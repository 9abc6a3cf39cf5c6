import { KvError } from '@kv/core';
import type { Tensor } from '@kv/core';
import type { OpenScope } from '@kv/gpu';
import type { Output } from '@kv/models/engine';
import { encodeArgmax, encodeSlots } from '../operations.ts';
import { rowsOf } from '../rows.ts';
import { encodeSample } from '../sample.ts';
import type { DeviceState } from './device-state.ts';

/** Of a pass whose logits nobody wants. */
export const noOutput: Output = {
  read: async () => [],
  next: () => Promise.reject(new KvError('sequence', 'expected logits of a row, got none')),
  release: () => {},
};

/**
 * Records the logits of hidden states x `[count, D]`, the newest at position `step - 1`, in the scope that they own;
 * what is asked of them is recorded then.
 */
export function outputOf(
  {
    decoder,
    model: {
      config: { vocab },
    },
  }: DeviceState,
  scope: OpenScope,
  x: Tensor,
  count: number,
  step: number,
): Output {
  decoder.rows.head += count;
  const [logits] = decoder.head.encode(scope.commands, [x], count) as [Tensor];
  return outputAt({ ...logits, shape: [count, vocab] }, scope, { first: 0, count, step }, scope.end);
}

/** What may be asked of `count` rows of `logits [rows, vocab]` from row `first` on, until they are released. */
export function outputAt(
  logits: Tensor,
  { commands, read }: OpenScope,
  { first, count, step }: { readonly first: number; readonly count: number; readonly step: number },
  release: () => void,
): Output {
  const [rows, vocab] = logits.shape,
    newest = { ...rowsOf(logits, vocab), at: (first + count - 1) * vocab };
  const ask: NonNullable<Output['ask']> = (draw) => {
    const tensor = draw
        ? encodeSample(commands, newest, 1, {
            temperature: draw.temperature,
            topP: draw.topP,
            seed: draw.seed >>> 0,
            step,
          })
        : encodeArgmax(commands, newest, 1),
      id = read([tensor]).then(([one]) => one.data[0]);
    void id.catch(() => {}); // whoever waits for it is told; nobody may be, of a step that is rolled back
    return { tensor, id };
  };
  return {
    ask,
    next: async (draw) => ask(draw).id,
    async read() {
      const some = rows === count ? logits : commands.make([1, count, vocab]);
      if (some !== logits) encodeSlots(commands, { ...logits, shape: [1, rows, vocab] }, some, count, first);
      const { data } = (await read([some]))[0];
      return Array.from({ length: count }, (_, i) => (data as Float32Array).slice(i * vocab, (i + 1) * vocab));
    },
    release,
  };
}
