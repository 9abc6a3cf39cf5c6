import fc from 'fast-check';
import { cacheForms, type CacheForm } from '@kv/engine';

/** Any stored form of a cache, f32 most often. */
export const anyForm = fc.oneof(
  fc.constant<CacheForm>('f32'),
  fc.constantFrom(...(Object.keys(cacheForms) as CacheForm[])),
);

/** Returns a form, or f32 where heads of this width do not fit it. */
export const fitting = (form: CacheForm, d: number): CacheForm =>
  d % 32 === 0 || form === 'f16' || form === 'q8' ? form : 'f32';

/** How far outputs of a token may lie from those of plain loops over the same rows: queries and weights have 16 bits. */
export const tolerance: Readonly<Record<CacheForm, number | undefined>> = {
  f32: undefined,
  f16: undefined,
  q8: 1e-3,
  k8v4: 1e-3,
  q4: 1e-3,
};
