import type { Tensor } from '@kv/core';
import type { SpeculativeSteps } from '@kv/engine';
import { encodeAttention } from '../attention.ts';
import { encodeEmbedding } from '../operations.ts';
import type { DeviceState } from './device-state.ts';
import { outputOf } from './output.ts';
import { chunkOf } from './token-chunk.ts';
import { attentionOf } from './signals.ts';

/**
 * Steps of a sequence that holds a cache and no observations, on ids that only the device knows. A slot is written
 * after those in use and counts once its token is known, so a rollback only resets the lengths.
 */
export function speculativeSteps(memory: DeviceState): SpeculativeSteps {
  const next = (): number => memory.rotations(Uint32Array.of(memory.length))[0];
  return {
    room(policy) {
      const asks =
        policy.hooks('view').length > 0 ||
        policy.hooks('step').length > 0 ||
        policy.hooks('compact').some((hook) => hook.movesTogether);
      if (asks || !memory.shared.empty) return 0;
      return Math.min(
        memory.window - next(),
        memory.untilFreed,
        ...memory.layers.map(({ plain, cache }) => (plain ? cache.capacity - cache.length : 0)),
      );
    },
    start(asked, before) {
      const scope = memory.open(),
        { commands } = scope,
        {
          decoder: { layers: prepared, head, embedding, rows },
          model: { config },
        } = memory,
        position = memory.length + before;
      try {
        // the device's programs give no rows back, so the decoder has the embedding
        const matrix = head.matrix(embedding!),
          { tensor } = encodeEmbedding(commands, asked.tensor, 1, matrix, config.embeddingScale),
          part = chunkOf(memory, commands, Uint32Array.of(position), tensor);
        for (const [l, layer] of memory.layers.entries()) {
          const { project, finish } = prepared[l],
            [q, k, v] = project.encode(commands, [part.x], 1, part.angles(l)) as [Tensor, Tensor, Tensor];
          layer.cache.write(k, v, part.positions);
          const { out } = encodeAttention(commands, {
            ...attentionOf(layer, config, l, q, part.positions),
            slots: layer.cache.length + before + 1,
          });
          const [x] = finish.encode(commands, [part.x, out], 1) as [Tensor];
          for (const spent of [q, k, v, out, part.x]) commands.free(spent);
          part.x = x;
          for (const count of [rows.qkv, rows.output, rows.gateUp, rows.down]) count[l]++;
        }
        return outputOf({ memory, scope }, part.x, 1, position + 1);
      } catch (error) {
        scope.end();
        throw error;
      }
    },
    commit(token) {
      memory.decoded++;
      const at = [memory.length],
        turned = [next()];
      for (const { cache } of memory.layers) {
        cache.join(1, at, turned);
        memory.mostSlots = Math.max(memory.mostSlots, cache.length);
        memory.counters.fused++;
      }
      memory.text.push(token);
    },
    rollback() {
      for (const { cache } of memory.layers) cache.rewind();
    },
  };
}
