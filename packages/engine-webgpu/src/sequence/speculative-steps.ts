import type { Tensor } from '@kv/core';
import { movesTogether, slotModel } from '@kv/engine';
import type { SpeculativeSteps } from '@kv/engine';
import { encodeAttention } from '../attention.ts';
import { encodeEmbedding } from '../operations.ts';
import { carry } from './carry.ts';
import type { DeviceState } from './device-state.ts';
import { finishRows } from './finish-rows.ts';
import { hiddenFrom, hiddenSlots, type ViewChecks } from './hidden-slots.ts';
import { outputOf } from './output.ts';
import { gateOutputs } from './output-gate.ts';
import { chunkOf } from './token-chunk.ts';
import { ofReader } from './pass.ts';
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
      // rows of a table in the model's file are read by ids that the host knows
      if (hostTakesPart || caches.decoder.perLayer || !caches.shared.empty) return 0;
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
          decoder,
          context: { model, progress },
        } = caches,
        { config } = model,
        { head, embedding, rows } = decoder,
        position = progress.length + inFlight,
        checks: ViewChecks[number][] = [];
      try {
        // the device's programs give no rows back, so the decoder has the embedding
        const matrix = head.matrix(embedding!),
          { tensor } = encodeEmbedding(commands, id.tensor, 1, matrix, config.embeddingScale),
          part = chunkOf(caches, commands, Uint32Array.of(position), tensor);
        for (const [index, { kind, at: l, reader }] of caches.kept.all.entries()) {
          const { project } = decoder.layers[index];
          if (kind === 'state') {
            const [given] = project.encode(commands, [part.x], 1) as [Tensor],
              mixed = carry(caches, commands, index, given, 1, { ahead: true }),
              x = finishRows(decoder, commands, index, part, mixed);
            commands.free(given);
            part.x = x;
            rows.qkv[index]++;
            continue;
          }
          const layer = caches.layers[l],
            [q, ...others] = project.encode(commands, [part.x], 1, part.angles(index)),
            keysValues = kind === 'slots' ? others.slice(0, 2) : [],
            gate = others.at(keysValues.length) as Tensor | undefined;
          if (kind === 'slots') layer.cache.write(others[0], others[1], part.positions);
          const at = ofReader(caches.slots.layerContext(l, active, inFlight + 1), reader),
            hidden = hiddenSlots(active.policy, 'decode', at, caches.reader(l, scope, reader), scope, () => {}); // views without signals have no state
          checks.push(...hidden.checks);
          const { out } = encodeAttention(commands, {
            ...attentionOf(layer, slotModel(config), l, q, part.positions),
            ...hiddenFrom(commands, part, hidden),
            slots: layer.cache.length + inFlight + 1,
          });
          const gated = gateOutputs(commands, out, gate, q),
            x = finishRows(decoder, commands, index, part, gated);
          for (const spent of [q, ...keysValues]) commands.free(spent);
          part.x = x;
          rows.qkv[index]++;
        }
        return outputOf({ caches, scope, checks }, [part], position + 1);
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
      }
      counters.fused += caches.kept.all.filter(({ kind }) => kind !== 'state').length;
      caches.states.commit();
      progress.text.push(token);
    },
    rollback() {
      for (const { cache } of caches.layers) cache.rewind();
      caches.states.rewind();
    },
  };
}
