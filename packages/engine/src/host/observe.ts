import { range } from '@kv/core/shared';
import { attentionWeights } from '../attention/attention.ts';
import type { AttendOptions } from '../attention/attention.ts';
import { layerAttention } from '../attention/layer-attention.ts';
import { pickHeads } from '../decoder/joined-heads.ts';
import type { SlotReader } from '../decoder/keeps.ts';
import { makeRoom } from '../memory/make-room.ts';
import { runProviders } from '../memory/providers.ts';
import type { Observing, ProviderRequest } from '../memory/providers.ts';
import { attentionRows, rowsOf } from './attention-rows.ts';
import type { HostState } from './host-state.ts';
import { notRemembered } from '../memory/observation-plan.ts';

/** Runs the providers of the signals that an event's policy reads, for its layers. */
export async function runHostProviders(
  caches: HostState,
  request: ProviderRequest,
): Promise<ReadonlyMap<string, unknown>[]> {
  const { ops } = caches.context.backend,
    { policy, onPass, signal: abort } = request;
  const out = await runProviders(
    caches.context,
    request,
    async (ids, what) => {
      onPass?.();
      const observed = await observe(caches, ids, what, abort);
      return (layer) => ops.from(observed[layer]);
    },
    (signal) => ({
      attentionRows(layer, visit, from) {
        onPass?.();
        return attentionRows(caches, layer, visit, from, abort);
      },
      async hiddenNumbers(key, fold) {
        const numbers = caches.hidden?.numbers(key, fold);
        if (!numbers) throw notRemembered(signal);
        return numbers;
      },
    }),
  );
  if (policy.needs.some((signal) => signal.hidden)) caches.hidden?.seen();
  return out;
}

interface Observed {
  readonly data: Float32Array;
  readonly shape: readonly number[];
}

/**
 * Feeds ids to a copy, and returns the largest weight that each earlier slot received from them, `[H, n]` per layer, or the
 * queries of some of them, `[H, w, d]`.
 */
async function observe(
  caches: HostState,
  ids: readonly number[],
  { over, chosen }: Observing,
  signal: AbortSignal | undefined,
): Promise<readonly Observed[]> {
  const copy = caches.fork(),
    { decoder, context } = caches,
    { progress } = copy.context,
    { queryHeads: H } = context.model.config;
  try {
    makeRoom(copy, ids.length, 'observeMax');
    const positions = Uint32Array.from(ids, (_, i) => progress.length + i),
      out: Observed[] = [],
      /** The largest weights of each layer, of all heads that read its slots. */
      largest: Float32Array[] = [];
    let x = decoder.embed(ids);
    const inputs = await decoder.layerInputs(ids, x);
    for (const [layer, { kind, at: l, reader }] of copy.kept.all.entries()) {
      await context.guard.between({ phase: 'prefill', signal });
      if (kind === 'state') {
        x = await decoder.finish(layer, x, await decoder.mix(layer, x, copy.states.all[l]), undefined, inputs);
        continue;
      }
      const { cache } = copy.layers[l],
        { q, k, v, gate } = await decoder.project(
          layer,
          x,
          progress.rotations(positions),
          progress.rotaryLength,
          progress.shift,
        );
      if (kind === 'slots') cache.append(k, v, positions, progress.shift);
      if (chosen) out[l] = withQueries(out[l], q, ids.length, chosen, cache.headDim, reader);
      const stride = cache.length,
        columnMax = (largest[l] ??= new Float32Array(chosen ? 0 : (reader?.all ?? H) * stride)),
        attention = { q, queryPositions: positions, cache, ...layerAttention(decoder, layer) };
      if (over)
        addLargest(columnMax, { ...attention, engine: decoder.rowEngine }, decoder.readLengths(layer, x), reader);
      x = await decoder.finish(
        layer,
        x,
        await decoder.attend({
          ...attention,
          counters: context.counters,
          ...(!over && !chosen && { stats: { stride, columnMax, among: reader } }),
        }),
        gate,
        inputs,
      );
      if (chosen || reader?.last === false) continue;
      const heads = columnMax.length / stride,
        n = stride - ids.length;
      out[l] = { data: pickHeads(columnMax, range(0, heads), stride, n), shape: [heads, n] };
    }
    return out;
  } finally {
    context.ledger.countCopy(copy.context.ledger);
    copy.free();
  }
}

/** Returns queries `[heads of all readers, w, d]`, those of one reader taken from q `[H, m, d]`. */
function withQueries(
  before: Observed | undefined,
  q: Float32Array,
  m: number,
  chosen: readonly number[],
  d: number,
  reader: SlotReader | undefined,
): Observed {
  const heads = q.length / (m * d),
    all = reader?.all ?? heads,
    w = chosen.length,
    data = before?.data ?? new Float32Array(all * w * d);
  for (let h = 0; h < heads; h++)
    for (const [i, at] of chosen.entries())
      data.set(q.subarray((h * m + at) * d, (h * m + at + 1) * d), ((reader?.rows[h] ?? h) * w + i) * d);
  return { data, shape: [all, w, d] };
}

/** Queries whose weights are held at a time. */
const BLOCK = 16;

/**
 * Sets the rows of these heads in columnMax `[H, n]`, 0 before, to the largest weight of each slot, those of query i divided
 * by `lengths[i]`.
 */
function addLargest(
  columnMax: Float32Array,
  { q, queryPositions, ...rest }: Omit<AttendOptions, 'stats' | 'counters'>,
  lengths: Float64Array,
  reader: SlotReader | undefined,
): void {
  const m = queryPositions.length,
    d = rest.cache.headDim,
    H = q.length / (m * d),
    n = columnMax.length / (reader?.all ?? H);
  for (let from = 0; from < m; from += BLOCK) {
    const to = Math.min(m, from + BLOCK),
      weights = attentionWeights({
        ...rest,
        q: rowsOf(q, H, m, d, from, to),
        queryPositions: queryPositions.subarray(from, to),
      });
    for (let h = 0; h < H; h++)
      for (let i = from; i < to; i++) {
        const at = (h * (to - from) + i - from) * n,
          row = (reader?.rows[h] ?? h) * n,
          length = Math.max(lengths[i], Number.MIN_VALUE);
        for (let j = 0; j < n; j++) columnMax[row + j] = Math.max(columnMax[row + j], weights[at + j] / length);
      }
  }
}
