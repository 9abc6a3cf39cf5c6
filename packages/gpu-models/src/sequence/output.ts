import type { Tensor } from '@kv/core';
import type { OpenScope } from '@kv/gpu';
import type { Output } from '@kv/models/engine';
import { encodeArgmax } from '../operations.ts';
import { rowsOf } from '../rows.ts';
import { encodeSample } from '../sample.ts';
import type { DeviceState } from './device-state.ts';

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
  { commands, read, end }: OpenScope,
  x: Tensor,
  count: number,
  step: number,
): Output {
  decoder.rows.head += count;
  const [logits] = decoder.head.encode(commands, [x], count) as [Tensor],
    newest = { ...rowsOf(logits, vocab), at: (count - 1) * vocab };
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
      const { data } = (await read([logits]))[0];
      return Array.from({ length: count }, (_, i) => (data as Float32Array).slice(i * vocab, (i + 1) * vocab));
    },
    release: end,
  };
}
