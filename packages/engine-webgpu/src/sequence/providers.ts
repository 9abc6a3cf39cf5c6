import { id, KvError } from '@kv/core';
import { compile, signalKey } from '@kv/core/engine';
import type { Tensor } from '@kv/core';
import type { Commands } from '@kv/gpu';
import { makeRoom, runProviders } from '@kv/engine';
import type { Observing, ProviderRequest } from '@kv/engine';
import { encodeSlots } from '../operations.ts';
import type { DeviceState } from './device-state.ts';
import { devicePass } from './pass.ts';
import { hiddenRefused } from './signals.ts';
import { foldStretches } from './contiguous-rows.ts';

/** Runs the providers of the signals that an event's policy reads, for its layers. */
export const runDeviceProviders = (
  caches: DeviceState,
  request: ProviderRequest,
  commands: Commands,
): Promise<ReadonlyMap<string, unknown>[]> =>
  runProviders(
    caches.context,
    request,
    async (ids, what) => {
      request.onPass?.();
      const observed = await observe(caches, ids, commands, what, request.signal);
      return (layer) => observed[layer];
    },
    (signal) => ({
      hiddenNumbers: () => Promise.reject(hiddenRefused(signal)),
      attentionStretches(layer, stretches, strongest, record) {
        request.onPass?.();
        return foldStretches(caches, layer, stretches, strongest, record);
      },
      attentionRows: () =>
        Promise.reject(
          new KvError(
            'gpu',
            `sequences on a device fold attention where it is and bring no whole rows to the host: expected the signal ${signalKey(signal)} to ask for attentionStretches, or a model on the CPU, got attentionRows`,
          ),
        ),
    }),
  );

/**
 * Records ids through a copy of the sequence, and returns the largest weight that each earlier slot received from them,
 * `[H, n]` per layer, or the queries of some of them, `[H, w, d]`.
 */
async function observe(
  caches: DeviceState,
  ids: readonly number[],
  commands: Commands,
  { over, chosen }: Observing,
  signal: AbortSignal | undefined,
): Promise<readonly Tensor[]> {
  const copy = caches.fork(),
    before = copy.layers.map(({ cache }) => cache.length),
    rows = copy.layers.map(({ heads }) => heads.queryHeads);
  try {
    makeRoom(copy, ids.length, 'observeMax');
    const largest = chosen ? undefined : before.map((n, l) => commands.make([rows[l], n + ids.length])),
      queries =
        chosen && copy.layers.map(({ heads: { headDim } }, l) => commands.make([rows[l], chosen.length, headDim])),
      first = copy.context.progress.length,
      picked = queries && { positions: chosen!.map((i) => first + i), to: queries };
    (
      await devicePass(copy, ids, {
        phase: 'prefill',
        active: { policy: compile(id) },
        rows: 0,
        signal,
        largest,
        over,
        picked,
      })
    ).release();
    for (const name of ['fused', 'statistics'] as const) caches.context.counters[name] += copy.context.counters[name];
    if (queries) return queries;
    return largest!.map((all, l) => {
      const present = commands.make([rows[l], before[l]]);
      encodeSlots(commands, all, present, before[l]);
      commands.free(all);
      return present;
    });
  } finally {
    caches.context.ledger.countCopy(copy.context.ledger);
    copy.free();
  }
}
