import { KvError } from '@kv/core';
import type { AttendHook, Backend } from '@kv/core';
import { runAttend } from '@kv/core/engine';
import type { HookPlace } from '@kv/core/engine';

/**
 * Joins a term to attention over slots, as one more slot would be: out `[m, H * d]` and masses `[m, H]` are those of the
 * slots, q `[H, m, d]` and positions those of the queries. Changes `out`.
 *
 * @remarks The join of two softmaxes: FlashAttention-2, arXiv:2307.08691, section 3.1.
 * @throws KvError, before `out` changes, for a term that is not finite
 */
export async function joinTerm(
  hook: AttendHook,
  place: HookPlace,
  backend: Backend,
  {
    q,
    queryPositions,
    out,
    masses,
  }: Readonly<Record<'q' | 'out' | 'masses', Float32Array>> & { readonly queryPositions: Uint32Array },
): Promise<void> {
  const { ops } = backend,
    m = queryPositions.length,
    H = masses.length / m,
    d = out.length / masses.length,
    term = runAttend(hook, place, {
      queries: ops.from({ data: q, shape: [H, m, d] }),
      positions: ops.from({ data: queryPositions, shape: [1, m] }, 'u32'),
    }),
    [own, values] = (await backend.read([term.masses, term.values])).map(({ data }) => data as Float32Array);
  for (const [what, x] of [
    ['masses', own],
    ['values', values],
  ] as const)
    if (!x.every(Number.isFinite))
      throw new KvError(`${hook.name}, layer ${place.at.layer}`, `expected ${what} as finite numbers, got another`);
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
