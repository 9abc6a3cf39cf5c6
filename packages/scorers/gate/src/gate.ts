import { inputSignal, KvError, positions, scorer, whole } from '@kv/core';
import type { InputSignal, LayerContext, Tensor } from '@kv/core';
import { competition } from './competition.ts';
import { layerGate } from './gate-file.ts';
import type { LayerGate } from './gate-file.ts';
import { gelu } from './gelu.ts';

/**
 * Signal: what the layer's gate makes of its input x for every slot, f32 `[G, n]`: W x + b, or W GELU(V x + c) + b, or what
 * `competition` makes of x. Made once, when the token is read.
 *
 * @throws KvError for a gate of other widths or heads than the layer's
 */
export const gateScores: InputSignal<'gateScores'> = inputSignal(
  'gateScores',
  { rows: 'kv', needs: [layerGate] },
  ({ ops, at, input, layerGate: gate }) => {
    expectFit(gate, at, input);
    const { width: D, kvHeads: G } = gate,
      [, m] = input.shape,
      put = (data: Float32Array, ...shape: number[]): Tensor => ops.from({ data, shape }),
      times = (weight: Float32Array): Tensor => ops.dot(put(weight, weight.length / D, D), input), // [outputs, m]
      plus = (x: Tensor, bias: Float32Array): Tensor => ops.add(x, put(bias, bias.length, 1));
    if ('output' in gate) {
      const { hidden, output } = gate;
      if (!hidden) return plus(times(output.weight), output.bias);
      const U = hidden.bias.length,
        units = ops.kernel(gelu, { x: plus(times(hidden.weight), hidden.bias) });
      return plus(ops.matmul(put(output.weight, G, U), ops.reshape(units, [1, U, m])), output.bias);
    }
    const { query, key, gains, base, bias } = gate,
      c = gains.key.length;
    return ops.kernel(competition, {
      query: plus(times(query.weight), query.bias),
      key: times(key),
      gains: put(Float32Array.from([...gains.query, ...gains.key]), 2, c),
      base: put(base, G, base.length / G),
      bias: put(bias, G, bias.length / G),
    });
  },
);

function expectFit({ width, kvHeads }: LayerGate, at: LayerContext, { shape: [, , channels] }: Tensor): void {
  if (width !== channels || kvHeads !== at.kvHeads)
    throw new KvError(
      'gate',
      `expected a gate of ${channels} channels and ${at.kvHeads} KV heads in layer ${at.layer}, got ${width} and ${kvHeads}: it is of another model`,
    );
}

/**
 * KVzap: the log importance of a slot as a gate predicts it from the layer's input for its token alone, without attention and
 * without any other slot; or, where the gate is one of Fast KVzip, the share that it gives the slot.
 *
 * @remarks Jégou and Jeblick 2026, arXiv:2601.07891; Kim et al. 2026, arXiv:2601.17668. Scores on KV rows `[G, n]`, the natural logarithm of KVzip+'s
 * importance; sinks are forced. O(D G) a token and layer, once, when the token is read. The gate is a file next to the
 * model: `kv gate` fits one. Compose with `threshold(at=-4)` for heads that keep what passes, as the authors do, or with
 * any selector.
 * @throws KvError before the prompt is read where the model has no gate, or one of another model.
 */
export const gate = scorer(
  'gate',
  {
    source: 'Jégou and Jeblick 2026, arXiv:2601.07891',
    says: "The importance that a gate fitted to the model predicts from the layer's input, without attention.",
    options: {
      sinks: whole(4, 'positions', 'First positions, which always stay.'),
      window: whole(0, 'positions', 'Last positions, which always stay.'),
    },
    needs: [gateScores, positions],
    ends: ({ sinks: first, window: last }) => ({ first, last }),
  },
  ({ ops, at, gateScores: scores, positions: p }, { sinks, window }) => ({
    scores,
    forced: ops.max(ops.less(p, sinks), ops.atLeast(p, at.length - window)),
  }),
);
