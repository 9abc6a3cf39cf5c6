import type { ProviderEngine, QueryRange, Tensor } from '@kv/core';
import { slotModel } from '@kv/engine';
import type { Commands } from '@kv/gpu';
import { encodeAttention, encodeColumns } from '../attention.ts';
import { encodeSlots } from '../operations.ts';
import { encodeStrongest } from '../strongest.ts';
import type { DeviceCache } from './cache.ts';
import { recordCopy } from './event.ts';
import type { DeviceState } from './device-state.ts';
import { gateOutputs } from './output-gate.ts';
import { mix } from './pass.ts';
import { embedFrom, type TokenChunk } from './token-chunk.ts';
import { attentionOf } from './signals.ts';

type FoldArguments = Parameters<NonNullable<ProviderEngine['attentionStretches']>>;
interface ProjectedChunk {
  readonly part: TokenChunk;
  readonly q: Tensor;
  readonly gate: Tensor | undefined;
}

/**
 * Feeds the whole sequence through the layers up to `layer` of an empty copy, and folds that layer's attention stretch
 * by stretch on the device: one read for all of it.
 */
export async function foldStretches(
  caches: DeviceState,
  layer: number,
  stretches: readonly QueryRange[],
  strongest: FoldArguments[2],
  record: FoldArguments[3],
): Promise<readonly (readonly Float32Array[])[]> {
  const copy = caches.empty(),
    scope = caches.open(),
    { commands } = scope,
    { progress, counters } = caches.context,
    { ids } = progress.text;
  copy.context.progress.rotaryLength = ids.length;
  try {
    const first = Math.min(ids.length, ...stretches.map(({ from }) => from)),
      ranges = [{ from: 0, end: first }, ...stretches];
    const parts = ranges.map(({ from, end }) => embedFrom(copy, commands, ids.slice(from, end), from));
    for (const [index, { kind, at: l }] of copy.kept.all.slice(0, copy.kept.slots[layer]).entries())
      for (const [i, part] of parts.flat().entries()) {
        if (kind === 'state') {
          mix(copy, commands, index, part);
          continue;
        }
        if (i === 0) [copy.layers[l].cache.grow(ids.length), counters.fused++];
        through(copy, commands, l, part);
      }
    copy.layers[layer].cache.grow(ids.length);
    for (const part of parts[0]) {
      const { q, gate } = project(copy, commands, layer, part);
      for (const spent of gate ? [q, gate] : [q]) commands.free(spent);
    }
    const wanted: Tensor[][] = [];
    for (const [i, stretch] of stretches.entries()) {
      counters.statistics += stretch.end - stretch.from;
      wanted.push(fold(copy, layer, parts[i + 1], stretch, strongest, record, commands));
    }
    const read = await scope.read(wanted.flat());
    let at = 0;
    return wanted.map((some) => some.map(() => read[at++].data as Float32Array));
  } finally {
    copy.free();
    scope.end();
  }
}

/** Records a chunk's keys and values into a layer's cache. */
function project(
  { layers, kept, decoder }: DeviceState,
  commands: Commands,
  l: number,
  part: TokenChunk,
): ProjectedChunk {
  const index = kept.slots[l],
    [q, k, v, gate] = decoder.layers[index].project.encode(commands, [part.x], part.m, part.angles(index)) as [
      Tensor,
      Tensor,
      Tensor,
      Tensor?,
    ];
  layers[l].cache.append(k, v, part.positions, part.at, part.rotations);
  decoder.rows.qkv[index] += part.m;
  for (const spent of [k, v]) commands.free(spent);
  return { part, q, gate };
}

/** Records a chunk through a whole layer. */
function through(copy: DeviceState, commands: Commands, l: number, part: TokenChunk): void {
  const { q, gate } = project(copy, commands, l, part),
    { decoder, context, kept } = copy,
    config = slotModel(context.model.config),
    index = kept.slots[l];
  const attended = encodeAttention(commands, attentionOf(copy.layers[l], config, l, q, part.positions)),
    given = gateOutputs(commands, config, attended.out, gate),
    before = part.x;
  [part.x] = decoder.layers[index].finish.encode(commands, [before, given], part.m) as [Tensor];
  for (const count of [decoder.rows.output, decoder.rows.gateUp, decoder.rows.down]) count[index] += part.m;
  for (const spent of [q, given, before]) commands.free(spent);
}

/** Records the folding of one stretch, and copies of its results; everything else is freed with it. */
function fold(
  copy: DeviceState,
  l: number,
  parts: readonly TokenChunk[],
  stretch: QueryRange,
  strongest: FoldArguments[2],
  record: FoldArguments[3],
  outer: Commands,
): Tensor[] {
  const { first, from, end, inside } = stretch,
    size = end - first,
    { layers, context } = copy,
    config = slotModel(context.model.config),
    layer = layers[l],
    inner = copy.open(),
    { commands, ops } = inner;
  try {
    const projected = parts.map((part) => project(copy, commands, l, part)),
      own = ownSlots(commands, layer.cache, first, size);
    const received = commands.make([config.queryHeads, size]),
      best = commands.make([1, end - from, 2 * strongest.most]),
      mean = inside ? undefined : commands.make([size, size]);
    for (const [i, { part, q }] of projected.entries()) {
      const a = attentionOf(layer, config, l, q, part.positions),
        row = part.at[0] - from,
        attended = encodeAttention(commands, a, { last: part.m });
      encodeColumns(commands, { ...a, ...own, capacity: size, slots: size }, attended, received, { join: i > 0 });
      const some = encodeStrongest(commands, a, attended, {
        first,
        ...strongest,
        ...(mean && { mean: { to: mean, row: part.at[0] - first } }),
      });
      encodeSlots(commands, { ...some, shape: [1, ...some.shape] }, best, part.m, 0, row);
      for (const spent of [some, attended.out, q]) commands.free(spent);
    }
    const folded = {
      ops,
      received,
      strongest: { ...best, shape: best.shape.slice(1) },
      ...(mean && from === first && { mean: { ...mean, shape: [1, size, size] } }),
    };
    return record(folded, stretch).map((x) => recordCopy(outer, x));
  } finally {
    inner.end();
  }
}

/** Returns a copy of `size` slots of every head from `first` on, as a cache of its own. */
function ownSlots(
  commands: Commands,
  { keys, positions, heads }: DeviceCache,
  first: number,
  size: number,
): { readonly keys: Tensor; readonly positions: Tensor; readonly lengths: Tensor } {
  const own = {
    keys: commands.make([heads, size, keys.shape[2]], keys.dtype),
    positions: commands.make([heads, size], 'u32'),
    lengths: commands.upload(new Uint32Array(heads).fill(size), [heads]),
  };
  encodeSlots(commands, keys, own.keys, size, first);
  encodeSlots(commands, positions, own.positions, size, first);
  return own;
}
