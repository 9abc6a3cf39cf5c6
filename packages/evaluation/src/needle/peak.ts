import type { CompiledPolicy } from '@kv/core/engine';
import { layersTogether, waits, observationPlan, slotModel, stateBytes, windowOf, commonHeads } from '@kv/engine';
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
  }: { readonly whole: Slots; readonly cut: Slots; readonly slotBytes: number; readonly form: CacheForm },
): number {
  const { queryHeads: H, kvHeads: G, headDim: d } = commonHeads(config, 'peak'),
    bytes = (heads: readonly number[]): number => slotBytes * heads.reduce((a, b) => a + b, 0),
    { window, accumulated, block } = observationPlan(policy.evicts ? policy.needs : []),
    queries = 4 * Math.min(window, length) * (H * d + 1),
    sums = 4 * length * ((accumulated ? { query: H, kv: G }[accumulated] : 0) + (block ? H : 0)),
    columns = 4 * H * length * policy.needs.filter((need) => need.id !== 'queries' && windowOf(need) > 0).length,
    observed = queries + sums + (policy.evicts ? columns : 0),
    carried = stateBytes(config);
  if (!policy.evicts || waits(policy, false))
    return whole.reduce((sum, heads) => sum + bytes(heads) + observed, carried);
  const together = layersTogether(slotModel(config), length, form);
  let held = 0,
    most = 0;
  for (let from = 0; from < whole.length; from += together) {
    // a layer holds the whole prompt until its event has run, even with a sliding window
    let above = 0;
    for (const heads of whole.slice(from, from + together))
      above += Math.max(bytes(heads), slotBytes * length * heads.length) + observed;
    most = Math.max(most, held + above);
    for (const heads of cut.slice(from, from + together)) held += bytes(heads);
  }
  return carried + Math.max(most, held);
}
