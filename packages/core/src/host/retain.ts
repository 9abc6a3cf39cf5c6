import type { LayerContext, DraftSelection } from '../piece/atoms.ts';
import { StepCache } from '../event/step-cache.ts';
import { allowanceOf } from '../event/allowance.ts';
import type { Allowance } from '../event/allowance.ts';
import type { Budget } from '../piece/budget.ts';
import { KvError } from '../tensor/errors.ts';
import { runStepHook } from '../event/hook-boundary.ts';
import { countedPositions, noBiases, isArray, sharers, stateArray, windowSignal } from './host-signals.ts';
import { expectBackend } from '../tensor/backend.ts';
import type { Backend } from '../tensor/backend.ts';
import { showValue } from '../piece/option.ts';
import type { Piece, Policy } from '../piece/piece.ts';
import { compile, planBudgets, runEvent, union } from '../event/run.ts';
import type { CompiledPolicy } from '../event/run.ts';
import { readDecisions } from '../event/read-decisions.ts';
import type { EventLayer } from '../event/steps.ts';
import { signalKey } from '../piece/signals.ts';
import type { AnySignal, Tokens } from '../piece/signals.ts';
import { isState } from '../piece/state.ts';
import type { State } from '../piece/state.ts';
import { rowMajor, sizeOf } from '../tensor/tensor.ts';
import type { HostArray, Tensor } from '../tensor/tensor.ts';
import { sumOf } from '../tensor/sum-of.ts';

/** One layer of a cache that the caller holds: arrays in the form of ndarrays, row-major unless they have strides. */
export interface CacheLayer {
  /** After rotary embedding, `[G, n, d]`. */
  readonly keys?: HostArray;
  /** `[G, n, d]` */
  readonly values?: HostArray;
  /** Original positions `[G, n]`, ascending in each head. @defaultValue 0 .. n - 1 in every head */
  readonly positions?: HostArray;
  /** Number of slots in each head, if heads hold different numbers. @defaultValue n */
  readonly lengths?: readonly number[];
  /** The last queries after rotary embedding, `[H, w, d]`: window attention is computed from them and the keys. */
  readonly queries?: HostArray;
  /** Signals that the engine provides itself, by key or id: `{ 'attention.accumulated': sums }`. */
  readonly signals?: Readonly<Record<string, object>>;
}
/** A cache, and facts about its sequence. */
export interface Cache {
  /** The layers, first to last. */
  readonly layers: readonly CacheLayer[];
  /** Query heads of every layer. */
  readonly queryHeads: number;
  /** Tokens seen so far, evicted ones included. @defaultValue the largest position + 1 */
  readonly length?: number;
  /** Tokens of the prompt, evicted ones included. @defaultValue `length - step` */
  readonly promptLength?: number;
  /** Tokens generated so far. @defaultValue 0 */
  readonly step?: number;
  /** For pieces that read text: sponsorship, rarity, sentences. */
  readonly tokens?: Tokens;
  /** The `state` that the last event or step returned. */
  readonly state?: RetainState;
}
/** State of pieces, by id and layer. */
export type RetainState = ReadonlyMap<string, HostArray>;

/** Options of `retainOn`. */
export interface RetainOptions {
  /** Slots per layer and KV head on average, or a share of the tokens seen; or an allowance from `allowanceOf`. */
  readonly budget: Budget | Allowance;
  /**
   * `'alike'` for an engine that cannot drop slots of a single head: all heads of a layer keep the same. @defaultValue
   * 'own'
   */
  readonly heads?: 'own' | 'alike';
}
/** What an event kept of a cache that the caller holds. */
export interface RetainResult {
  /** The policy as a text. */
  readonly label: string;
  /** Ascending slots, `[layer][kvHead]`. */
  readonly slots: readonly (readonly Uint32Array[])[];
  /** Their original positions. */
  readonly positions: readonly (readonly Uint32Array[])[];
  /** Levels of these slots, indexes among `LEVELS`, `[layer][kvHead]`; absent if the policy demotes none. */
  readonly levels?: readonly (readonly Uint8Array[])[];
  /** Slots allotted, `[layer][kvHead]`. */
  readonly budgets: readonly (readonly number[])[];
  /** Notes on fallbacks and rounding. */
  readonly notes: readonly string[];
  /** State for the next event or step. */
  readonly state: RetainState;
  /** Returns that state for a host that keeps other slots than these, `[layer][kvHead]`. */
  stateOf(slots: readonly (readonly Uint32Array[])[]): RetainState;
  /**
   * Returns a layer's `[G, n, ...]` reduced to the kept slots, `[G, longest, ...]`; shorter heads are padded with 0.
   */
  compact(layer: number, x: HostArray): CompactArray;
}
export interface CompactArray {
  readonly data: Float32Array | Uint32Array;
  readonly shape: readonly number[];
  /** Number of slots in each head. */
  readonly lengths: readonly number[];
}

/** A cache as steps see it. */
interface Host {
  readonly layers: readonly EventLayer[];
  readonly lengths: readonly (readonly number[])[];
}

const missing = (at: string, what: string): KvError => new KvError(at, `expected ${what}, got none`);
const perRow = <T>(sets: readonly T[], row: number, rows: number): T => sets[Math.floor((row * sets.length) / rows)];

/** @throws KvError naming the layer whose shapes do not match. */
function hostOf(
  cache: Cache,
  { ops }: Backend,
  label: string,
  needs: readonly AnySignal[],
  budget: number,
  alike: boolean,
): Host {
  const { layers, queryHeads, step = 0 } = cache;
  const shapes = layers.map((layer, l) => shapeOf(layer, l));
  for (const [kvHeads] of shapes)
    if (!Number.isInteger(queryHeads) || queryHeads < 1 || queryHeads % kvHeads !== 0)
      throw new KvError('queryHeads', `expected a multiple of the ${kvHeads} KV heads, got ${showValue(queryHeads)}`);
  const lengths = layers.map((layer, l) => layer.lengths ?? new Array<number>(shapes[l][0]).fill(shapes[l][1]));
  const length = seen(cache);
  /** Default positions, one tensor for all layers of a size. */
  const counted = new Map<string, Tensor>();
  const made = layers.map((layer, l): EventLayer => {
    const [kvHeads, slots, headDim] = shapes[l];
    const at: LayerContext = {
      layer: l,
      layers: layers.length,
      queryHeads,
      kvHeads,
      headDim,
      step,
      length,
      slots,
      budget,
      promptLength: cache.promptLength ?? length - step,
      aligned: layer.positions === undefined && layer.lengths === undefined,
      selectRows: alike ? 1 : kvHeads,
    };
    /** Makes a tensor whose query rows and KV rows have the length of their KV head. */
    const tensor = (x: HostArray, dtype: 'f32' | 'u32'): Tensor => {
      const [rows] = x.shape;
      const held =
        layer.lengths && rows % kvHeads === 0
          ? Uint32Array.from({ length: rows }, (_, r) => perRow(lengths[l], r, rows))
          : undefined;
      return ops.from(x, dtype, held && ops.from({ data: held, shape: [rows] }, 'u32'));
    };
    const known = new Map<string, unknown>();
    const read = (signal: AnySignal): unknown => {
      const key = signalKey(signal);
      if (!known.has(key)) known.set(key, find(signal, key));
      return known.get(key);
    };
    const find = (signal: AnySignal, key: string): unknown => {
      const brought =
        layer.signals?.[key] ??
        (sharers(needs, signal).every(({ id }) => id !== signal.id) ? layer.signals?.[signal.id] : undefined);
      if (brought) return isArray(brought) ? tensor(brought, 'f32') : brought;
      if (isState(signal))
        return ops.from(
          stateArray(signal.state, at, cache.state?.get(stateKey(signal, l))),
          signal.state.dtype ?? 'f32',
        );
      if (signal.id === 'positions') {
        if (!at.aligned) return tensor(layer.positions ?? countedPositions(kvHeads, slots), 'u32');
        const shape = `${kvHeads} ${slots}`,
          all = counted.get(shape) ?? tensor(countedPositions(kvHeads, slots), 'u32');
        counted.set(shape, all);
        return all;
      }
      if (signal.id === 'biases') return tensor(noBiases(kvHeads, slots), 'f32');
      if (signal.id === 'tokens' && cache.tokens) return cache.tokens;
      const named = signal.id === 'keys' ? layer.keys : signal.id === 'values' ? layer.values : undefined;
      if (named) return tensor(named, 'f32');
      const { queries, keys, positions = countedPositions(kvHeads, slots) } = layer;
      const window =
        queries &&
        keys &&
        windowSignal(signal, {
          ops,
          at,
          queries: ops.from(queries, 'f32'),
          keys: tensor(keys, 'f32'),
          positions: tensor(positions, 'u32'),
        });
      if (window) return window;
      throw missing(`layers[${l}]`, `${wanted(signal, key)}, which '${label}' reads`);
    };
    return { at, read, budgets: [] };
  });
  for (const layer of made) for (const need of needs) layer.read(need); // what is missing is said before anything runs
  return { layers: made, lengths };
}
const wanted = (signal: AnySignal, key: string): string =>
  signal.id === 'tokens'
    ? 'tokens of the cache'
    : /^(?:queries|attention\.(?:window|last|max))$/.test(signal.id)
      ? 'queries and keys'
      : signal.id === 'keys' || signal.id === 'values'
        ? signal.id
        : `signals['${key}']`;
const stateKey = ({ id, state }: State, layer: number): string => `${id} ${state.rows === 'model' ? 0 : layer}`;

/** Returns KV heads, slots and channels of a layer, on which all of its arrays agree. */
function shapeOf(
  { keys, values, positions, lengths, queries }: CacheLayer,
  l: number,
): readonly [heads: number, slots: number, channels: number] {
  const first = keys ?? values ?? positions;
  if (!first) throw missing(`layers[${l}]`, 'keys, values or positions');
  for (const [name, x] of Object.entries({ keys, values, positions, queries }))
    if (x && (!isArray(x) || x.shape.length !== (name === 'positions' ? 2 : 3)))
      throw new KvError(
        `layers[${l}].${name}`,
        `expected an array of rank ${name === 'positions' ? 2 : 3}, got ${isArray(x) ? `[${x.shape.join(', ')}]` : showValue(x)}`,
      );
  const [heads, slots] = first.shape;
  for (const [name, x] of Object.entries({ keys, values, positions }))
    if (x && (x.shape[0] !== heads || x.shape[1] !== slots))
      throw new KvError(
        `layers[${l}].${name}`,
        `expected [${heads}, ${slots}, ...] as the layer's other arrays, got [${x.shape.join(', ')}]`,
      );
  if (lengths && (lengths.length !== heads || lengths.some((n) => !Number.isInteger(n) || n < 0 || n > slots)))
    throw new KvError(
      `layers[${l}].lengths`,
      `expected ${heads} whole numbers up to ${slots}, got ${lengths.join(', ')}`,
    );
  return [heads, slots, (keys ?? values)?.shape[2] ?? queries?.shape[2] ?? 1];
}
/** Tokens seen so far. */
function seen({ layers, length }: Cache): number {
  const last = (layer: CacheLayer, l: number): number => {
    const [heads, slots] = shapeOf(layer, l);
    if (!layer.positions) return slots - 1;
    const at = element(layer.positions);
    const ends = Array.from({ length: heads }, (_, g) => (layer.lengths?.[g] ?? slots) - 1);
    return Math.max(-1, ...ends.map((end, g) => (end < 0 ? -1 : at(g, end))));
  };
  return length ?? 1 + Math.max(-1, ...layers.map(last));
}

/** Hooks that act between events, and those that change or fold slots, which only an engine can run. */
const OUTSIDE = ['view', 'freeze', 'wrapSelect'] as const,
  CHANGING = ['compact', 'evict', 'attend'] as const;
function eventsOnly(policy: Piece | Policy, { layers }: Cache): CompiledPolicy {
  if (!Array.isArray(layers) || layers.length === 0) throw missing('layers', 'at least one layer');
  const compiled = compile(policy);
  const [acting] = OUTSIDE.flatMap((sort): readonly { readonly label: string }[] => compiled.hooks(sort));
  if (acting)
    throw new KvError(
      'retain',
      `'${acting.label}' acts outside events: it needs an engine that calls it at every token, expected a policy that evicts`,
    );
  const [changing] = CHANGING.flatMap((sort): readonly { readonly label: string }[] => compiled.hooks(sort));
  if (changing)
    throw new KvError(
      'retain',
      `'${changing.label}' changes or folds the slots of a cache: it needs an engine that holds one, expected a policy that only chooses which slots stay`,
    );
  if (!compiled.evicts)
    throw new KvError(
      'retain',
      `'${compiled.label}' leaves no kept slots, expected a policy that ends in a selector such as topK`,
    );
  return compiled;
}

/**
 * Runs one event over every layer of a cache that the caller holds: plans budgets, scores, checks, and selects.
 * @param backend runs the pieces
 * @param policy evicts; ends in a selector
 * @param cache the layers, of which only what the policy reads is required
 * @returns the slots to keep, and the state for the next call
 * @throws KvError naming the layer and the missing input, before anything is decided; also for a policy that hides,
 * freezes or merges.
 */
export async function retainOn(
  backend: Backend,
  policy: Policy,
  cache: Cache,
  { budget, heads = 'own' }: RetainOptions,
): Promise<RetainResult> {
  expectBackend('retainOn', backend);
  const compiled = eventsOnly(policy, cache);
  const alike = heads === 'alike';
  const allowance =
    typeof budget === 'object' && 'slots' in budget ? budget : allowanceOf(compiled, budget, seen(cache));
  const host = hostOf(cache, backend, compiled.label, compiled.needs, allowance.slots, alike);
  const plan = planBudgets(compiled, allowance, host.lengths);
  const known = backend.lasting ? new StepCache() : undefined;
  const layers = host.layers.map(
    (layer, l): EventLayer => ({
      ...layer,
      stepCache: known,
      above: plan.above,
      budgets: alike ? [mean(plan.budgets[l])] : plan.budgets[l],
    }),
  );
  const drafts = runEvent(compiled, layers, backend.ops);
  const { kept, budgets, levels, notes } = await readDecisions(backend, layers, drafts);
  const perHead = <T>(rows: readonly (readonly T[])[]): T[][] =>
    rows.map((sets, l) => host.lengths[l].map((_, g) => perRow(sets, g, host.lengths[l].length)));
  const slots = perHead(kept);
  const needs = union(compiled.needs, ...compiled.hooks('step').map((hook) => hook.needs));
  const states = await statesAfter(
    needs,
    drafts.map(({ state }) => state),
    backend,
  );
  const stateOf: RetainResult['stateOf'] = (sets) =>
    compacted(needs, new Map([...(cache.state ?? []), ...states]), sets, layers);
  return {
    label: compiled.label,
    slots,
    budgets: perHead(budgets),
    ...(levels && { levels: perHead(levels) }),
    notes: [...new Set([...plan.notes, ...notes])],
    state: stateOf(slots),
    stateOf,
    positions: slots.map((sets, l) => positionsOf(cache.layers[l], sets)),
    compact: (l, x) => gather(x, slots[l]),
  };
}
const mean = (xs: readonly number[]): number => Math.round(sumOf(xs) / Math.max(1, xs.length));

/**
 * Runs the step hooks after a decoded token: decay, moving averages. Returns the state for the next call, unchanged if
 * there are no step hooks.
 * @param cache the cache after the token, with the state of the last call
 * @throws KvError naming the layer and the missing input.
 */
export async function advanceOn(backend: Backend, policy: Policy, cache: Cache): Promise<RetainState> {
  expectBackend('advanceOn', backend);
  const compiled = eventsOnly(policy, cache);
  let state: RetainState = cache.state ?? new Map();
  for (const hook of compiled.hooks('step')) {
    const { layers } = hostOf({ ...cache, state }, backend, compiled.label, hook.needs, 0, false);
    const written = runStepHook(
      hook,
      (hook.reach === 'model' ? layers.slice(0, 1) : layers).map(({ at, read }) => ({ at, read, ops: backend.ops })),
    );
    state = new Map([...state, ...(await statesAfter(hook.needs, written, backend))]);
  }
  return state;
}

/** Reads the states that steps wrote. */
async function statesAfter(
  needs: readonly AnySignal[],
  written: readonly DraftSelection['state'][],
  backend: Backend,
): Promise<RetainState> {
  const all = written.flatMap((state, l) =>
    [...state].map(([id, tensor]) => {
      const signal = needs.find((s): s is State => isState(s) && s.id === id);
      if (!signal) throw new KvError(id, 'expected a state that the policy declares');
      return { key: stateKey(signal, l), tensor };
    }),
  );
  const read = await backend.read(all.map(({ tensor }) => tensor));
  return new Map(all.map(({ key }, i) => [key, { data: read[i].data, shape: read[i].shape }]));
}
/** Returns slot states reduced to the kept slots; those that were appended after a state was written have its start. */
const compacted = (
  needs: readonly AnySignal[],
  state: RetainState,
  slots: RetainResult['slots'],
  layers: readonly EventLayer[],
): RetainState =>
  new Map(
    [...state].map(([key, x]): [string, HostArray] => {
      const signal = needs.find((s): s is State => isState(s) && key.startsWith(`${s.id} `));
      if (signal?.state.kind !== 'slot') return [key, x];
      const l = Number(key.slice(signal.id.length + 1)),
        grown = stateArray(signal.state, layers[l].at, x),
        [rows] = grown.shape;
      return [
        key,
        gather(
          grown,
          Array.from({ length: rows }, (_, r) => perRow(slots[l], r, rows)),
        ),
      ];
    }),
  );

function positionsOf({ positions }: CacheLayer, sets: readonly Uint32Array[]): readonly Uint32Array[] {
  if (!positions) return sets;
  const at = element(positions);
  return sets.map((set, g) => set.map((slot) => at(g, slot)));
}
/** Returns an entry of an array of rank 2. */
function element({
  data,
  shape,
  stride = rowMajor(shape),
  offset = 0,
}: HostArray): (row: number, column: number) => number {
  return (row, column) => data[offset + row * stride[0] + column * stride[1]];
}
function gather(
  { data, shape, stride = rowMajor(shape), offset = 0 }: HostArray,
  sets: readonly Uint32Array[],
): CompactArray {
  const longest = Math.max(0, ...sets.map((s) => s.length));
  const inner = shape.slice(2);
  const d = sizeOf(inner);
  const out = new (data instanceof Uint32Array ? Uint32Array : Float32Array)(sets.length * longest * d);
  const offsets = Uint32Array.from({ length: d }, (_, c) => innerOffset(c, inner, stride.slice(2)));
  for (const [g, set] of sets.entries())
    for (const [to, slot] of set.entries()) {
      const from = offset + g * stride[0] + slot * stride[1];
      for (let c = 0; c < d; c++) out[(g * longest + to) * d + c] = data[from + offsets[c]];
    }
  return { data: out, shape: [sets.length, longest, ...inner], lengths: sets.map((s) => s.length) };
}
/** Offset of the c-th number of a slot from its first. */
function innerOffset(c: number, shape: readonly number[], stride: readonly number[]): number {
  let at = 0;
  for (let axis = shape.length - 1, rest = c; axis >= 0; axis--, rest = Math.floor(rest / shape[axis + 1]))
    at += (rest % shape[axis]) * stride[axis];
  return at;
}
