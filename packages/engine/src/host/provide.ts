import { KvError } from '@kv/core';
import { isInputSignal, isState, slotState, StepCache, signalKey } from '@kv/core/engine';
import { range } from '@kv/core/shared';
import type { AnySignal, Backend, Embeddings, Ops, Rope, Tensor, Tokens } from '@kv/core';
import { windowAttention } from '../attention/attention.ts';
import type { LayerAttention } from '../attention/layer-attention.ts';
import type { AttentionCounters } from '../memory/feed.ts';
import type { CachePart } from '../cache/cache-rows.ts';
import { pickHeads } from '../decoder/joined-heads.ts';
import type { DecodedLayer } from './decoded-layer.ts';
import type { LayerMemory } from './layer.ts';
import { outputNormOf, outputNorms } from './output-norms.ts';
import type { StateStore } from './store.ts';
import { notRemembered, statisticOf, sumRows, windowOf } from '../memory/observation-plan.ts';
import type { RowEngine } from '../attention/row-engine.ts';

/** The data that signals are computed from. */
export interface SignalSource {
  readonly memory: LayerMemory;
  /** State of rows `model`. */
  readonly shared: StateStore;
  readonly tokens: Tokens;
  readonly ops: Ops;
  readonly counters: AttentionCounters;
  /** The attention options of the layer. */
  readonly attention: LayerAttention;
  /** The arithmetic of attention rows. @defaultValue plain loops */
  readonly rowEngine?: RowEngine | undefined;
  /** Returns the output product's weight, `[D, H * d]`. */
  outputWeight(): Float32Array;
  /** Query heads that read the layer's slots. */
  readonly queryHeads: number;
  /** The places of those that a view is of, where several layers read these slots. @defaultValue all */
  readonly heads?: Uint32Array | undefined;
  readonly rope: Rope;
  /** How far new tokens' rotations lie below their positions. */
  readonly shift: number;
  readonly embeddings: Embeddings;
  /** Results of providers, computed earlier, by signal key. */
  readonly provided: ReadonlyMap<string, unknown>;
  /** Signals shared by the layers of its event. */
  readonly common?: EventSignals;
  /** Keys and values as f32. */
  readonly decoded: DecodedLayer;
}
/** Signals shared by the layers of a block of tokens: where nothing else is read, one result serves all of them. */
export interface EventSignals {
  readonly stepCache?: StepCache | undefined;
  /** States of rows `model`, until one is written. */
  readonly states: Map<string, Tensor>;
  /** Positions without gaps, by first and last position of each head. */
  readonly positions: Map<string, Tensor>;
}
export const commonOf = ({ lasting }: Backend): EventSignals => ({
  states: new Map(),
  positions: new Map(),
  ...(lasting && { stepCache: new StepCache() }),
});

/** Returns a reader of one layer's current signals; each is computed once, but for keys and values that are decoded. */
export function reader(source: SignalSource): (signal: AnySignal) => unknown {
  const done = new Map<string, unknown>();
  return (signal) => {
    const key = signalKey(signal);
    if (done.has(key)) return done.get(key);
    const value = source.provided.get(key) ?? compute(signal, source);
    if (!isDecoded(signal, source.memory.cache)) done.set(key, value);
    return value;
  };
}

/** Whether a signal is keys or values that are not stored as f32, of which one layer's are held at a time. */
const isDecoded = ({ id }: AnySignal, { keys, values }: LayerMemory['cache']): boolean =>
  (id === 'keys' && keys.form !== 'f32') || (id === 'values' && values.form !== 'f32');

function compute(
  signal: AnySignal,
  { memory, decoded, shared, tokens, ops, counters, attention, common, ...model }: SignalSource,
): unknown {
  const { cache, accumulated, block, ring } = memory;
  const { heads: G, headDim: d, capacity, length: n } = cache;
  const lengths = memory.cache.lengths.every((x) => x === n)
    ? undefined
    : ops.from({ data: cache.lengths.slice(), shape: [G] }, 'u32');
  const perHead = (part: CachePart): Tensor => {
    const { data, capacity } = decoded.read(cache, part);
    return ops.from({ data, shape: [G, n, d], stride: [capacity * d, d, 1] }, 'f32', lengths);
  };
  const { heads: some } = model;
  /** Rows `[heads, stride]` of all heads as those that are asked for. */
  const asked = (data: Float32Array, stride: number): readonly [data: Float32Array, stride: number] =>
    some && stride > 0 && data.length === model.queryHeads * stride
      ? [pickHeads(data, some, stride, n), n]
      : [data, stride];
  const perQueryHead = (data: Float32Array, stride: number): Tensor => {
    const H = stride === 0 ? G : data.length / stride;
    return ops.from(
      { data, shape: [H, n], stride: [stride, 1] },
      'f32',
      lengths &&
        ops.from(
          { data: Uint32Array.from({ length: H }, (_, h) => cache.lengths[Math.floor((h * G) / H)]), shape: [H] },
          'u32',
        ),
    );
  };
  const moved = (rotations: Uint32Array): Rope['moved'] => ({
    positions: range(model.shift, tokens.ids.length - model.shift),
    index: ops.from({ data: rotations.slice(), shape: [G, n], stride: [capacity, 1] }, 'u32', lengths),
  });
  const missing = (): never => {
    throw notRemembered(signal, { freed: memory.freed });
  };
  if (isInputSignal(signal)) {
    const state = slotState(signal);
    if (!memory.states.has(state.id)) return missing();
    return memory.states.read(state, n, tokens.ids.length, ops, lengths, some);
  }
  if (isState(signal)) {
    const { rows, kind } = signal.state,
      alike = rows === 'model' && kind !== 'slot' ? common?.states : undefined,
      state =
        alike?.get(signal.id) ??
        (rows === 'model' ? shared : memory.states).read(signal, n, tokens.ids.length, ops, lengths, some);
    alike?.set(signal.id, state);
    return state;
  }
  if (windowOf(signal) > 0) {
    if (!ring || ring.window < windowOf(signal)) return missing();
    const columns = some ? undefined : memory.windowStats.of(signal); // not complete before the last reader
    if (columns) return perQueryHead(columns, memory.windowStats.stride);
    const { queries: all, positions, count } = ring.last(windowOf(signal)),
      queries = some ? pickHeads(all, some, count * d, count * d) : all;
    if (signal.id === 'queries') return ops.from({ data: queries, shape: [queries.length / (count * d), count, d] });
    const of = statisticOf(signal);
    return perQueryHead(
      windowAttention({
        ...{ queries, queryPositions: positions, cache, counters, engine: model.rowEngine },
        ...attention,
        ...(of && { of }),
      }),
      n,
    );
  }
  switch (signal.id) {
    case 'keys':
      return perHead('keys');
    case 'values':
      return perHead('values');
    case 'positions': {
      const ends = common && withoutGaps(cache),
        known = ends === undefined ? undefined : common?.positions.get(ends);
      if (known) return known;
      // slots are found by them, so that what a piece writes into them must not stay
      const tensor = ops.from({ data: cache.positions.slice(), shape: [G, n], stride: [capacity, 1] }, 'u32', lengths);
      if (ends !== undefined) common?.positions.set(ends, tensor);
      return tensor;
    }
    case 'biases': {
      const { data = new Float32Array(G * n), stride = n } = cache.biases ?? {};
      return ops.from({ data: data.slice(), shape: [G, n], stride: [stride, 1] }, 'f32', lengths);
    }
    case 'tokens':
      return tokens;
    case 'rope':
      return cache.rotations ? { ...model.rope, moved: moved(cache.rotations) } : model.rope;
    case 'embeddings':
      return model.embeddings;
    case 'values.output': {
      const data = model.outputWeight(),
        width = (some?.length ?? model.queryHeads) * d,
        weight = ops.from({ data, shape: [data.length / width, width] });
      return ops.kernel(outputNorms, { values: perHead('values'), weight }, { p: outputNormOf(signal) });
    }
    case 'attention.accumulated': {
      if (!accumulated || (sumRows(signal) === 'query' && accumulated.rows < model.queryHeads)) return missing();
      const sums = perQueryHead(...asked(accumulated.data, accumulated.stride));
      return sumRows(signal) === 'kv' && accumulated.rows > G ? ops.groupRows('sum', sums, G) : sums;
    }
    case 'attention.block':
      return block ? perQueryHead(...asked(block.data, block.stride)) : missing();
    default:
      throw new KvError(
        'sequence',
        `no signal ${signalKey(signal)} here: this engine offers tokens, positions, biases, rope, embeddings, keys, values, values.output, queries, attention.last, .window, .max, .block and .accumulated`,
      );
  }
}

/** Returns the first and last position of each head, which determine all of them, if none between is missing. */
function withoutGaps({ positions, capacity, lengths }: LayerMemory['cache']): string | undefined {
  let ends = `${capacity}`;
  for (const [g, n] of lengths.entries()) {
    const first = positions[g * capacity];
    if (n === 0 || positions[g * capacity + n - 1] - first !== n - 1) return undefined;
    ends += ` ${first} ${n}`;
  }
  return ends;
}
