import type { ProviderEngine, QueryRange, Tensor } from '@kv/core';
import { slotModel } from '@kv/engine';
import type { SlotReader } from '@kv/engine';
import type { Commands } from '@kv/gpu';
import { encodeAttention, encodeColumns } from '../attention.ts';
import { encodeSlots } from '../operations.ts';
import { encodeStrongest } from '../strongest.ts';
import type { DeviceCache } from './cache.ts';
import { recordCopy } from './event.ts';
import type { DeviceState } from './device-state.ts';
import { finishRows } from './finish-rows.ts';
import { gateOutputs } from './output-gate.ts';
import { joinHeads } from './joined-heads.ts';
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
    const parts: TokenChunk[][] = [];
    for (const { from, end } of ranges) parts.push(await embedFrom(copy, commands, ids.slice(from, end), from));
    const readers = copy.kept.readers[layer],
      last = readers.at(-1)!; // itself, if no other layer reads its slots
    /** Queries of all layers that read its slots, by chunk. */
    const joined = new Map<TokenChunk, Tensor>();
    for (const [index, { kind, at: l, reader }] of copy.kept.all.slice(0, last).entries())
      for (const [i, part] of parts.flat().entries()) {
        if (kind === 'state') {
          mix(copy, commands, index, part);
          continue;
        }
        if (kind === 'slots' && i === 0) copy.layers[l].cache.grow(ids.length);
        if (i === 0) counters.fused++;
        const { q, gate } = project(copy, commands, index, part);
        if (reader && l === layer && part.at[0] >= first)
          joinQueries(commands, joined, part, q, reader, copy.layers[l]);
        through(copy, commands, index, { part, q, gate });
      }
    if (readers.length === 1) {
      copy.layers[layer].cache.grow(ids.length);
      for (const part of parts[0]) {
        const { q, gate } = project(copy, commands, last, part);
        for (const spent of gate ? [q, gate] : [q]) commands.free(spent);
      }
    }
    /** Returns the queries of a chunk of a stretch, of all heads that read the layer's slots. */
    const queries = (inner: Commands, part: TokenChunk): Tensor => {
      const { q, gate } = project(copy, inner, last, part),
        { reader } = copy.kept.all[last];
      if (gate) inner.free(gate);
      if (!reader) return q;
      joinQueries(inner, joined, part, q, reader, copy.layers[layer]);
      inner.free(q);
      return joined.get(part)!; // the first reader's made it
    };
    const wanted: Tensor[][] = [];
    for (const [i, stretch] of stretches.entries()) {
      counters.statistics += stretch.end - stretch.from;
      wanted.push(fold(copy, layer, { parts: parts[i + 1], queries }, stretch, strongest, record, commands));
    }
    const read = await scope.read(wanted.flat());
    let at = 0;
    return wanted.map((some) => some.map(() => read[at++].data as Float32Array));
  } finally {
    caches.context.ledger.countCopy(copy.context.ledger);
    copy.free();
    scope.end();
  }
}

/** Puts the queries of one of several layers that read the same slots among those of all, for a chunk. */
function joinQueries(
  commands: Commands,
  joined: Map<TokenChunk, Tensor>,
  part: TokenChunk,
  q: Tensor,
  reader: SlotReader,
  { heads }: DeviceState['layers'][number],
): void {
  const all = joined.get(part) ?? commands.make([heads.queryHeads, part.m, heads.headDim]);
  joined.set(part, all);
  joinHeads(commands, q, all, reader, heads.kvHeads);
}

/** Records a chunk's queries in a layer of the model, and its keys and values into the layer's cache, if it keeps slots. */
function project(
  { layers, kept, decoder }: DeviceState,
  commands: Commands,
  index: number,
  part: TokenChunk,
): ProjectedChunk {
  const { kind, at: l } = kept.all[index],
    [q, ...others] = decoder.layers[index].project.encode(commands, [part.x], part.m, part.angles(index)),
    keysValues = kind === 'slots' ? others.slice(0, 2) : [];
  if (kind === 'slots') layers[l].cache.append(others[0], others[1], part.positions, part.at, part.rotations);
  decoder.rows.qkv[index] += part.m;
  for (const spent of keysValues) commands.free(spent);
  return { part, q, gate: others.at(keysValues.length) };
}

/** Records the rest of a layer of the model, after its projections. */
function through(copy: DeviceState, commands: Commands, index: number, { part, q, gate }: ProjectedChunk): void {
  const { decoder, context, kept } = copy,
    { at: l } = kept.all[index],
    config = slotModel(context.model.config);
  const attended = encodeAttention(commands, attentionOf(copy.layers[l], config, l, q, part.positions)),
    given = gateOutputs(commands, attended.out, gate, q),
    next = finishRows(decoder, commands, index, part, given);
  commands.free(q);
  part.x = next;
}

/** Records the folding of one stretch, and copies of its results; everything else is freed with it. */
function fold(
  copy: DeviceState,
  l: number,
  { parts, queries }: { readonly parts: readonly TokenChunk[]; queries(inner: Commands, part: TokenChunk): Tensor },
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
    const projected = parts.map((part) => ({ part, q: queries(commands, part) })),
      own = ownSlots(commands, layer.cache, first, size);
    const received = commands.make([layer.heads.queryHeads, size]),
      best = commands.make([1, end - from, 2 * strongest.most]),
      mean = inside ? undefined : commands.make([size, size]);
    for (const [i, { part, q }] of projected.entries()) {
      const a = { ...attentionOf(layer, config, l, q, part.positions), slots: end },
        row = part.at[0] - from,
        attended = encodeAttention(commands, a, { last: part.m });
      encodeColumns(commands, { ...a, ...own, capacity: size, slots: size }, attended, received, { join: i > 0 });
      const some = encodeStrongest(commands, a, attended, {
        first,
        ...strongest,
        ...(mean && { mean: { to: mean, row: part.at[0] - first } }),
      });
      encodeSlots(commands, { ...some, shape: [1, ...some.shape] }, best, part.m, 0, row);
      for (const spent of [some, attended.out]) commands.free(spent);
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
