import { count, kernel, KvError, positions, PROTOCOL } from '@kv/core';
import { signalKey } from '@kv/core/engine';
import { factory, inside, mergeMasks, range } from '@kv/core/shared';
import type {
  AnyScorer,
  AnySignal,
  LayerContext,
  StepInput,
  DraftSelection,
  Factory,
  Piece,
  Rope,
  ScorePhase,
  Signal,
  Step,
  Tensor,
  Tokens,
} from '@kv/core';

/** Positions [start, end) of a sequence. */
interface Chunk {
  readonly start: number;
  readonly end: number;
}
type Own = (x: unknown, chunk: Chunk, cell: StepInput, slots: Tensor) => unknown;
const taken: Own = (x, _, { ops }, slots) => ops.take(x as Tensor, slots);
/** For each signal, the part of it that belongs to a chunk. */
const OWN: Readonly<Record<string, Own>> = {
  keys: taken,
  values: taken,
  positions: (x, { start }, { ops }, slots) => ops.kernel(fromStart, { p: ops.take(x as Tensor, slots) }, { start }),
  tokens(x, { start, end }): Tokens {
    const { ids, text, offsets } = x as Tokens,
      own = offsets.slice(start, end),
      [from, to] = [own[0]?.[0] ?? 0, own.at(-1)?.[1] ?? 0];
    return {
      ids: ids.slice(start, end),
      text: text.slice(from, to),
      offsets: own.map(([a, b]) => [Math.max(0, a - from), b - from]),
    };
  },
  rope(x, { start }, { ops }, slots): Rope {
    const { angles, rotary, moved } = x as Rope;
    return {
      rotary,
      angles: (positions) => angles(positions.map((p) => p + start)),
      ...(moved && {
        moved: { positions: moved.positions.map((p) => p - start), index: ops.take(moved.index, slots) },
      }),
    };
  },
  embeddings: (x) => x,
};
const own = ({ id }: AnySignal): Own | undefined => (Object.hasOwn(OWN, id) ? OWN[id] : undefined);

/** Context of a chunk: that of a sequence by itself, with its share of the budget. */
function placeOf(at: LayerContext, { start, end }: Chunk, slots: number): LayerContext {
  const length = end - start;
  return {
    ...at,
    slots,
    length,
    promptLength: Math.min(length, Math.max(0, at.promptLength - start)),
    budget: Math.floor((at.budget * length) / at.length),
  };
}

/** Step input of a chunk; `of` is the chunk of every slot. */
function cellOf(cell: StepInput, of: Tensor, chunk: Chunk, index: number): StepInput {
  const { ops, at, draft } = cell,
    whole = at.aligned && at.slots === at.length,
    length = chunk.end - chunk.start;
  const marked = whole ? undefined : ops.zip('equal', of, index);
  const slots = marked
    ? ops.select(marked, ops.count(marked))
    : ops.from({ data: range(chunk.start, length), shape: [1, length] }, 'u32');
  const known = new Map<string, unknown>();
  return {
    ...cell,
    at: placeOf(at, chunk, whole ? length : at.slots),
    draft: { ...draft, budgets: ops.map('floor', ops.mul(draft.budgets, length / at.length)) },
    read: <V>(signal: Signal<string, V>): V => {
      const key = signalKey(signal);
      if (!known.has(key)) known.set(key, own(signal)!(cell.read(signal), chunk, cell, slots)); // others are refused
      return known.get(key) as V;
    },
  };
}

/** Positions within a chunk. */
const fromStart = kernel({
  id: 'from-start',
  inputs: { p: 'u32' },
  params: { start: 'u32' },
  ragged: 'p',
  output: { dtype: 'u32', shape: ({ p }) => p },
  wgsl: /* wgsl */ `
fn run(index: u32) { output[index] = max(p[index], params.start) - params.start; }`,
  ref({ p }, { start }, out) {
    for (let i = 0; i < out.length; i++) out[i] = Math.max(p.data[i], start) - start;
  },
});

/**
 * `all` with the numbers of a chunk's slots, in their order, from `part` `[r, m]`: rows of units, or of their query
 * heads.
 */
export const withChunk = kernel({
  id: 'with-chunk',
  inputs: { all: 'f32', part: 'f32', unitOf: 'u32' },
  params: { chunk: 'u32' },
  ragged: 'unitOf',
  output: { shape: ({ all }) => all },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let n = all_shape.y; let row = index / n; let here = index % n;
  let first = row * unitOf_shape.x / all_shape.x * n;
  output[index] = all[index];
  if (unitOf[first + here] != params.chunk) { return; }
  var low = 0u; var high = here;
  while (low < high) { let mid = (low + high) / 2u; if (unitOf[first + mid] < params.chunk) { low = mid + 1u; } else { high = mid; } }
  output[index] = part[row * part_shape.y + here - low];
}`,
  ref({ all, part, unitOf }, { chunk }, out, lengths) {
    const [rows = 0, n = 0] = all.shape,
      [, m = 0] = part.shape,
      [units = 1] = unitOf.shape;
    for (let row = 0; row < rows; row++) {
      const g = Math.floor((row * units) / rows);
      for (let i = 0, at = 0; i < lengths[g]; i++) {
        const own = unitOf.data[g * n + i] === chunk;
        out[row * n + i] = own ? part.data[row * m + at++] : all.data[row * n + i];
      }
    }
  },
});

/** Returns the chunk of every slot, u32 in the shape of its positions. */
function chunkOf({ ops, at, read }: StepInput, size: number): Tensor {
  const table = Uint32Array.from({ length: at.length }, (_, i) => Math.floor(i / size));
  return ops.take(ops.from({ data: table, shape: [1, at.length] }, 'u32'), read(positions));
}

/** Joins the chunks' results over all slots; 0 where a chunk has none, undefined where none has. */
function joined(
  { ops, at: { slots } }: StepInput,
  unitOf: Tensor,
  parts: readonly (Tensor | undefined)[],
): Tensor | undefined {
  const rows = parts.find((part) => part)?.shape[0];
  if (rows === undefined) return undefined;
  const none = ops.from({ data: new Float32Array(rows * slots), shape: [rows, slots] });
  return parts.reduce<Tensor>(
    (all, part, chunk) => (part ? ops.kernel(withChunk, { all, part, unitOf }, { chunk }) : all),
    none,
  );
}

/** Returns a chunk's scores, those of forced slots above all others of their row. */
const scoresOf = ({ ops }: StepInput, { scores, forced }: DraftSelection): Tensor | undefined =>
  scores && forced ? ops.where(forced, ops.add(ops.reduce('max', scores, 'slots'), 1), scores) : scores;

/** Most chunks of a sequence: each is scored by itself. */
const MOST = 256;
const options = {
  size: count(1024, 'positions', `Positions in a chunk; more where a sequence would have more than ${MOST} chunks.`),
};

/**
 * Runs a scorer on each chunk of neighbouring positions as if the chunk were a sequence by itself, with its own first
 * positions, means and largest numbers; slots that it forces come first in the chunk. With `chunks(size)` and `quota`
 * after it, the chunks share the budget by their sizes.
 *
 * @remarks kvpress' ChunkPress, after Corallo and Papotti 2024. Rows as in the scorer. No engine knows the attention
 * that a chunk would have received alone, so scorers of attention are refused. O(n) in addition to the scorer's cost.
 * @throws KvError for a scorer of attention, queries, their statistics or state.
 */
export const eachChunk: Factory<typeof options, Piece<'start', ScorePhase, 'eachChunk'>, [scorer: AnyScorer]> = factory(
  'eachChunk',
  {
    source: 'Corallo and Papotti 2024, TACL, doi:10.1162/tacl_a_00716',
    says: 'Scores each chunk as if it were a sequence by itself.',
    options,
  },
  { kind: 'scorer', takes: 'scorer', from: ['start'] },
  ({ size }, label, scorer) => {
    const { hooks, run, needs, needsFullPrompt, reach } = inside('eachChunk', [scorer]),
      strange = needs.find((signal) => !own(signal));
    if (strange)
      throw new KvError(
        'eachChunk',
        `'${scorer.label}' reads ${signalKey(strange)}, expected a scorer of keys, values, positions and tokens, which a chunk has by itself`,
      );
    const step: Step = {
      at: 'event',
      kind: 'scorer',
      name: 'eachChunk',
      label,
      needsFullPrompt,
      reach,
      needs: [...needs, ...(needs.some(({ id }) => id === 'positions') ? [] : [positions])],
      run(cells) {
        const length = Math.max(...cells.map(({ at }) => at.length)),
          each = Math.max(size, Math.ceil(length / MOST)),
          chunks = Array.from({ length: Math.ceil(length / each) }, (_, i) => ({
            start: i * each,
            end: Math.min(length, (i + 1) * each),
          }));
        const units = cells.map((cell) => chunkOf(cell, each)),
          drafts: readonly (readonly DraftSelection[])[] = chunks.map(
            (chunk, c) => run(cells.map((cell, i) => cellOf(cell, units[i], chunk, c)))[0],
          );
        return cells.map((cell, i) => {
          const parts = drafts.map((of) => of[i]),
            scores = joined(
              cell,
              units[i],
              parts.map((part) => scoresOf(cell, part)),
            ),
            banned = joined(
              cell,
              units[i],
              parts.map((part) => part.banned),
            );
          const draft = parts.reduce<DraftSelection>(
            (before, { forced: _, banned: __, forcedBy: ___, ...part }) => mergeMasks({ ...cell, draft: before }, part),
            cell.draft,
          );
          return mergeMasks(
            { ...cell, draft: { ...draft, ...(scores && { scores }) } },
            {
              ...cell.draft,
              checks: [],
              ...(banned && { banned }),
            },
          );
        });
      },
    };
    return { protocol: PROTOCOL, from: ['start'], to: scorer.to, name: 'eachChunk', label, atoms: [step, ...hooks] };
  },
);
