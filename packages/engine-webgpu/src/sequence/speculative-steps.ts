import type { Tensor } from '@kv/core';
import { movesTogether, slotModel } from '@kv/engine';
import type { SpeculativeSteps } from '@kv/engine';
import { encodeAttention } from '../attention.ts';
import { encodeEmbedding } from '../operations.ts';
import { carry } from './carry.ts';
import type { DeviceState } from './device-state.ts';
import { hiddenFrom, hiddenSlots, type ViewChecks } from './hidden-slots.ts';
import { outputOf } from './output.ts';
import { gateOutputs } from './output-gate.ts';
import { chunkOf } from './token-chunk.ts';
import { attentionOf } from './signals.ts';

/**
 * Steps of a sequence that holds a cache and no observations, on ids that only the device knows. A slot is written
 * after those in use and counts once its token is known, and each step leaves states of its own, so a rollback only resets
 * the lengths and drops those states.
 */
export function speculativeSteps(caches: DeviceState): SpeculativeSteps {
  const nextRotation = (): number => {
    const { progress } = caches.context;
    return progress.rotations(Uint32Array.of(progress.length))[0];
  };
  return {
    capacity(policy) {
      const hostTakesPart =
        policy.hooks('view').some(({ needs }) => needs.length > 0) ||
        policy.hooks('step').length > 0 ||
        movesTogether(policy);
      if (hostTakesPart || !caches.shared.empty) return 0;
      return Math.min(
        caches.context.window - nextRotation(),
        caches.slots.tokensUntilFreed,
        ...caches.layers.map(({ plain, cache }) => (plain ? cache.capacity - cache.length : 0)),
      );
    },
    start(id, inFlight, active) {
      const scope = caches.open(),
        { commands } = scope,
        {
          decoder: { layers: prepared, head, embedding, rows },
          context: { model, progress },
        } = caches,
        { config } = model,
        position = progress.length + inFlight,
        checks: ViewChecks[number][] = [];
      try {
        // the device's programs give no rows back, so the decoder has the embedding
        const matrix = head.matrix(embedding!),
          { tensor } = encodeEmbedding(commands, id.tensor, 1, matrix, config.embeddingScale),
          part = chunkOf(caches, commands, Uint32Array.of(position), tensor);
        const counted = [rows.qkv, rows.output, rows.gateUp, rows.down];
        for (const [index, { kind, at: l }] of caches.kept.all.entries()) {
          const { project, finish } = prepared[index];
          if (kind === 'state') {
            const [given] = project.encode(commands, [part.x], 1) as [Tensor],
              mixed = carry(caches, commands, index, given, 1, { ahead: true }),
              [x] = finish.encode(commands, [part.x, mixed], 1) as [Tensor];
            for (const spent of [given, mixed, part.x]) commands.free(spent);
            part.x = x;
            for (const count of counted) count[index]++;
            continue;
          }
          const layer = caches.layers[l],
            [q, k, v, gate] = project.encode(commands, [part.x], 1, part.angles(index)) as [
              Tensor,
              Tensor,
              Tensor,
              Tensor?,
            ];
          layer.cache.write(k, v, part.positions);
          const at = caches.slots.layerContext(l, active, inFlight + 1),
            hidden = hiddenSlots(active.policy, 'decode', at, caches.reader(l, scope), scope, () => {}); // views without signals have no state
          checks.push(...hidden.checks);
          const { out } = encodeAttention(commands, {
            ...attentionOf(layer, slotModel(config), l, q, part.positions),
            ...hiddenFrom(commands, part, hidden),
            slots: layer.cache.length + inFlight + 1,
          });
          const gated = gateOutputs(commands, config, out, gate),
            [x] = finish.encode(commands, [part.x, gated], 1) as [Tensor];
          for (const spent of [q, k, v, gated, part.x]) commands.free(spent);
          part.x = x;
          for (const count of counted) count[index]++;
        }
        return outputOf({ caches, scope, checks }, part.x, 1, position + 1);
      } catch (error) {
        scope.end();
        throw error;
      }
    },
    commit(token) {
      const { progress, counters } = caches.context,
        at = [progress.length],
        rotations = [nextRotation()];
      progress.decoded++;
      for (const { cache } of caches.layers) {
        cache.join(1, at, rotations);
        progress.countSlots(cache.length);
        counters.fused++;
      }
      caches.states.commit();
      progress.text.push(token);
    },
    rollback() {
      for (const { cache } of caches.layers) cache.rewind();
      caches.states.rewind();
    },
  };
}
