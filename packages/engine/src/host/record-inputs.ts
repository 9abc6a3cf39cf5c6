import { runInputSignal, slotState } from '@kv/core/engine';
import type { ActivePolicy } from '../memory/active-policy.ts';
import type { HostState } from './host-state.ts';

/**
 * Records what the policy's input signals make of tokens that are about to join a layer's slots.
 *
 * @param layer the layer of the model that keeps the slots `l`
 * @param x the residual stream before the layer, `[m, D]`
 */
export async function recordInputs(
  { decoder, inputs, layers, slots, context: { backend, model } }: HostState,
  active: ActivePolicy,
  [layer, l]: readonly [layer: number, l: number],
  x: Float32Array,
): Promise<void> {
  const { states, cache } = layers[l],
    { hidden: D } = model.config,
    wanted = inputs.signals.filter((signal) => states.has(slotState(signal).id));
  if (wanted.length === 0) return;
  const { ops } = backend,
    input = ops.from({ data: decoder.readInput(layer, x), shape: [1, x.length / D, D] }),
    place = { at: slots.layerContext(l, active), ops, input, read: inputs.reader(l) },
    made = wanted.map((signal) => runInputSignal(signal, place));
  for (const [i, numbers] of (await backend.read(made)).entries())
    states.add(slotState(wanted[i]), numbers, cache.lengths);
}
