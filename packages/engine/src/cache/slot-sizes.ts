import type { SlotBytes } from '@kv/core';
import type { CompiledPolicy } from '@kv/core/engine';
import type { ModelConfig } from '@kv/checkpoints';
import { tokenBytes, type CacheForm } from './form.ts';

/** Whether a policy moves kept slots together, which then have rotations of their own. */
export const movesTogether = ({ hooks }: Pick<CompiledPolicy, 'hooks'>): boolean =>
  hooks('compact').some((hook) => hook.movesTogether);

/**
 * Returns the bytes of one slot in every layer and KV head of a sequence's caches: keys, values and positions, summed
 * over layers and KV heads. Layers with sliding windows hold fewer slots than a budget allows, and then fewer bytes.
 * @param moved whether slots have rotations of their own, 4 bytes each
 */
export const slotSizes = (
  config: Pick<ModelConfig, 'layers' | 'kvHeads' | 'headDim'>,
  form: CacheForm,
  moved = false,
): SlotBytes => ({
  form,
  bytesPerSlot: tokenBytes(form, config) + (moved ? 4 * config.layers * config.kvHeads : 0),
  bytesOf: (other) => tokenBytes(other, config),
});
