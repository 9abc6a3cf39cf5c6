import type { CompiledPolicy } from '@kv/core/engine';
import { joinedHeads, observationPlan, peakOfEvents, stateBytes, waits, windowOf } from '@kv/engine';
import type { CacheForm, ModelConfig } from '@kv/models';

/** Slots of each KV head, `[layer][kvHead]`. */
type Slots = readonly (readonly number[])[];

/**
 * Returns the peak bytes of a run of its own whose event reduces a prompt from `whole` slots to `cut`, computed from
 * the two: some layers at a time as the prompt passes, each with its last queries, what is derived from them, and sums
 * freed after its event; or all layers at once if the policy waits for the prompt's end; and the states of layers without
 * slots. The same as for `kv run`.
 */
export function peakOf(
  policy: CompiledPolicy,
  config: ModelConfig,
  length: number,
  {
    whole,
    cut,
    slotBytes,
    form,
  }: {
    readonly whole: Slots;
    readonly cut: Slots;
    /** Bytes of a slot of a KV head in a layer that keeps slots. */
    slotBytes(layer: number): number;
    readonly form: CacheForm;
  },
): number {
  const { window, accumulated, block, inputs } = observationPlan(policy.evicts ? policy.needs : []),
    layers = joinedHeads(config).map(({ queryHeads: H, kvHeads: G, headDim: d }, l) => {
      const queries = 4 * Math.min(window, length) * (H * d + 1),
        made = inputs.reduce((rows, { ofInput }) => rows + { query: H, kv: G, layer: 1 }[ofInput.rows], 0),
        sums = 4 * length * ((accumulated ? { query: H, kv: G }[accumulated] : 0) + (block ? H : 0) + made),
        columns = 4 * H * length * policy.needs.filter((need) => need.id !== 'queries' && windowOf(need) > 0).length,
        bytes = (heads: readonly number[]): number => slotBytes(l) * heads.reduce((a, b) => a + b, 0);
      return {
        bytes: bytes(whole[l]),
        observed: queries + sums + (policy.evicts ? columns : 0),
        // a layer holds the whole prompt until its event has run, even with a sliding window
        whole: Math.max(bytes(whole[l]), slotBytes(l) * length * G),
        left: bytes(cut[l]),
      };
    }),
    carried = stateBytes(config);
  if (!policy.evicts || waits(policy, false))
    return layers.reduce((sum, { bytes, observed }) => sum + bytes + observed, carried);
  const held = {
    whole: layers.map(({ whole, observed }) => whole + observed),
    left: layers.map(({ left }) => left),
  };
  return carried + peakOfEvents(config, held, length, form);
}
