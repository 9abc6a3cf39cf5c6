import { attentionLast, keys, queries } from '@kv/core';
import { range, sumOf } from '@kv/core/shared';
import { runGuarded } from '@kv/core/engine';
import type { Tensor } from '@kv/core';
import type { LayerCache } from '../cache/layer-cache.ts';
import type { SlotReader } from '../decoder/keeps.ts';
import type { Observer, ObservedRow } from '../memory/observer.ts';
import type { HostState } from './host-state.ts';
import type { ViewSelection } from './visibility.ts';

type Positions = readonly (readonly number[])[];
/**
 * A layer's current values: the newest query's weights `[H, slots]`, the queries `[H, d]`, and the norm of each KV
 * head's largest key.
 */
interface LayerValues {
  readonly data: Float32Array;
  readonly slots: number;
  readonly vectors: Float32Array;
  readonly largest: Float32Array;
  /** What rounding can have taken off a key and a value of each KV head; absent where it took nothing, or is unknown. */
  readonly rounding: readonly NonNullable<ObservedRow['rounding']>[] | undefined;
}

async function valuesOf(caches: HostState, layers: readonly number[]): Promise<readonly LayerValues[]> {
  const {
      backend,
      model: {
        config: {
          attention: { scale },
        },
      },
    } = caches.context,
    tensors = layers.flatMap((l) => {
      const read = caches.reader(l);
      return [
        read(attentionLast) as Tensor,
        read(queries(1)) as Tensor,
        backend.ops.reduce('max', backend.ops.norm(read(keys) as Tensor), 'slots'),
      ];
    });
  const read = await backend.read(tensors);
  return layers.map((l, i) => {
    const [weights, newest, largest] = read.slice(3 * i, 3 * i + 3),
      [H = 0, w = 1, d = 1] = newest.shape,
      by = scale * Math.sqrt(d),
      vectors = new Float32Array(H * d);
    for (let h = 0; h < H; h++)
      for (let c = 0; c < d; c++) vectors[h * d + c] = newest.data[(h * w + w - 1) * d + c] * by;
    return {
      data: weights.data as Float32Array,
      slots: weights.shape[1] ?? 0,
      vectors,
      largest: largest.data as Float32Array,
      rounding: roundingOf(caches.layers[l].cache),
    };
  });
}

/** Returns what rounding can have taken off the keys and values of each KV head, where it took any and that is known. */
function roundingOf(cache: LayerCache): LayerValues['rounding'] {
  const bounds = Array.from({ length: cache.heads }, (_, g) => ({
    key: cache.rounding('keys', g),
    value: cache.rounding('values', g),
  }));
  return bounds.every(({ key, value }) => key + value < Infinity) && bounds.some(({ key, value }) => key + value > 0)
    ? bounds
    : undefined;
}

/**
 * Records what these layers hold before an event, and shows it together with what the event kept, `[layer][kvHead]`.
 */
export async function beforeEvent(
  observer: Observer,
  caches: HostState,
  layers: readonly number[],
): Promise<(kept: readonly Positions[]) => void> {
  const positions = caches.slots.kept(),
    before = await valuesOf(caches, layers),
    { decoded: step, length } = caches.context.progress;
  return (kept) =>
    layers.forEach((layer, i) =>
      show(
        observer,
        caches,
        { at: 'event', layer, step, query: length - 1 },
        before[i],
        positions[layer],
        (positions, _head, g) => {
          const left = new Set(kept[i][g]);
          return positions.flatMap((p, slot) => (left.has(p) ? [slot] : []));
        },
      ),
    );
}

/**
 * What views left visible in each layer, to all its query heads, or, where several layers read its slots, to those of each
 * reader.
 */
export type ViewsSeen = Map<
  number,
  readonly { readonly visible: readonly ViewSelection[]; readonly reader: SlotReader | undefined }[]
>;

/** Shows what views left visible to the newest token. */
export async function showViews(observer: Observer, caches: HostState, seen: ViewsSeen): Promise<void> {
  const held = caches.slots.kept(),
    now = await valuesOf(caches, [...seen.keys()]),
    { decoded: step, length } = caches.context.progress,
    query = length - 1;
  for (const [i, [layer, views]] of [...seen].entries())
    for (const { visible, reader } of views) showView(i, layer, visible, reader);
  function showView(i: number, layer: number, chosen: readonly ViewSelection[], reader: SlotReader | undefined): void {
    const { data, slots } = now[i],
      all = slots === 0 ? 0 : data.length / slots,
      heads = reader?.rows.length ?? all,
      of = reader?.rows ?? range(0, all),
      [view] = chosen.flatMap(({ lower, sinks = 0 }) => (lower ? [{ sinks, from: lower(query) }] : []));
    show(
      observer,
      caches,
      { at: 'view', layer, step, query, ...(view && { window: view }) },
      now[i],
      held[layer],
      (positions, head, g, groups) =>
        positions.flatMap((p, slot) => {
          const open = chosen.every(({ mask, sinks = 0, lower }) => {
            const rows = mask ? mask.length / slots : 1,
              row = rows === heads ? of.indexOf(head) : rows === groups ? g : 0;
            return (!mask || mask[row * slots + slot] !== 0) && (!lower || p < sinks || p >= lower(query));
          });
          return open || p === query ? [slot] : [];
        }),
      (head, n) => chosenBy(chosen.find(({ by }) => by)?.by, of.indexOf(head), heads, slots, n),
      of,
    );
  }
}

function show(
  observer: Observer,
  caches: HostState,
  place: Pick<ObservedRow, 'at' | 'layer' | 'step' | 'query' | 'window'>,
  { data, slots, vectors, largest, rounding }: LayerValues,
  held: Positions,
  left: (positions: readonly number[], head: number, g: number, groups: number) => readonly number[],
  chose: (head: number, slots: number) => ObservedRow['by'] = () => undefined,
  some?: Uint32Array,
): void {
  const heads = slots === 0 ? 0 : data.length / slots,
    { headDim: d } = caches.layers[place.layer].cache,
    { attention } = caches.context.model.config;
  for (const head of some ?? range(0, heads)) {
    const g = Math.floor((head * held.length) / heads),
      positions = held[g],
      weights = data.slice(head * slots, head * slots + positions.length),
      by = chose(head, positions.length);
    const row: ObservedRow = {
      ...place,
      head,
      weights,
      ...(attention.learnedSinks && { sink: Math.max(0, 1 - sumOf(weights)) }),
      positions,
      kept: left(positions, head, g, held.length),
      vector: vectors.slice(head * d, (head + 1) * d),
      keyNorm: largest[g],
      ...(rounding && { rounding: rounding[g] }),
      state: (id) => caches.layers[place.layer].states.first(id, head),
      ...(by && { by }),
    };
    runGuarded('observer', place.layer, () => observer.row(row));
  }
}

/** Returns one query head's row of the scores that a view selected by, if it has one. */
function chosenBy(by: ViewSelection['by'], head: number, heads: number, slots: number, n: number): ObservedRow['by'] {
  if (!by || by.scores.length !== heads * slots || by.active?.[head] === 0) return undefined;
  const { scores, forced } = by,
    rows = forced ? forced.length / slots : 0,
    at = Math.floor((head * rows) / heads) * slots;
  return {
    scores: scores.slice(head * slots, head * slots + n),
    forced: forced ? Array.from({ length: n }, (_, i) => i).filter((i) => forced[at + i] !== 0) : [],
  };
}
