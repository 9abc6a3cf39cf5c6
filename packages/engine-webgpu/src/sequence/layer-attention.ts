import type { AttentionTerm, Tensor } from '@kv/core';
import { dispatch } from '@kv/gpu';
import type { Commands } from '@kv/gpu';
import { joinTerm } from '../kernels/join-term.wgsl.ts';
import {
  encodeAccumulate,
  encodeAttention,
  encodeColumns,
  type AttentionResult,
  type DeviceAttention,
} from '../attention.ts';
import { encodeSlots } from '../operations.ts';
import type { SlotReader } from '@kv/engine';
import { placesOf } from './joined-heads.ts';
import type { DeviceLayer } from './layer.ts';

/** Queries up to which column sums come from the scores that attention keeps. */
const FEW = 4;

/** Buffers that receive the largest weight of each slot, `[H, n]`. */
interface LargestWeights {
  readonly to: Tensor;
  /** Log-sum-exps `[H, m]` that are more by what each query's weights are divided by, from those that there are. */
  readonly over?: ((lse: Tensor) => Tensor) | undefined;
}

/** Queries of a block and how they attend in one layer. */
interface ChunkQueries {
  /** Positions of the queries. */
  readonly at: Uint32Array;
  /** Whether they are the first of their block. */
  readonly first: boolean;
  /** Whether running sums are read before the next token. */
  readonly read: boolean;
  readonly largest?: LargestWeights | undefined;
  /** Where several layers read these slots: the one whose queries these are. */
  readonly reader?: SlotReader | undefined;
  /** What takes part in their attention in addition to slots. */
  readonly term?: AttentionTerm | undefined;
}

/**
 * Records attention, and adds what each slot received to the running sums. A decoded query's probabilities are added by
 * the attention of the next, which reads the keys anyway, so that only the sums cost memory traffic; where the sums are
 * read earlier, its scores are stored between two kernels.
 */
export function attendLayer(
  commands: Commands,
  layer: DeviceLayer,
  a: DeviceAttention,
  { at, first, read, largest, reader, term }: ChunkQueries,
): Tensor {
  const { accumulated, block, ring } = layer,
    { m } = a,
    plain = !a.mask && a.views === 0,
    // biases take the buffer that the query before would
    waiting = m === 1 && plain && !a.biases ? layer.waiting : undefined,
    sums = accumulated?.tensor,
    among = reader && placesOf(reader, a.kvHeads);
  if (!waiting) addWaiting(commands, layer, a);
  const attended = encodeAttention(commands, a, {
    last: sums || block || largest || term ? m : ring && plain ? Math.min(m, ring.window) : 0,
    scores: sums !== undefined && (waiting ? read : m <= FEW),
    ...(waiting && {
      // only a layer with sums lets a query wait
      ...(waiting.at !== undefined && { add: { past: waiting.past, pastAt: waiting.at, own: at[0], sums: sums! } }),
      ...(!read && { leave: waiting.past }),
    }),
  });
  if (waiting) waiting.at = read ? undefined : at[0];
  ring?.answer(m, plain ? attended : undefined, reader);
  if (largest)
    encodeColumns(commands, a, lessened(commands, a, attended, largest.over), largest.to, {
      of: 'max',
      join: !first,
      among,
    });
  if (block) encodeColumns(commands, a, attended, block.tensor, { join: !first, among });
  if (sums && attended.scores) {
    encodeAccumulate(commands, a, attended as AttentionResult & Required<Pick<AttentionResult, 'scores'>>, sums, among);
    commands.free(attended.scores.tensor);
  } else if (sums && !waiting) encodeColumns(commands, a, attended, sums, { join: true, among });
  return term ? joined(commands, a, attended, term) : attended.out;
}

/** Records the join of attention over slots, which is freed, and a term. */
function joined(
  commands: Commands,
  { m, heads, headDim: width }: DeviceAttention,
  { out: attended, lseAt: lse_at }: AttentionResult,
  { masses, values }: AttentionTerm,
): Tensor {
  const out = commands.make([m, heads * width]);
  dispatch(commands, joinTerm, { attended, masses, values, out }, { m, heads, width, lse_at }, m * heads * width);
  commands.free(attended);
  return out;
}

/** Returns attention with other log-sum-exps, computed by `over`, `[H, last]`. */
function lessened(
  commands: Commands,
  { heads }: DeviceAttention,
  attended: AttentionResult,
  over: LargestWeights['over'],
): AttentionResult {
  if (!over) return attended;
  const { out, lseAt, last } = attended,
    lse = commands.make([heads, last]);
  encodeSlots(commands, { ...out, shape: [heads, last] }, lse, last, 0, 0, lseAt);
  return { ...attended, out: over(lse), lseAt: 0 };
}

/**
 * Records the addition of the decoded query that is pending, if any, to the running sums of its layer, which reads the
 * keys for it alone. Call it before sums are read, or keys change.
 */
export function addWaiting(
  commands: Commands,
  { waiting, accumulated }: DeviceLayer,
  { mask: _, ...a }: DeviceAttention,
): void {
  if (waiting?.at === undefined) return;
  const rows = commands.upload(Uint32Array.of(waiting.at), [1]),
    { heads, headDim } = a;
  encodeColumns(
    commands,
    { ...a, m: 1, q: waiting.past, rows, views: 0 },
    { out: waiting.past, lseAt: heads * headDim, last: 1 },
    accumulated!.tensor, // only a layer with sums lets a query wait
    { join: true },
  );
  commands.free(rows);
  waiting.at = undefined;
}
