import { positions, state, wrapSelect, kernel } from '@kv/core';
import { sharing } from '../../src/sharing.ts';
import type { SharingFactory } from '../../src/sharing.ts';
import { field } from './field.ts';
import type { Field } from './field.ts';

const mask = state('mask', { kind: 'slot', rows: 'query' }),
  have = state('have', { kind: 'sequence', rows: 'query' });
const later = kernel({
  id: 'later',
  inputs: { x: 'u32', by: 'f32' },
  ragged: 'x',
  per: 'row',
  wgsl: '',
  output: { dtype: 'u32', shape: ({ x }) => x },
  ref: ({ x, by }, _, out, lengths) =>
    lengths.forEach((n, r) => {
      const at = r * x.shape[1];
      for (let i = at; i < at + n; i++) out[i] = x.data[i] + by.data[r];
    }),
});
/** Reuses the set of the previous step whenever there is one and the threshold is at most 1. */
const reuse =
  (name: string, { always = false, blank = false, shifts = false } = {}): SharingFactory =>
  (threshold) =>
    wrapSelect(name, { needs: [positions, mask, have] }, ({ ops, mask: old, have: there, inner }) => {
      const reused = ops.mul(blank ? ops.fill(there, 1) : there, always || threshold <= 1 ? 1 : 0);
      const now = ops.where(reused, old, ops.mark(inner(ops.sub(1, reused)).kept, old)),
        kept = ops.select(now, ops.reduce('sum', now, 'slots'));
      return {
        kept: shifts ? ops.kernel(later, { x: kept, by: reused }) : kept,
        state: { mask: now, have: ops.fill(there, 1) },
      };
    })();

export const sharings: Field = field('sharing', sharing, {
  good: reuse('reuse'),
  mutants: {
    retrieves: reuse('always', { always: true }),
    first: reuse('from nothing', { blank: true }),
    valid: reuse('shifts', { shifts: true }),
  },
});
