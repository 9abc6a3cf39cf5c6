import { inputSignal, KvError, positions, scorer, whole } from '@kv/core';
import type { InputSignal, LayerContext, Tensor } from '@kv/core';
import { layerGate } from './gate-file.ts';
import type { Affine, LayerGate } from './gate-file.ts';
import { gelu } from './gelu.ts';

/**
 * Signal: what the layer's gate makes of its input x for every slot, f32 `[G, n]`: W x + b, or W GELU(V x + c) + b. Made
 * once, when the token is read.
 *
 * @throws KvError for a gate of other widths or heads than the layer's
 */
export const gateScores: InputSignal<'gateScores'> = inputSignal(
  'gateScores',
  { rows: 'kv', needs: [layerGate] },
  ({ ops, at, input, layerGate: gate }) => {
    expectFit(gate, at, input);
    const { hidden, output } = gate,
      [, m] = input.shape;
    const affine = ({ weight, bias }: Affine, x: Tensor): Tensor => {
      const outputs = bias.length,
        w = ops.from({ data: weight, shape: [outputs, weight.length / outputs] }),
        // vectors of tokens, or, behind a hidden map, tokens of units
        product = x === input ? ops.dot(w, x) : ops.matmul(w, ops.reshape(x, [1, x.shape[0], m]));
      return ops.add(product, ops.from({ data: bias, shape: [outputs, 1] }));
    };
    return affine(output, hidden ? ops.kernel(gelu, { x: affine(hidden, input) }) : input);
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
 * without any other slot.
 *
 * @remarks Jégou and Jeblick 2026, arXiv:2601.07891. Scores on KV rows `[G, n]`, the natural logarithm of KVzip+'s
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
