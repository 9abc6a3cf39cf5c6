import { KvError } from '@kv/core';
import type { AttendHook, Backend } from '@kv/core';
import { runAttend } from '@kv/core/engine';
import type { HookPlace } from '@kv/core/engine';

/** Queries `[H, m, d]` of m tokens, and their positions. */
interface TermRows {
  readonly q: Float32Array;
  readonly queryPositions: Uint32Array;
}

/**
 * Returns what a hook adds to attention: ln of masses `[H, m]`, and values `[H, m, d]`.
 * @param H query heads
 * @throws KvError for a term that is not finite
 */
export async function readTerm(
  hook: AttendHook,
  place: HookPlace,
  backend: Backend,
  { q, queryPositions }: TermRows,
  H: number,
): Promise<readonly [masses: Float32Array, values: Float32Array]> {
  const { ops } = backend,
    m = queryPositions.length,
    term = runAttend(hook, place, {
      queries: ops.from({ data: q, shape: [H, m, q.length / (H * m)] }),
      positions: ops.from({ data: queryPositions, shape: [1, m] }, 'u32'),
    }),
    [masses, values] = (await backend.read([term.masses, term.values])).map(({ data }) => data as Float32Array);
  for (const [what, x] of [
    ['masses', masses],
    ['values', values],
  ] as const)
    if (!x.every(Number.isFinite))
      throw new KvError(`${hook.name}, layer ${place.at.layer}`, `expected ${what} as finite numbers, got another`);
  return [masses, values];
}

/**
 * Joins a term to attention over slots, as one more slot would be: out `[m, H * d]` and masses `[m, H]` are those of the
 * slots. Changes `out`.
 *
 * @remarks The join of two softmaxes: FlashAttention-2, arXiv:2307.08691, section 3.1.
 * @throws KvError, before `out` changes, for a term that is not finite
 */
export async function joinTerm(
  hook: AttendHook,
  place: HookPlace,
  backend: Backend,
  { out, masses, ...rows }: TermRows & Readonly<Record<'out' | 'masses', Float32Array>>,
): Promise<void> {
  const m = rows.queryPositions.length,
    H = masses.length / m,
    d = out.length / masses.length,
    [own, values] = await readTerm(hook, place, backend, rows, H);
  for (let h = 0; h < H; h++)
    for (let i = 0; i < m; i++) {
      const slots = masses[i * H + h],
        extra = own[h * m + i],
        top = Math.max(slots, extra),
        share = Math.exp(extra - top) / (Math.exp(extra - top) + Math.exp(slots - top)),
        to = (i * H + h) * d,
        from = (h * m + i) * d;
      if (share === 0) continue;
      for (let c = 0; c < d; c++) out[to + c] += share * (values[from + c] - out[to + c]);
    }
}
