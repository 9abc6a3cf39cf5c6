import { KvError } from '@kv/core';
import { isInputSignal, isState, signalKey, slotState } from '@kv/core/engine';
import { range } from '@kv/core/shared';
import type { AnySignal, Embeddings, Ops, Rope, Tensor, Tokens } from '@kv/core';
import type { Commands } from '@kv/gpu';
import { notRemembered, outputNormOf, statisticOf, sumRows, windowOf } from '@kv/engine';
import type { ModelConfig } from '@kv/checkpoints';
import type { AttentionCounters, CachePart, OutputNorm, SlotReader } from '@kv/engine';
import { encodeAttention, encodeColumns, type DeviceAttention } from '../attention.ts';
import { encodeOutputNorms, encodeSlots } from '../operations.ts';
import { deviceForms } from '../wgsl/stored-rows.ts';
import type { DeviceMatrix } from '../weights/device-matrix.ts';
import { joinHeads, pickHeads } from './joined-heads.ts';
import { addWaiting } from './layer-attention.ts';
import type { DecodedParts } from './decoded-parts.ts';
import type { DeviceCache } from './cache.ts';
import type { DeviceLayer } from './layer.ts';
import type { DeviceStates } from './states.ts';

/** The output product's weight `[D, H * d]` of a layer, which may be one of several that read the same slots. */
export interface LayerOutput {
  readonly matrix: DeviceMatrix;
  readonly reader?: SlotReader | undefined;
}

/** The data that signals are computed from. */
export interface DeviceSignalSource {
  readonly layer: DeviceLayer;
  readonly index: number;
  readonly config: ModelConfig;
  /** State of rows `model`. */
  readonly shared: DeviceStates;
  readonly decoded: DecodedParts;
  readonly tokens: Tokens;
  readonly rope: Rope;
  /** How far new tokens' rotations lie below their positions. */
  readonly shift: number;
  readonly embeddings: Embeddings;
  readonly counters: AttentionCounters;
  /** The layer whose query heads signals are of, where several read its slots and not all of them are asked for. */
  readonly reader?: SlotReader | undefined;
  /** Returns the output products of all layers whose query heads signals are of. */
  outputs(): readonly LayerOutput[];
  /** The commands that computations are recorded in, whose scope owns the results. */
  readonly commands: Commands;
  readonly ops: Ops;
}

/** Returns a reader of one layer's current signals; each is recorded once, but for keys and values that are decoded. */
export function deviceReader(source: DeviceSignalSource): (signal: AnySignal) => unknown {
  const done = new Map<string, unknown>();
  return (signal) => {
    const key = signalKey(signal);
    if (done.has(key)) return done.get(key);
    const value = compute(signal, source);
    if (!isDecoded(signal, source.layer.cache)) done.set(key, value);
    return value;
  };
}

/** Whether a signal is keys or values that are not stored as f32, which are there for one step. */
export const isDecoded = ({ id }: AnySignal, { form }: Pick<DeviceCache, 'form'>): boolean =>
  (id === 'keys' || id === 'values') && deviceForms[form][id] !== 'f32';

/** Checks signals. @throws KvError for signals that no sequence on a device offers */
export function expectOffered(needs: readonly AnySignal[]): void {
  for (const signal of needs) {
    if (signal.hidden) throw hiddenRefused(signal);
    if (!(signal.provide !== undefined || isInputSignal(signal) || isState(signal) || OFFERED.includes(signal.id)))
      throw new KvError(
        'gpu',
        `sequences on a device do not offer the signal ${signalKey(signal)}: expected a policy without it, or a model on the CPU`,
      );
  }
}
/**
 * Returns the error for hidden states, which stay on the device: a provider would have to wait for them in every event.
 */
export const hiddenRefused = (signal: AnySignal): KvError =>
  new KvError(
    'gpu',
    `sequences on a device do not show hidden states to the host, which the signal ${signalKey(signal)} reads: expected a policy without it, or a model on the CPU`,
  );
const OFFERED = [
  'tokens',
  'positions',
  'biases',
  'rope',
  'embeddings',
  'keys',
  'values',
  'layer.input',
  'queries',
  'attention.last',
  'attention.window',
  'attention.max',
  'attention.block',
  'attention.accumulated',
  'values.output',
];

/** Returns where the keys of slots stand that were moved together. */
function movedOf({ layer: { cache }, tokens, commands, shift }: DeviceSignalSource): Rope['moved'] {
  const rows = cache.rotations(),
    index = new Uint32Array(rows.length * cache.length);
  for (const [g, row] of rows.entries()) index.set(row, g * cache.length);
  return {
    positions: range(shift, tokens.ids.length - shift),
    index: {
      ...commands.upload(index, [rows.length, cache.length]),
      ...(cache.even ? {} : { lengths: cache.lengths }),
    },
  };
}

function compute(signal: AnySignal, source: DeviceSignalSource): unknown {
  const { layer, shared, decoded, tokens, commands, reader } = source,
    { cache, accumulated, block } = layer,
    { kvHeads: G } = layer.heads,
    n = cache.length;
  const lengthsOf: LengthsOf = (rows) =>
    cache.even
      ? {}
      : {
          lengths:
            rows === G
              ? cache.lengths
              : commands.upload(
                  Uint32Array.from({ length: rows }, (_, r) => cache.counts[Math.floor((r * G) / rows)]),
                  [rows],
                ),
        };
  /** Returns the slots in use of a tensor that may have a larger capacity, as pieces see them. */
  const dense = (x: Tensor): Tensor => {
    const [rows = 1, capacity = 1, ...channels] = x.shape;
    if (capacity === n) return { ...x, ...lengthsOf(rows) };
    const out = commands.make([rows, n, ...channels], x.dtype);
    encodeSlots(commands, x, out, n);
    return { ...out, ...lengthsOf(rows) };
  };
  const sums = (rows: typeof accumulated): Tensor => {
    const wanted = sumRows(signal);
    if (!rows || (wanted === 'query' && rows.rows < layer.heads.queryHeads))
      throw notRemembered(signal, { freed: layer.freed });
    if (rows === accumulated) settleSums(source);
    const every = rows.dense(commands, n),
      some = reader && rows.rows === reader.all ? pickHeads(commands, every, reader, G) : every,
      all = { ...some, ...lengthsOf(some.shape[0]) };
    return wanted === 'kv' && rows.rows > G ? source.ops.groupRows('sum', all, G) : all;
  };
  if (isInputSignal(signal)) {
    const state = slotState(signal);
    if (!layer.states.has(state.id)) throw notRemembered(signal, { freed: layer.freed });
    return layer.states.read(commands, state, n, tokens.ids.length, lengthsOf(G).lengths, reader);
  }
  if (isState(signal))
    return (signal.state.rows === 'model' ? shared : layer.states).read(
      commands,
      signal,
      n,
      tokens.ids.length,
      lengthsOf(G).lengths,
      reader,
    );
  if (windowOf(signal) > 0) return ofWindow(signal, source, lengthsOf);
  if (isDecoded(signal, cache)) return { ...decoded.read(cache, signal.id as CachePart), ...lengthsOf(G) };
  switch (signal.id) {
    case 'keys':
      return dense(cache.keys);
    case 'values':
      return dense(cache.values);
    case 'positions':
      return dense(cache.positions);
    case 'biases':
      return layer.biases
        ? dense(layer.biases.tensor)
        : { ...commands.upload(new Float32Array(G * n), [G, n]), ...lengthsOf(G) };
    case 'tokens':
      return tokens;
    case 'rope':
      return cache.rebased ? { ...source.rope, moved: movedOf(source) } : source.rope;
    case 'embeddings':
      return source.embeddings;
    case 'values.output':
      return outputNormsOf(source, outputNormOf(signal), lengthsOf);
    case 'attention.accumulated':
      return sums(accumulated);
    case 'attention.block':
      return sums(block);
    default:
      throw expectOffered([signal]);
  }
}

/** Returns the lengths of rows of a cache's heads, where they differ. */
type LengthsOf = (rows: number) => { readonly lengths?: Tensor };

/** Returns |v W_O|_p of every slot's value, `[H, n]`. */
function outputNormsOf(
  { layer: { cache, heads }, commands, ops, outputs }: DeviceSignalSource,
  p: OutputNorm,
  lengthsOf: LengthsOf,
): Tensor {
  const parts = outputs().map(({ matrix, reader }) => ({
      part: encodeOutputNorms(commands, cache, matrix, cache.length, p),
      reader,
    })),
    [{ part: first }] = parts,
    sums = parts.length > 1 ? commands.make([heads.queryHeads, cache.length]) : first;
  for (const { part, reader } of parts) if (reader) joinHeads(commands, part, sums, reader, cache.heads);
  return { ...(p === 1 ? sums : ops.map('sqrt', sums)), ...lengthsOf(sums.shape[0]) };
}

/** Records the addition of the pending decoded query, if any, to the layer's running sums. */
export function settleSums({
  layer,
  config,
  index,
  commands,
}: Pick<DeviceSignalSource, 'layer' | 'config' | 'index' | 'commands'>): void {
  const { waiting, heads } = layer;
  if (!waiting) return;
  const q = { ...waiting.past, shape: [heads.queryHeads, 1, heads.headDim] };
  addWaiting(commands, layer, attentionOf(layer, config, index, q, waiting.past));
}

/** Returns the attention of queries at `positions [m]` over a layer's current cache. */
export function attentionOf(
  { cache, sinks, biases }: DeviceLayer,
  config: Pick<ModelConfig, 'attention'>,
  index: number,
  q: Tensor,
  rows: Tensor,
): DeviceAttention {
  const {
      attention: { windows, scale, softcap },
    } = config,
    window = windows[index] ?? Infinity,
    [heads = 0, m = 0] = q.shape;
  const { heads: kvHeads, headDim, form, keys, values, positions, lengths, capacity, length: slots } = cache;
  return {
    m,
    heads,
    kvHeads,
    headDim,
    form,
    q,
    keys,
    values,
    positions,
    lengths,
    capacity,
    slots,
    rows,
    views: 0,
    scale,
    ...(softcap !== undefined && { softcap }),
    ...(sinks && { sinks }),
    ...(biases && { biases: biases.tensor }),
    ...(window !== Infinity && { window }),
  };
}

/**
 * Returns a signal of the last w queries: the queries themselves `[H, w, d]`, or a statistic of the weights that they
 * give each slot, `[H, n]`.
 */
function ofWindow(
  signal: AnySignal,
  { layer, index, config, counters, commands, reader }: DeviceSignalSource,
  lengthsOf: LengthsOf,
): Tensor {
  const { ring, cache } = layer,
    w = windowOf(signal);
  if (!ring || ring.window < w) throw notRemembered(signal, { freed: layer.freed });
  const { q, positions } = ring.last(commands, w, reader),
    count = positions.length;
  if (signal.id === 'queries') return q;
  const of = statisticOf(signal),
    columns = commands.make([q.shape[0], cache.length]);
  counters.statistics++;
  const a = attentionOf(layer, config, index, q, commands.upload(positions, [count, 1])),
    lse = ring.lse(commands, count, reader),
    attended = lse ? { out: lse, lseAt: 0, last: count } : encodeAttention(commands, a, { last: count });
  encodeColumns(commands, a, attended, columns, { ...(of && { of }), over: of === 'max' ? 1 : count });
  for (const x of [q, a.rows, attended.out]) commands.free(x);
  return { ...columns, ...lengthsOf(columns.shape[0]) };
}
