import type { AttentionStats } from '../attention/attention.ts';
import { layerAttention } from '../attention/layer-attention.ts';
import type { ActivePolicy } from '../memory/active-policy.ts';
import type { BatchMembership } from '../memory/memory.ts';
import type { HostDecoder, Projection } from './decoder.ts';
import { writeState } from './event.ts';
import { liveRows, pick, pickPositions, pickQueries, put, withFrozen } from './frozen.ts';
import type { HostState } from './host-state.ts';
import type { LayerMemory } from './layer.ts';
import type { SlotRows } from './slot-rows.ts';
import { visibleNow } from './visibility.ts';
import type { ViewSelection } from './visibility.ts';

/** Options of `pass`. */
export interface PassOptions {
  /** Whether the tokens are of the prompt or generated. */
  readonly phase: 'prefill' | 'decode';
  /** The active policy, whose views and freezing apply. */
  readonly course: ActivePolicy;
  /** Number of last rows to compute logits for. */
  readonly rows: number;
  /**
   * Whether an event follows immediately, so that its statistics of the last queries are computed while they attend.
   * @defaultValue false
   */
  readonly eventFollows?: boolean;
  /** Aborts the pass within a layer, which makes the memory unusable. */
  readonly signal?: AbortSignal | undefined;
  /** Membership in a batch of memories of one group that are fed at the same time. @defaultValue none */
  readonly place?: BatchMembership | undefined;
  /** Called for all layers in turn, at most `layersTogether` at once. A layer-wise event evicts here. */
  afterLayers?(layers: readonly number[]): Promise<void>;
  /** Called with what views leave visible in a layer. */
  seen?(layer: number, visible: readonly ViewSelection[]): void;
}

/** The projection of a block that a layer freezes entirely. */
const NOTHING: Projection = { q: new Float32Array(0), k: new Float32Array(0), v: new Float32Array(0) };

/** Feeds tokens through every layer: project, append, hide, attend, finish. Returns the logits of the last rows. */
export async function pass(
  memory: HostState,
  ids: readonly number[],
  { phase, course, rows, signal, eventFollows = false, afterLayers, seen }: PassOptions,
): Promise<Float32Array[]> {
  const { decoder } = memory,
    { hidden, vocab } = memory.model.config,
    m = ids.length;
  const positions = Uint32Array.from(ids, (_, i) => memory.length + i);
  const copies = course.policy.hooks('freeze')[0]?.copies ?? false,
    { headDim } = memory.model.config;
  let x = decoder.embed(ids),
    previous: Pick<Projection, 'k' | 'v'> | undefined;
  for (const id of ids) memory.text.push(id);
  for (const l of memory.layers.keys()) {
    await memory.between({ phase, signal });
    const live =
      phase === 'prefill' && previous
        ? liveRows(course.policy, memory.at(l, course), positions, memory.layers[l].ring?.window ?? 1)
        : undefined;
    const frozen = live !== undefined && live.length < m;
    const at = frozen ? pickPositions(positions, live) : positions,
      rowsIn = frozen ? pick(x, live, hidden) : x;
    // frozen rows are projected as they are, unless their keys and values come along with them
    const [some, given] = frozen && !copies ? [positions, x] : [at, rowsIn],
      projected =
        some.length === 0 ? NOTHING : await decoder.project(l, given, memory.rotations(some), memory.rotaryLength);
    // `live` is only set together with it
    previous = frozen && copies ? withFrozen(projected, live, m, previous!, headDim) : projected;
    const out = await attendLayer(
      memory,
      decoder,
      l,
      rowsIn,
      { ...previous, q: frozen && !copies ? pickQueries(projected.q, live, m, headDim) : projected.q, at, positions },
      { phase, course, eventFollows: eventFollows || afterLayers !== undefined, ...(seen && { seen }) },
    );
    if (frozen) put(x, live, hidden, out);
    else x = out;
    if (phase === 'prefill') memory.freeUnreachable(l);
    await afterLayers?.([l]);
  }
  memory.hidden?.push(decoder.hiddenNorm(x));
  const count = Math.min(rows, m);
  if (count === 0) return [];
  const all = await decoder.logits(x.slice((m - count) * hidden));
  return Array.from({ length: count }, (_, i) => all.slice(i * vocab, (i + 1) * vocab));
}

/** Appends keys and values, records what is observed, attends under the policy's views, and finishes the layer. */
async function attendLayer(
  memory: HostState,
  decoder: HostDecoder,
  l: number,
  x: Float32Array,
  { q, k, v, at, positions }: Projection & { at: Uint32Array; positions: Uint32Array },
  { phase, course, eventFollows, seen }: Pick<PassOptions, 'phase' | 'course' | 'eventFollows' | 'seen'>,
): Promise<Float32Array> {
  const layer = memory.layers[l],
    { cache } = layer,
    {
      backend,
      counters,
      model: { config },
    } = memory;
  if (decoder.fused && (phase === 'decode' || !course.policy.evicts)) cache.fit(positions.length);
  cache.append(k, v, positions, memory.shift);
  layer.taken.drop();
  layer.ring?.push(q, at, memory.shift);
  memory.mostSlots = Math.max(memory.mostSlots, cache.length);
  const sums = statistics(layer); // grown before a view reads them
  const visible = await visibleNow(
    course.policy,
    phase,
    memory.at(l, course),
    memory.reader(l),
    backend,
    (needs, state) => writeState(needs, state, layer.states, memory.shared, backend),
    seen !== undefined,
  );
  if (visible.length > 0) seen?.(l, visible);
  // an event looks at attention that no view hides anything from
  const windows =
    eventFollows && visible.length === 0 && decoder.attendsWindows
      ? layer.taken.ask(course.policy, layer.ring, at.length, config.queryHeads, sums?.stride ?? cache.length)
      : [];
  const stats = windows.length === 0 ? sums : { ...sums, stride: sums?.stride ?? cache.length, windows };
  const out =
    at.length === 0
      ? x
      : await decoder.attendAndFinish(l, x, {
          q,
          queryPositions: at,
          cache,
          counters,
          ...layerAttention(config, l, visible),
          ...(stats && { stats }),
        });
  if (sums && layer.block) addBlock(layer.block, layer, sums.columnSum);
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
