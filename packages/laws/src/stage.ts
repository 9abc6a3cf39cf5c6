import { KvError } from '@kv/core';
import { cpu, readCpu } from '@kv/cpu';
import { compile, isState, runSteps, showValue, signalKey, emptyDraft, stateArray, traceOps } from '@kv/core/engine';
import type { AnySignal, Backend, DType, Embeddings, Ops, Piece, Tensor, DraftSelection } from '@kv/core';
import type { EventLayer } from '@kv/core/engine';
import { claim } from './law.ts';
import type { LawOptions } from './law.ts';
import { random, vectors } from './random.ts';
import type { Layer, Scene } from './scene.ts';

/** Numbers of a result with the valid slots of each row. */
export interface ResultRows {
  readonly rows: number;
  readonly slots: number;
  readonly data: Float32Array | Uint32Array;
  readonly valid: readonly number[];
}
/** The draft that a piece starts from, as host numbers of each layer. */
export interface StartNumbers {
  readonly rows: number;
  readonly scores?: Float32Array;
  readonly forced?: Float32Array;
  readonly banned?: Float32Array;
  readonly budgets?: readonly number[];
}
/** A scene on a backend: its tensors are made once and given to every run. */
export interface StagedScene {
  readonly layers: readonly EventLayer[];
  readonly drafts: readonly DraftSelection[];
  /** Host arrays that the tensors were made from. */
  readonly arrays: readonly (Float32Array | Uint32Array)[];
}

/** Embeddings of any ids, close to each other for close ids. */
const EMBEDDINGS: Embeddings = {
  width: 4,
  encode: (text) => Array.from(text, (c) => (c.codePointAt(0) ?? 0) % 10),
  rows: (ids) => Float32Array.from(ids.flatMap((id) => [1, 2, 3, 4].map((c) => Math.sin(id / c)))),
};

/**
 * Puts a scene on a backend.
 * @returns each layer as an event reads it
 * @throws KvError, from a read, for a signal of unknown value
 */
export function stage(
  { layers }: Scene,
  ops: Ops,
  { signals }: LawOptions,
  given: readonly StartNumbers[] = [],
): StagedScene {
  const arrays: (Float32Array | Uint32Array)[] = [];
  const tensor = (layer: Layer, data: Float32Array | Uint32Array, rows: number, ...rest: number[]): Tensor => {
    arrays.push(data);
    const kv = layer.lengths.length;
    const lengths =
      layer.at.aligned || rows % kv !== 0
        ? undefined
        : ops.from(
            {
              data: Uint32Array.from({ length: rows }, (_, r) => layer.lengths[Math.floor((r * kv) / rows)]),
              shape: [rows],
            },
            'u32',
          );
    return ops.from({ data, shape: [rows, ...rest] }, data instanceof Uint32Array ? 'u32' : 'f32', lengths);
  };
  const known = (layer: Layer, signal: AnySignal): unknown => {
    const { at, lengths } = layer,
      kv = lengths.length,
      { slots, headDim: d, queryHeads: heads } = at,
      next = random(layer.seed);
    const times = (by: number): Float32Array => layer.attention.map((x) => x * by);
    switch (signal.id) {
      case 'keys':
        return tensor(layer, layer.keys.slice(), kv, slots, d);
      case 'values':
        return tensor(layer, layer.values.slice(), kv, slots, d);
      case 'positions':
        return tensor(layer, layer.positions.slice(), kv, slots);
      case 'biases':
        return tensor(
          layer,
          Float32Array.from({ length: kv * slots }, () => next() * 2 - 1),
          kv,
          slots,
        );
      case 'tokens':
        return layer.tokens;
      case 'queries': {
        const w = Number(signal.args?.['w'] ?? 1);
        return ops.from({ data: Float32Array.from(vectors('spread', heads * w, d, next)), shape: [heads, w, d] });
      }
      case 'layer.input': {
        const width = heads * d;
        return ops.from({ data: Float32Array.from(vectors('spread', 1, width, next)), shape: [1, 1, width] });
      }
      case 'rope': {
        const half = Math.floor(d / 2),
          angle = (f: (x: number) => number, p: Uint32Array): Float32Array =>
            Float32Array.from({ length: p.length * half }, (_, i) =>
              f(p[Math.floor(i / half)] / 10 ** ((i % half) / half)),
            );
        return { rotary: 2 * half, angles: (p: Uint32Array) => ({ cos: angle(Math.cos, p), sin: angle(Math.sin, p) }) };
      }
      case 'embeddings':
        return EMBEDDINGS;
      case 'values.output':
        return tensor(
          layer,
          Float32Array.from({ length: heads * slots }, () => next() * 4),
          heads,
          slots,
        );
      case 'attention.last':
      case 'attention.max':
        return tensor(layer, times(1), heads, slots);
      case 'attention.window':
        return tensor(layer, windowed(layer, signal), heads, slots);
      case 'attention.accumulated':
      case 'attention.block': {
        const sums = times(1 + Math.floor(next() * 5));
        return signal.args?.['rows'] === 'kv'
          ? tensor(layer, groupSums(sums, heads / kv, slots), kv, slots)
          : tensor(layer, sums, heads, slots);
      }
      default:
        if (isState(signal)) return ops.from(stateArray(signal.state, layer.at), signal.state.dtype);
        throw new KvError(
          'laws',
          `have no value for the signal ${signalKey(signal)}: pass { signals: (signal, layer, ops) => ... }`,
        );
    }
  };
  const events = layers.map((layer, i): EventLayer => {
    const memo = new Map<string, unknown>();
    return {
      at: layer.at,
      budgets: given[i]?.budgets ?? layer.lengths.map((n) => Math.min(n, layer.at.budget)),
      read: (signal) => {
        const key = signalKey(signal);
        if (!memo.has(key)) memo.set(key, signals?.(signal, layer, ops) ?? known(layer, signal));
        return memo.get(key);
      },
    };
  });
  const drafts = events.map((event, i): DraftSelection => {
    const g = given[i],
      put = (data: Float32Array | undefined): Tensor | undefined =>
        data && g ? tensor(layers[i], data.slice(), g.rows, event.at.slots) : undefined;
    const scores = put(g?.scores),
      forced = put(g?.forced),
      banned = put(g?.banned);
    return {
      ...emptyDraft(event, ops),
      ...(scores && { scores }),
      ...(forced && { forced }),
      ...(banned && { banned }),
    };
  });
  return { layers: events, drafts, arrays };
}
/**
 * Returns a statistic of a window whose means are the layer's weights, as some window might have: its queries differ by
 * a fraction of the maximum, not at all if there is one query.
 */
function windowed({ attention, at, seed }: Layer, { args }: AnySignal): Float32Array {
  const w = Number(args?.['w'] ?? 1),
    differ = w > 1 ? random(seed)() : 0;
  switch (args?.['of']) {
    case 'squares':
      return attention.map((a) => a * a + differ * a * (1 - a));
    case 'votes':
      return attention.map((a) => Math.round(w * Math.sqrt(a)) / w);
    case 'normalized':
      return attention.map((a) => a * (at.slots - 1));
    case 'entropy':
      return attention.map((a) => (a === 0 ? 0 : (differ - 1) * a * Math.log(a)));
    default:
      return attention.slice();
  }
}
/** Sums rows over each group. */
function groupSums(data: Float32Array, group: number, slots: number): Float32Array {
  const out = new Float32Array(data.length / group);
  data.forEach((x, i) => {
    const to = Math.floor(i / (slots * group)) * slots + (i % slots);
    out[to] = out[to] + x;
  });
  return out;
}
/** Returns the drafts that a piece leaves, unchecked: laws judge the piece itself, without an engine's checks. */
export const play = (piece: Piece, { layers, drafts }: StagedScene, ops: Ops): readonly DraftSelection[] =>
  runSteps(compile(piece).steps, layers, ops, drafts, (step, cells) => step.run(cells));

/** Returns the numbers of a result of one layer. @param dtype the type that they must have @defaultValue any */
export function rowsOf(tensor: Tensor, layer: Layer, dtype?: DType): ResultRows {
  claim(isHandle(tensor), () => `expected a tensor, got ${showValue(tensor)} (ops.from makes tensors)`);
  claim(dtype === undefined || tensor.dtype === dtype, () => `expected numbers of type ${dtype}, got ${tensor.dtype}`);
  const { data, shape, lengths } = readCpu(tensor),
    [rows = 0, slots = 0] = shape,
    kv = layer.lengths.length;
  claim(shape.length === 2, () => `expected a result of rows and slots, got one of shape [${shape.join(', ')}]`);
  return {
    rows,
    slots,
    data,
    valid: Array.from({ length: rows }, (_, r) =>
      Math.min(slots, lengths?.[r] ?? (rows % kv === 0 ? layer.lengths[Math.floor((r * kv) / rows)] : slots)),
    ),
  };
}

/** Runs a piece on the CPU: drafts with tensors that can be read. */
export const onCpu = (
  piece: Piece,
  on: Scene,
  options: LawOptions,
  given?: readonly StartNumbers[],
): readonly DraftSelection[] => play(piece, stage(on, cpu.ops, options, given), cpu.ops);

/** Runs a piece where every host read throws; results are revealed afterwards. */
export function onTrace(
  piece: Piece,
  on: Scene,
  options: LawOptions,
  given?: readonly StartNumbers[],
): readonly DraftSelection[] {
  const { ops, reveal } = traceOps(cpu);
  const open = (x: unknown): unknown =>
    isHandle(x) ? reveal(x) : isRecord(x) ? Object.fromEntries(Object.entries(x).map(([k, v]) => [k, open(v)])) : x;
  return play(piece, stage(on, ops, options, given), ops).map((draft) => open(draft) as DraftSelection);
}
const isRecord = (x: unknown): x is object =>
  typeof x === 'object' && x !== null && Object.getPrototypeOf(x) === Object.prototype;
const isHandle = (x: unknown): x is Tensor => typeof x === 'object' && x !== null && 'shape' in x && 'dtype' in x;

/** Runs a piece on any backend, with one read: returns drafts with CPU tensors instead of the backend's. */
export async function onBackend(
  piece: Piece,
  on: Scene,
  backend: Backend,
  options: LawOptions,
  given?: readonly StartNumbers[],
): Promise<readonly DraftSelection[]> {
  const drafts = play(piece, stage(on, backend.ops, options, given), backend.ops),
    wanted = drafts.map((d) => Object.entries(d).filter((e): e is [string, Tensor] => isHandle(e[1])));
  const read = await backend.read(wanted.flatMap((entries) => entries.map(([, t]) => t)));
  let at = 0;
  return drafts.map((draft, i) => ({
    ...draft,
    ...Object.fromEntries(
      wanted[i].map(([name]) => {
        const { data, shape, lengths } = read[at++];
        return [
          name,
          cpu.ops.from(
            { data, shape },
            data instanceof Uint32Array ? 'u32' : 'f32',
            lengths && cpu.ops.from({ data: lengths, shape: [lengths.length] }, 'u32'),
          ),
        ];
      }),
    ),
  }));
}
