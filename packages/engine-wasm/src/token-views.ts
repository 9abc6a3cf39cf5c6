import { KvError } from '@kv/core';
import { stateColumns } from '@kv/core/engine';
import { countBelow, sumOf } from '@kv/core/shared';
import type { LayerContext, State, StateSpec, ViewChoice } from '@kv/core';
import type { HostState, LayerMemory, PassOptions, ViewReads } from '@kv/engine';
import { slotModel, viewsActing } from '@kv/engine';
import { boundsOf, joinedContext } from './shown-bounds.ts';
import type { LoadedLoops } from './loaded-loops.ts';
import { mostKvHeads, type PassBuffers } from './pass-buffers.ts';
import { formNumber } from './store.ts';

/** Words of a view before its loops, and words of a loop in it: its own words, and its functions (kernel/show.ts). */
const firstLoop = 33,
  loopWords = 7;
/** Words of a view that say which row's score is not finite, and which row's list is not one of slots. */
const badScore = 21,
  badList = 22;
/** Bytes of scratch of a loop, besides 16 for every number of a row. */
const scratchBytes = 16_384;

/** What views show to a token in one layer: bounds by position, and loops that choose slots. */
interface LayerView {
  readonly at: LayerContext;
  readonly bounds: readonly { readonly first: number; readonly sinks: number }[];
  readonly choice?: ViewChoice;
}

/** What views show to the next token of a sequence, by layer. */
export type TokenViews = readonly LayerView[];

/**
 * Returns what the policy's views show to the next token, where the module can tell by itself: bounds that need no
 * signal, and at most one view whose pieces all have loops.
 */
export function tokenViews(
  caches: HostState,
  { active, phase }: Pick<PassOptions, 'active' | 'phase'>,
): TokenViews | undefined {
  const hooks = viewsActing(active.policy, phase),
    choosing = hooks.filter(({ chooses }) => chooses);
  if (choosing.length > 1 || hooks.some(({ chooses, needs }) => !chooses && needs.length > 0)) return undefined;
  const length = caches.context.progress.length + 1,
    views: LayerView[] = [];
  for (let l = 0; l < caches.layers.length; l++) {
    const { [0]: chooser } = choosing,
      at = joinedContext(caches, l, active, 1),
      choice = chooser?.chooses?.acts(at) ? chooser.chooses : undefined;
    const first = ({ id, state }: State): number => caches.layers[l].states.first(id, 0) ?? state.init ?? 0;
    if (choice?.loops.some(({ rests }) => rests?.(at, first))) return undefined;
    const bounds: LayerView['bounds'][number][] = [];
    for (const hook of hooks) {
      if (hook === chooser) continue;
      const shown = boundsOf(hook, at, caches);
      if (shown === undefined) return undefined;
      bounds.push(...shown.map(({ sinks, lower }) => ({ sinks, first: lower(length - 1) })));
    }
    views.push({ at, bounds, ...(choice && { choice }) });
  }
  return views;
}

/**
 * Writes the views of a token in some layers, whose caches have its slot already, to the buffer of its row, and where
 * they lie into the words of its caches. Returns what checks, once the layers have run, what loops left, and adds up what
 * they read.
 *
 * @param address of the words that describe its caches
 */
export function placeViews(
  buffers: PassBuffers,
  row: number,
  address: number,
  loaded: LoadedLoops,
  caches: HostState,
  views: TokenViews,
): () => ViewReads {
  const { heap, threads } = buffers.pool,
    { windows } = slotModel(caches.context.model.config).attention,
    [
      {
        at: { queryHeads: H },
      },
    ] = views,
    widest = Math.max(...views.map(({ at: { headDim } }) => headDim)),
    most = mostKvHeads(caches.layers.map(({ cache }) => ({ kvHeads: cache.heads }))),
    longest = Math.max(...views.map(({ at: { layer } }) => caches.layers[layer].cache.length)),
    stride = 1024 * Math.ceil((longest + 64) / 1024),
    acting = views.flatMap((view) => {
      const { layer } = view.at,
        ranges = rangesOf(caches.layers[layer], view, windows[layer] ?? Infinity);
      return view.choice || ranges.count > 0 ? [{ ...view, ranges }] : [];
    }),
    choosing = acting.some(({ choice }) => choice),
    own = acting.map(({ choice, at }) => (choice ? ownWords(caches, at, choice) : [])),
    scratch = choosing ? 16 * stride + scratchBytes : 0;
  // what the layers share, then what is a layer's own
  const shared = { q: H * widest, scores: choosing ? H * stride : 0, lists: H * stride, active: H };
  // the view, own words of loops, ranges, the table of lists, lengths that loops leave, numbers read, and slots
  const parts = acting.map(({ ranges, choice, at: { kvHeads: G } }, i) => [
      firstLoop + loopWords * (choice?.loops.length ?? 0),
      sumOf(own[i].map(({ length }) => length)),
      2 * ranges.count * G,
      1 + 2 * H,
      H,
      H,
      G,
    ]),
    sizes = parts.map(sumOf);
  const words = sumOf(Object.values(shared)),
    all = words + sumOf(sizes),
    base = buffers.views(row).at(4 * all + threads * scratch + 64),
    [q, scores, lists, active] = offsets(base, Object.values(shared)),
    scratchAt = 64 * Math.ceil((base + 4 * all) / 64);
  let to = base + 4 * words;
  const counted: { layer: number; at: number; table: number; read: number; slotsAt: number }[] = [];
  for (const [i, { at, choice, ranges }] of acting.entries()) {
    const { cache } = caches.layers[at.layer],
      { kvHeads: G, headDim: d } = at,
      loops = choice?.loops ?? [],
      n = cache.length,
      [, ownAt, rangesAt, table, counts, read, slotsAt] = offsets(to, parts[i]),
      evicted = cache.lengths.some((count) => count < at.length);
    const words = heap.words(to, sizes[i]).fill(0),
      forced = (which: 'first' | 'last'): number => Math.max(0, ...loops.map(({ forces }) => forces?.[which] ?? 0));
    words.set([
      ...[H, G, d, n, cache.keys.codes.byteOffset, cache.capacity, q, Math.min(choice?.budget ?? 0, at.length)],
      ...[at.step, at.length, at.layer, at.layers, scores, stride, lists, counts, active],
      ...[forced('first'), forced('last'), Math.max(0, ...loops.map(({ unit }) => unit ?? 0)), read, 0, 0],
      ...[formNumber('keys', cache.keys), slotsAt, evicted ? cache.positions.byteOffset : 0],
      ...[loops.length, scratchAt, scratch, table, ranges.count, rangesAt, cache.keys.scales.byteOffset],
    ]);
    for (let k = 0, at = ownAt; k < loops.length; k++) {
      const mine = own[i][k];
      heap.words(at, mine.length).set(mine);
      words.set([at, ...loaded.functions(loops[k])], firstLoop + loopWords * k);
      at += 4 * mine.length;
    }
    heap.words(rangesAt, 2 * ranges.count * G).set(ranges.words);
    heap.words(table, 1)[0] = choice ? H : G;
    heap.words(slotsAt, G).set(cache.lengths);
    buffers.show(address, most, at.layer, to, table);
    counted.push({ layer: at.layer, at: to, table, read, slotsAt });
    to += 4 * sizes[i];
  }
  return () => {
    let slots = 0,
      numbers = 0;
    for (const { at } of views)
      if (!counted.some(({ layer }) => layer === at.layer))
        slots += H * Math.min(at.slots, windows[at.layer] ?? Infinity);
    for (const { layer, at, table, read, slotsAt } of counted) {
      const words = heap.words(at, firstLoop);
      if (words[badScore] > 0)
        throw new KvError('view', `layer ${layer}, query head ${words[badScore] - 1}: expected finite scores`);
      if (words[badList] > 0) {
        const h = words[badList] - 1,
          n = heap.words(slotsAt, words[1])[Math.floor((h * words[1]) / H)];
        throw new KvError(
          'view',
          `layer ${layer}, query head ${h}: a loop must list slots that ascend, each once and below ${n}`,
        );
      }
      const entries = heap.words(table, 1 + 2 * H);
      for (let r = 0; r < entries[0]; r++) slots += (H / entries[0]) * entries[1 + 2 * r];
      for (const some of heap.words(read, H)) numbers += some;
    }
    return { slots, numbers };
  };
}

/** Returns the addresses of areas of these numbers of words, one after the other. */
function offsets(base: number, words: readonly number[]): number[] {
  let at = base;
  return words.map((count) => {
    const here = at;
    at += 4 * count;
    return here;
  });
}

/** Returns the ranges of slots that a view's bounds and the layer's window hide, `[G, count, 2]`. */
function rangesOf(
  { cache: { heads, capacity, lengths, positions } }: LayerMemory,
  { bounds, choice, at: { length } }: LayerView,
  window: number,
): { readonly count: number; readonly words: readonly number[] } {
  const hidden = bounds.filter(({ first, sinks }) => first > sinks),
    beyond = length > window && (choice || hidden.length > 0) ? [{ first: length - window, sinks: 0 }] : [],
    all = [...hidden, ...beyond];
  const words = Array.from({ length: all.length === 0 ? 0 : heads }, (_, g) => {
    const seen = positions.subarray(g * capacity, g * capacity + lengths[g] - 1);
    return all.flatMap(({ first, sinks }) => [countBelow(seen, sinks), countBelow(seen, first)]);
  });
  return { count: all.length, words: words.flat() };
}

/** Returns the columns of a state that its kind tells. */
const columnsOf = (spec: StateSpec, { length, slots, headDim }: LayerContext): number =>
  spec.kind === 'position' ? length : spec.kind === 'slot' ? slots : stateColumns(spec, headDim);

/** Returns the own words of each loop. */
function ownWords(caches: HostState, at: LayerContext, { loops, budget }: ViewChoice): readonly (readonly number[])[] {
  const layer = caches.layers[at.layer],
    inView = { ...at, budget, selectRows: at.queryHeads };
  layer.keepIndexes(loops);
  return loops.map((loop) => {
    const { words = [], states = [], index, window } = loop,
      own = [...words];
    for (const { state, columns } of states) {
      const { data, stride } = (state.state.rows === 'model' ? caches.shared : layer.states).room(
        state,
        columns?.(inView) ?? columnsOf(state.state, at),
      );
      own.push(data.byteOffset, stride);
    }
    if (index) {
      const kept = layer.index(loop, { slots: index.slots, numbers: index.numbers(at.headDim) });
      own.push(kept.data.byteOffset, kept.headBytes, kept.known.byteOffset);
    }
    if (window !== undefined) {
      const earlier = window > 1 ? layer.ring?.places(window - 1) : undefined;
      own.push(earlier?.queries.byteOffset ?? 0, earlier?.room ?? 1, earlier?.first ?? 0, earlier?.count ?? 0);
    }
    return own;
  });
}
