import { runAttend, runInputSignal, slotState } from '@kv/core/engine';
import type { AttentionTerm, LayerContext, Tensor } from '@kv/core';
import type { Commands, OpenScope } from '@kv/gpu';
import type { FeedOptions, Output, SlotReader } from '@kv/engine';
import { encodeNorm, encodeSlots } from '../operations.ts';
import { rowsOf } from '../rows.ts';
import { slotModel, termOf, withLayerInput } from '@kv/engine';
import { attendLayer } from './layer-attention.ts';
import { writeStates } from './event.ts';
import { carry } from './carry.ts';
import { computedRows, liveRows, move, pick, type ComputedRows } from './computed-rows.ts';
import type { DeviceState } from './device-state.ts';
import { finishRows } from './finish-rows.ts';
import { noOutput, outputOf } from './output.ts';
import { gateOutputs } from './output-gate.ts';
import { recordEmbedding, type TokenChunk } from './token-chunk.ts';
import { attentionOf } from './signals.ts';
import { joinHeads } from './joined-heads.ts';
import { hiddenFrom, hiddenSlots, type ViewChecks } from './hidden-slots.ts';

/** Options of feeding a block. */
interface PassOptions extends Omit<FeedOptions, 'evict'> {
  /**
   * Called with each layer that keeps slots after the last layer that reads these; what it records follows that layer.
   */
  afterLayer?(layer: number): Promise<void>;
  /** Receives the largest weight of each slot of each layer that keeps slots, `[H, n]`. */
  readonly largest?: readonly Tensor[] | undefined;
  /** Divides those weights by the length of what the layer's projections read of the query's token. */
  readonly over?: 'hidden' | undefined;
  readonly picked?: PickedQueries | undefined;
}

/** Positions of a block, and what receives their queries in each layer that keeps slots, `[H, w, d]`. */
interface PickedQueries {
  readonly positions: readonly number[];
  readonly to: readonly Tensor[];
}

/**
 * A layer's state of a chunk between projection and attention: queries of its live tokens, and gates where heads have
 * them.
 */
interface Projection {
  readonly part: TokenChunk;
  readonly some: ComputedRows | undefined;
  readonly live: TokenChunk;
  readonly q: Tensor;
  readonly gate: Tensor | undefined;
}

/**
 * Records tokens through every layer: embedding, project, append, hide, attend, finish, logits of the last rows. Reads
 * nothing back; an event in `afterLayer` has reads of its own.
 */
export async function devicePass(
  caches: DeviceState,
  ids: readonly number[],
  { phase, active, rows, signal, eventFollows = false, afterLayer, largest, over, picked }: PassOptions,
): Promise<Output> {
  const { decoder, slots, context } = caches,
    { progress, guard } = context,
    { policy } = active,
    scope = caches.open(),
    { commands } = scope;
  try {
    const parts = await recordEmbedding(caches, commands, ids),
      checks: ViewChecks[number][] = [],
      [freezing] = phase === 'prefill' ? policy.hooks('freeze') : [],
      before = freezing?.copies ? new Map<TokenChunk, KeysValues>() : undefined,
      computed = new Map<TokenChunk, ComputedRows>(),
      /** By layer that keeps slots and chunk, the rows that all layers that read these slots compute. */
      some = caches.layers.map((): (ComputedRows | undefined)[] => []);
    for (const id of ids) progress.text.push(id);
    for (const [index, { kind, at: l, reader }] of caches.kept.all.entries()) {
      await guard.between({ phase, signal });
      if (kind === 'state') {
        for (const part of parts) mix(caches, commands, index, part, computed.get(part));
        continue;
      }
      const layer = caches.layers[l];
      if (kind === 'slots') {
        layer.cache.grow(ids.length);
        some[l] = parts.map((part) => freezing && computedRows(caches, active, l, part));
      }
      const projected = parts.map((part, i) => {
        if (kind !== 'slots') return projectQueries(caches, commands, index, part, some[l][i]);
        recordInputs(caches, scope, active, index, part);
        return project(caches, commands, index, part, some[l][i], before);
      });
      const attend = attentionIn(caches, scope, index, {
        phase,
        active,
        eventFollows,
        checks,
        largest: largest?.[l],
        over,
        input: () => readInput(caches, scope, index, parts[0]), // of a token alone
      });
      if (picked) pickQueries(commands, projected, picked.positions, picked.to[l], layer.heads.kvHeads, reader);
      for (const [i, { part, some, live, q, gate }] of projected.entries()) {
        const attended = gateOutputs(commands, attend(live, q, i === 0), gate, q);
        commands.free(q);
        const x = finishRows(decoder, commands, index, live, attended);
        if (some) {
          put(commands, x, part, some);
          computed.set(part, some);
        } else {
          part.x = x;
          computed.delete(part);
        }
      }
      decoder.rows.qkv[index] += projected.reduce(
        (n, { live, part }) => n + (before || kind === 'shared' ? live : part).m,
        0,
      );
      if (reader?.last === false) continue;
      if (phase === 'prefill') slots.freeUnreachable(l);
      await afterLayer?.(l);
    }
    return output({ caches, scope, checks }, parts, Math.min(rows, ids.length));
  } catch (error) {
    scope.end();
    throw error;
  }
}

/** Records the copy of queries at some positions of a block to `to`, where several layers read the slots among theirs. */
function pickQueries(
  commands: Commands,
  projected: readonly Projection[],
  positions: readonly number[],
  to: Tensor,
  kvHeads: number,
  reader: SlotReader | undefined,
): void {
  const own = reader ? commands.make([reader.rows.length, ...to.shape.slice(1)]) : to;
  for (const { live, q } of projected)
    for (const [i, position] of positions.entries()) {
      const at = position - live.at[0];
      if (at >= 0 && at < live.m) encodeSlots(commands, q, own, 1, at, i);
    }
  if (!reader) return;
  joinHeads(commands, own, to, reader, kvHeads);
  commands.free(own);
}

/** Options of a layer's attention in a pass. */
interface LayerAttentionOptions extends Pick<PassOptions, 'phase' | 'active' | 'eventFollows' | 'over'> {
  /** Collects views' checks, to be read with the results of the pass. */
  readonly checks: ViewChecks[number][];
  /** Receives the largest weight of each slot, `[H, n]`. */
  readonly largest?: Tensor | undefined;
  /** Returns what the layer's projections read of the newest token. */
  readonly input?: () => Tensor;
}

/**
 * Returns a function that records the attention of chunks, without what views hide, to rows `[m, H * d]`, in a layer of the
 * model whose slots hold the block's tokens.
 */
export function attentionIn(
  caches: DeviceState,
  scope: OpenScope,
  index: number,
  { phase, active, eventFollows = false, checks, largest, over, input }: LayerAttentionOptions,
): (live: TokenChunk, q: Tensor, first: boolean) => Tensor {
  const { at: l, reader } = caches.kept.all[index],
    layer = caches.layers[l],
    { progress, counters, model } = caches.context,
    { policy } = active,
    { commands } = scope;
  if (reader?.first !== false) progress.countSlots(layer.cache.length);
  layer.accumulated?.grow(layer.cache.length);
  layer.block?.grow(layer.cache.length);
  layer.biases?.grow(layer.cache.length);
  let counted = false; // not where all tokens are frozen
  if (layer.accumulated || layer.block || largest) counters.statistics++;
  const hidden = hiddenSlots(
    policy,
    phase,
    ofReader(caches.slots.layerContext(l, active), reader),
    withLayerInput(caches.reader(l, scope, reader), phase, input),
    scope,
    (needs, state) => writeStates(needs, state, layer.states, caches.shared, reader),
  );
  caches.decoded.clear();
  checks.push(...hidden.checks);
  const readSums = [...policy.hooks('view'), ...policy.hooks('step')].some(({ needs }) =>
    needs.some(({ id }) => id === 'attention.accumulated'),
  );
  const hook = termOf(active, layer),
    // one for all chunks, whose states are read once
    place = hook && {
      at: ofReader(caches.slots.layerContext(l, active), reader),
      ops: scope.ops,
      read: caches.reader(l, scope, reader),
    },
    term = (live: TokenChunk, q: Tensor): AttentionTerm | undefined =>
      place &&
      runAttend(hook, place, {
        queries: q,
        positions: scope.ops.from({ data: live.at, shape: [1, live.m] }, 'u32'),
      });
  return (live, q, first) => {
    if (!counted && live.m > 0) counters.fused++;
    counted ||= live.m > 0;
    return attendLayer(
      commands,
      layer,
      {
        ...attentionOf(layer, slotModel(model.config), l, q, live.positions),
        ...hiddenFrom(commands, live, hidden),
      },
      {
        at: live.at,
        first,
        read: eventFollows || readSums,
        reader,
        ...(live.m > 0 && { term: term(live, q) }),
        largest: largest && {
          to: largest,
          over: over && ((lse) => scope.ops.add(lse, logLengths(caches, scope, index, live))),
        },
      },
    );
  };
}

/** Returns what pieces know of a layer, whose query heads are those of one reader of its slots, if there are several. */
export const ofReader = (at: LayerContext, reader: SlotReader | undefined): LayerContext =>
  reader ? { ...at, queryHeads: reader.rows.length } : at;

/** Returns ln |h|_2 of what a layer's projections read of a chunk's tokens, `[1, m]`. */
function logLengths(caches: DeviceState, scope: OpenScope, index: number, part: TokenChunk): Tensor {
  const { ops } = scope;
  return ops.log(ops.max(ops.norm(readInput(caches, scope, index, part)), LEAST));
}

/** Records what a layer's projections read of a chunk's tokens, after their norm, `[1, m, D]`. */
function readInput(
  { decoder, context: { model } }: DeviceState,
  { commands }: OpenScope,
  index: number,
  { x, m }: TokenChunk,
): Tensor {
  const { norm: gain } = decoder.layers[index],
    { hidden: D, normEps } = model.config,
    read = gain ? encodeNorm(commands, rowsOf(x, D), m, commands.upload(gain, [D]), normEps).tensor : x;
  return { ...read, shape: [1, m, D] };
}

/** Records what input signals make of a chunk's tokens, which are about to join the slots of a layer of the model. */
function recordInputs(
  caches: DeviceState,
  scope: OpenScope,
  active: FeedOptions['active'],
  index: number,
  part: TokenChunk,
): void {
  const { at: l } = caches.kept.all[index],
    { states, cache } = caches.layers[l],
    wanted = caches.inputs.signals.filter((signal) => states.has(slotState(signal).id));
  if (wanted.length === 0) return;
  const input = readInput(caches, scope, index, part),
    at = caches.slots.layerContext(l, active);
  for (const signal of wanted)
    states.add(
      slotState(signal),
      runInputSignal(signal, { at, ops: scope.ops, input, read: caches.inputs.reader(l) }),
      cache.counts,
    );
}
/** The least length, which replaces a length of 0. */
const LEAST = 2 ** -120;

/**
 * Records a chunk through a layer of the model that carries a state. Rows that the last layer with slots did not compute
 * stay as they are, but join the state.
 */
export function mix(
  caches: DeviceState,
  commands: Commands,
  index: number,
  part: TokenChunk,
  some?: ComputedRows,
): void {
  const { decoder } = caches,
    [rows] = decoder.layers[index].project.encode(commands, [part.x], part.m) as [Tensor],
    mixed = carry(caches, commands, index, rows, part.m),
    live = some ? pick(caches, commands, part, some) : part,
    given = some ? liveRows(commands, mixed, part.m, some) : mixed;
  for (const spent of some ? [rows, mixed] : [rows]) commands.free(spent);
  const x = finishRows(decoder, commands, index, live, given);
  if (some) put(commands, x, part, some);
  else part.x = x;
  decoder.rows.qkv[index] += part.m;
}

type KeysValues = readonly [keys: Tensor, values: Tensor];

/** Projects a chunk in a layer whose queries read the slots of another one. Only live tokens have queries. */
function projectQueries(
  caches: DeviceState,
  commands: Commands,
  index: number,
  part: TokenChunk,
  some: ComputedRows | undefined,
): Projection {
  const { at: l, reader } = caches.kept.all[index],
    live = some ? pick(caches, commands, part, some) : part,
    { project } = caches.decoder.layers[index],
    [q, gate] = project.encode(commands, [live.x], live.m, live.angles(index)) as [Tensor, Tensor?];
  caches.layers[l].ring?.push(q, live.at, live.rotations, reader);
  return { part, some, live, q, gate };
}

/**
 * Projects a chunk and appends keys and values of all its tokens. Only live tokens have queries. With `before`, which
 * holds keys and values of the previous layer, frozen tokens take those and only live ones are projected.
 */
function project(
  caches: DeviceState,
  commands: Commands,
  index: number,
  part: TokenChunk,
  some: ComputedRows | undefined,
  before: Map<TokenChunk, KeysValues> | undefined,
): Projection {
  const { at: l, reader } = caches.kept.all[index],
    { cache, ring } = caches.layers[l],
    live = some ? pick(caches, commands, part, some) : part,
    given = before ? live : part,
    old = before?.get(part),
    { project } = caches.decoder.layers[index];
  const [all, k, v, gates] = project.encode(commands, [given.x], given.m, given.angles(index)) as [
    Tensor,
    Tensor,
    Tensor,
    Tensor?,
  ];
  const fewer = before ? undefined : some,
    q = fewer ? liveQueries(commands, all, fewer) : all,
    gate = fewer && gates ? liveRows(commands, gates, part.m, fewer) : gates;
  if (fewer) for (const spent of gates ? [all, gates] : [all]) commands.free(spent);
  const own: KeysValues = some && old ? old : [k, v];
  if (some && own === old) for (const [i, x] of [k, v].entries()) move(commands, x, own[i], some, part.m, true);
  cache.append(...own, part.positions, part.at, part.rotations);
  ring?.push(q, live.at, live.rotations, reader);
  for (const x of own === old ? [k, v] : before ? (old ?? []) : own) commands.free(x);
  before?.set(part, own);
  return { part, some, live, q, gate };
}

/** Returns the live queries `[H, live, d]` among those `[H, m, d]` of a chunk. */
function liveQueries(commands: Commands, q: Tensor, some: ComputedRows): Tensor {
  const [heads, m, headDim] = q.shape,
    out = commands.make([heads, some.before + some.after, headDim]);
  move(commands, q, out, some, m, false);
  return out;
}

/** Puts computed rows `[live, D]` into the chunk's. */
function put(commands: Commands, x: Tensor, { x: to, m }: TokenChunk, some: ComputedRows): void {
  const rows = (of: Tensor, count: number): Tensor => ({
    ...of,
    shape: [1, count, of.shape.reduce((a, b) => a * b, 1) / Math.max(1, count)],
  });
  move(commands, rows(x, some.before + some.after), rows(to, m), some, m, true);
  commands.free(x);
}

/** Records the logits of the last `count` rows. */
function output(from: Parameters<typeof outputOf>[0], parts: readonly TokenChunk[], count: number): Output {
  const { caches, scope } = from,
    { model, progress } = caches.context;
  if (count === 0) {
    scope.end();
    return noOutput;
  }
  const { commands } = scope,
    { hidden, vocab } = model.config,
    first = parts.reduce((sum, { m }) => sum + m, -count),
    most = Math.max(1, Math.floor(commands.mostBytes / (4 * Math.max(hidden, vocab)))), // rows that the device binds
    wanted: Pick<TokenChunk, 'x' | 'm'>[] = [];
  for (let done = 0; done < count; done += most) {
    const m = Math.min(most, count - done);
    wanted.push({ x: rowsFrom(commands, parts, first + done, m, hidden), m });
  }
  return outputOf(from, wanted, progress.length);
}

/** Records a copy of m hidden states from row `first` on of a block, `[1, m, D]`. */
function rowsFrom(commands: Commands, parts: readonly TokenChunk[], first: number, m: number, hidden: number): Tensor {
  const out = commands.make([1, m, hidden]);
  let start = 0;
  for (const { x, m: rows } of parts) {
    const [from, to] = [Math.max(first, start), Math.min(first + m, start + rows)];
    if (from < to)
      encodeSlots(commands, { ...x, shape: [1, rows, hidden] }, out, to - from, from - start, from - first);
    start += rows;
  }
  return out;
}
