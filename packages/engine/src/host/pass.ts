import type { Tensor } from '@kv/core';
import { sumOf } from '@kv/core/shared';
import { attend } from '../attention/attention.ts';
import type { AttendOptions, AttentionStats, WindowColumns } from '../attention/attention.ts';
import { layerAttention } from '../attention/layer-attention.ts';
import { countShown } from '../attention/visible.ts';
import type { Keeps, SlotReader } from '../decoder/keeps.ts';
import { countViews, type FeedOptions } from '../memory/feed.ts';
import type { Projection } from './decoder.ts';
import { writeState } from './event.ts';
import { liveRows, pick, pickPositions, pickQueries, put, withFrozen } from './frozen.ts';
import type { HostState } from './host-state.ts';
import type { LayerMemory } from './layer.ts';
import type { SlotRows } from '../cache/slot-rows.ts';
import { recordInputs } from './record-inputs.ts';
import { termOf } from '../memory/active-policy.ts';
import { joinTerm } from './terms.ts';
import { viewsActing, visibleNow, withLayerInput } from './visibility.ts';
import type { ViewSelection } from './visibility.ts';

/** Options of `pass`. */
export interface PassOptions extends Omit<FeedOptions, 'evict'> {
  /**
   * Called for all layers that keep slots, at most `layersTogether` at once, each after the last layer that reads its
   * slots. A layer-wise event evicts here.
   */
  afterLayers?(layers: readonly number[]): Promise<void>;
  /** Called with what views leave visible in a layer, to all its query heads or to those of one reader of its slots. */
  seen?(layer: number, visible: readonly ViewSelection[], reader?: SlotReader): void;
}

/** The projection of a block that a layer freezes entirely. */
const NOTHING: Projection = { q: new Float32Array(0), k: new Float32Array(0), v: new Float32Array(0) };

/** What the layers that read the same slots have in common while tokens pass them. */
interface Passing {
  /** Rows that the layer does not freeze, if it freezes some. */
  readonly live: Uint32Array | undefined;
  /** Where attention adds its statistics. */
  sums?: ReturnType<typeof statistics>;
  windows: readonly WindowColumns[];
}

/**
 * Feeds tokens through every layer: project, append, hide, attend, finish; or, where a layer carries a state, project,
 * mix, finish. Returns the logits of the last rows.
 */
export async function pass(
  caches: HostState,
  ids: readonly number[],
  { phase, active, rows, signal, eventFollows = false, afterLayers, seen }: PassOptions,
): Promise<Float32Array[]> {
  const { decoder, context, slots } = caches,
    { progress, guard } = context,
    { hidden, vocab } = context.model.config,
    m = ids.length,
    positions = Uint32Array.from(ids, (_, i) => progress.length + i),
    copies = active.policy.hooks('freeze')[0]?.copies ?? false,
    observed = eventFollows || afterLayers !== undefined || observes(caches, active, phase),
    // the last layer finishes rows whose logits are read; keys and values, or a state, it has of all
    lastRows = observed || rows >= m ? undefined : Uint32Array.from({ length: rows }, (_, i) => m - rows + i),
    last = caches.kept.all.length - 1;
  let x = decoder.embed(ids);
  const inputs = await decoder.layerInputs(ids, x),
    /** What layers take of some rows. */
    inputsOf = (rows: Uint32Array | undefined): Float32Array | undefined =>
      inputs && rows ? pick(inputs, rows, inputs.length / m) : inputs;
  let previous: Pick<Projection, 'k' | 'v'> | undefined,
    /** Rows that the last layer with slots did not freeze; undefined for all. */
    unfrozen: Uint32Array | undefined;
  const passings = new Map<number, Passing>(),
    passingOf = (l: number, kind: Keeps['kind'], liveOf: () => Uint32Array | undefined): Passing => {
      const begun = passings.get(l);
      if (begun && kind === 'shared') return begun;
      const live = liveOf(),
        begins: Passing = { live: live && live.length < m ? live : undefined, windows: [] };
      passings.set(l, begins);
      return begins;
    };
  for (const id of ids) progress.text.push(id);
  for (const [layer, keeps] of caches.kept.all.entries()) {
    const { kind, at: l, reader } = keeps;
    await guard.between({ phase, signal });
    if (layer === last) unfrozen = lastRows ?? unfrozen;
    if (kind === 'state') {
      // rows that the layer below froze stay as they are, but later ones read what they carry on
      const mixed = await decoder.mix(layer, x, caches.states.all[l]);
      if (unfrozen === undefined) x = await decoder.finish(layer, x, mixed, undefined, inputs);
      else if (unfrozen.length > 0) {
        const [rows, mixedRows] = [pick(x, unfrozen, hidden), pick(mixed, unfrozen, mixed.length / m)];
        put(x, unfrozen, hidden, await decoder.finish(layer, rows, mixedRows, undefined, inputsOf(unfrozen)));
      }
      continue;
    }
    const { headDim } = caches.layers[l].cache,
      passing = passingOf(l, kind, () =>
        phase === 'prefill' && previous
          ? liveRows(active.policy, slots.layerContext(l, active), positions, caches.layers[l].ring?.window ?? 1)
          : undefined,
      ),
      live = (layer === last ? lastRows : undefined) ?? passing.live,
      frozen = live !== undefined;
    if (kind === 'slots') unfrozen = live;
    const at = frozen ? pickPositions(positions, live) : positions,
      rowsIn = frozen ? pick(x, live, hidden) : x;
    // frozen rows are projected as they are, unless their keys and values come along with them, or another layer has them
    const whole = frozen && !copies && kind === 'slots',
      [some, given] = whole ? [positions, x] : [at, rowsIn],
      projected =
        some.length === 0
          ? NOTHING
          : await decoder.project(layer, given, progress.rotations(some), progress.rotaryLength, progress.shift);
    // `live` is only set together with it
    if (kind === 'slots') previous = frozen && copies ? withFrozen(projected, live, m, previous!, headDim) : projected;
    const { q, gate } = projected,
      fewer = whole && some.length > 0;
    if (kind === 'slots') await recordInputs(caches, active, [layer, l], x);
    const out = await attendLayer(
      caches,
      { layer, ...keeps },
      rowsIn,
      {
        ...previous!, // of the layer that keeps the slots, or of one above it, whose slots are not appended here
        ...{
          q: fewer ? pickQueries(q, live, m, headDim) : q,
          gate: fewer && gate ? pick(gate, live, gate.length / m) : gate,
        },
        ...{ at, positions },
        inputs: inputsOf(frozen ? live : undefined),
      },
      { phase, active, passing, eventFollows: eventFollows || afterLayers !== undefined, ...(seen && { seen }) },
    );
    if (frozen) put(x, live, hidden, out);
    else x = out;
    if (reader?.last === false) continue;
    if (phase === 'prefill') slots.freeUnreachable(l);
    await afterLayers?.([l]);
  }
  caches.hidden?.push(decoder.hiddenNorm(x));
  const count = Math.min(rows, m);
  if (count === 0) return [];
  const all = await decoder.logits(x.slice((m - count) * hidden));
  return Array.from({ length: count }, (_, i) => all.slice(i * vocab, (i + 1) * vocab));
}

/** Returns whether something reads what the last layer computes of rows besides logits: hooks, sums of weights, queries, hidden states. */
function observes(
  { hidden, layers }: HostState,
  { policy }: PassOptions['active'],
  phase: PassOptions['phase'],
): boolean {
  return (
    hidden !== undefined ||
    policy.hooks('freeze').length > 0 ||
    viewsActing(policy, phase).length > 0 ||
    layers.some(({ accumulated, block, ring }) => accumulated ?? block ?? ring)
  );
}

/**
 * Appends keys and values of these positions to a layer, records its queries, and asks the policy's views what they
 * leave visible. Returns that, the numbers that they read, if known, and where attention adds its column sums.
 * @param options.reader where several layers read these slots: the one whose queries these are. Keys and values are the
 * first one's
 * @param options.input returns what the layer's projections read of the newest token
 */
export async function appendLayer(
  caches: HostState,
  l: number,
  { q, k, v, at, positions }: Projection & { at: Uint32Array; positions: Uint32Array },
  {
    phase,
    active,
    seen,
    reader,
    input,
  }: Pick<PassOptions, 'phase' | 'active' | 'seen'> & {
    readonly reader?: SlotReader | undefined;
    readonly input?: () => Tensor;
  },
): Promise<{
  readonly visible: readonly ViewSelection[];
  readonly reads: number | undefined;
  readonly sums: ReturnType<typeof statistics>;
}> {
  const { shared } = caches,
    { backend, progress } = caches.context,
    layer = caches.layers[l],
    { cache } = layer,
    begins = reader?.first !== false;
  if (begins) {
    cache.append(k, v, positions, progress.shift);
    layer.windowStats.clear();
    progress.countSlots(cache.length);
  }
  layer.ring?.push(q, at, progress.shift, reader);
  const sums = begins ? statistics(layer) : undefined; // grown before a view reads them
  const visible = await visibleNow(
    active.policy,
    phase,
    { ...caches.slots.layerContext(l, active), ...(reader && { queryHeads: reader.rows.length }) },
    cache.lengths,
    withLayerInput(caches.reader(l, { reader }), phase, input),
    backend,
    (needs, state) => writeState(needs, state, layer.states, shared, backend, reader?.rows),
    seen !== undefined,
  );
  if (visible.length > 0) seen?.(l, visible, reader);
  const known = visible.flatMap(({ reads }) => reads ?? []);
  return { visible, reads: known.length === visible.length ? sumOf(known) : undefined, sums };
}

/** Lets rows attend under the policy's views, and finishes the layer. */
async function attendLayer(
  caches: HostState,
  { layer: place, at: l, reader }: Keeps & { readonly layer: number },
  x: Float32Array,
  {
    q,
    k,
    v,
    gate,
    inputs,
    at,
    positions,
  }: Projection & { inputs?: Float32Array | undefined; at: Uint32Array; positions: Uint32Array },
  {
    phase,
    active,
    passing,
    eventFollows,
    seen,
  }: Pick<PassOptions, 'phase' | 'active' | 'eventFollows' | 'seen'> & { readonly passing: Passing },
): Promise<Float32Array> {
  const { decoder } = caches,
    { counters, model, backend } = caches.context,
    layer = caches.layers[l],
    { cache, windowStats } = layer,
    begins = reader?.first !== false;
  const { hidden } = model.config,
    input = (): Tensor =>
      backend.ops.from({ data: decoder.readInput(place, x.subarray(x.length - hidden)), shape: [1, 1, hidden] });
  if (begins && decoder.fused && (phase === 'decode' || !active.policy.evicts)) cache.fit(positions.length);
  const {
    visible,
    reads,
    sums: added,
  } = await appendLayer(caches, l, { q, k, v, at, positions }, { phase, active, reader, input, ...(seen && { seen }) });
  if (begins) passing.sums = added;
  const { sums } = passing,
    stride = sums?.stride ?? cache.length,
    looks = eventFollows && visible.length === 0 && decoder.attendsWindows;
  // an event looks at attention that no view hides anything from, from any layer
  if (begins && looks)
    passing.windows = windowStats.allocate(
      active.policy,
      layer.ring,
      at.length,
      reader?.all ?? model.config.queryHeads,
      stride,
    );
  else if (!looks) {
    windowStats.clear();
    passing.windows = [];
  }
  const { windows } = passing,
    stats = sums || windows.length > 0 ? { ...sums, stride, windows, among: reader } : undefined;
  const term = termOf(active, layer),
    shown = layerAttention(decoder, place, visible),
    attention: AttendOptions = {
      q,
      queryPositions: at,
      cache,
      counters,
      ...shown,
      ...(stats && { stats }),
    };
  if (phase === 'decode' && visible.length > 0)
    countViews(counters, {
      slots: countShown(shown.visible ?? [], cache, q.length / cache.headDim, at[at.length - 1]),
      numbers: reads,
    });
  let out = x;
  if (at.length > 0 && !term) out = await decoder.attendAndFinish(place, x, attention, gate, inputs);
  else if (at.length > 0 && term) {
    const masses = new Float32Array(q.length / cache.headDim),
      attended = attend({ ...attention, masses, engine: decoder.rowEngine });
    await joinTerm(
      term,
      { at: caches.slots.layerContext(l, active), ops: backend.ops, read: caches.reader(l, { reader }) },
      backend,
      { q, queryPositions: at, out: attended, masses },
    );
    out = await decoder.finish(place, x, attended, gate, inputs);
  }
  if (sums && layer.block && reader?.last !== false) addBlock(layer.block, layer, sums.columnSum);
  return out;
}

/** Returns where attention adds its column sums, if some event wants them. */
function statistics({
  cache,
  accumulated,
  block,
}: LayerMemory): (AttentionStats & { readonly columnSum: Float32Array }) | undefined {
  accumulated?.grow(cache.length);
  block?.grow(cache.length);
  if (block) return { stride: cache.length, columnSum: new Float32Array(block.rows * cache.length) };
  return accumulated && { stride: accumulated.stride, columnSum: accumulated.data };
}

function addBlock(block: SlotRows, { accumulated, cache: { length: n } }: LayerMemory, columnSum: Float32Array): void {
  block.write(columnSum, n);
  if (accumulated)
    for (let h = 0; h < block.rows; h++) {
      const at = Math.floor((h * accumulated.rows) / block.rows) * accumulated.stride;
      for (let i = 0; i < n; i++) accumulated.data[at + i] += columnSum[h * n + i];
    }
}
