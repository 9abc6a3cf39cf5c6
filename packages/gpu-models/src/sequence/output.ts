import { expectPromises } from '@kv/core/engine';
import type { Tensor } from '@kv/core';
import type { OpenScope } from '@kv/gpu';
import type { Output } from '@kv/models/engine';
import { encodeArgmax } from '../operations.ts';
import { rowsOf } from '../rows.ts';
import { encodeSample } from '../sample.ts';
import type { DeviceState } from './device-state.ts';
import type { Promises } from './views.ts';

/**
 * Records the logits of hidden states x `[count, D]`, the newest at position `step - 1`, in the scope that they own;
 * what is asked of them is recorded then. Whatever is read of them is read with the checks of the pass; one that fails
 * breaks the memory off.
 */
export function outputOf(
  memory: DeviceState,
  { commands, read: readAll, end }: OpenScope,
  x: Tensor,
  count: number,
  step: number,
  checks: Promises = [],
): Output {
  const {
    decoder,
    model: {
      config: { vocab },
    },
  } = memory;
  const read = async (tensor: Tensor): Promise<Awaited<ReturnType<OpenScope['read']>>[number]> => {
    const [one, ...found] = await readAll([tensor, ...checks.map(({ bad }) => bad)]);
    if (checks.length > 0) await memory.change('a step', async () => expectPromises(checks, found));
    return one;
  };
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
      id = read(tensor).then(({ data }) => data[0]);
    void id.catch(() => {}); // whoever waits for it is told; nobody may be, of a step that is rolled back
    return { tensor, id };
  };
  return {
    ask,
    next: async (draw) => ask(draw).id,
    async read() {
      const { data } = await read(logits);
      return Array.from({ length: count }, (_, i) => (data as Float32Array).slice(i * vocab, (i + 1) * vocab));
    },
    release: end,
  };
}
