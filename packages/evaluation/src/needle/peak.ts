import type { Compiled } from '@kv/core/engine';
import { waits, watchOf, windowOf } from '@kv/models/engine';
import type { ModelConfig } from '@kv/models';

/** Slots of each KV head, `[layer][kvHead]`. */
type Slots = readonly (readonly number[])[];

/**
 * The most bytes that a run by itself holds whose event brings a prompt from `whole` slots to `cut`, told from the two:
 * layer by layer as the prompt passes, each layer's last queries, what was taken of them, and sums let go after its event; or of all
 * layers at once where the policy waits for the prompt's end. As `kv run` does it.
 */
export function peakOf(
  policy: Compiled,
  { queryHeads: H, kvHeads: G, headDim: d }: ModelConfig,
  length: number,
  { whole, cut, slotBytes }: { readonly whole: Slots; readonly cut: Slots; readonly slotBytes: number },
): number {
  const bytes = (heads: readonly number[]): number => slotBytes * heads.reduce((a, b) => a + b, 0),
    { window, accumulated, block } = watchOf(policy.evicts ? policy.needs : []),
    queries = 4 * Math.min(window, length) * (H * d + 1),
    sums = 4 * length * ((accumulated ? { query: H, kv: G }[accumulated] : 0) + (block ? H : 0)),
    columns = 4 * H * length * policy.needs.filter((need) => need.id !== 'queries' && windowOf(need) > 0).length,
    beside = queries + sums + (policy.evicts ? columns : 0);
  if (!policy.evicts || waits(policy, false)) return whole.reduce((sum, heads) => sum + bytes(heads) + beside, 0);
  let held = 0,
    most = 0;
  for (const [l, heads] of whole.entries()) {
    // a layer holds the whole prompt while its event runs, whatever its window
    most = Math.max(most, held + Math.max(bytes(heads), slotBytes * length * heads.length) + beside);
    held += bytes(cut[l]);
  }
  return Math.max(most, held);
}
