import { KvError, LEVELS } from '@kv/core';
import { formNames } from '@kv/core/engine';
import type { FormName } from '@kv/core';
import { slotHeads, type ModelConfig } from '@kv/checkpoints';

/**
 * How the rows of keys, or those of values, are stored. A row is the `d` numbers of one slot of one KV head.
 *
 * - `f32`: as they are.
 * - `f16`: in half precision, to the nearest, at most 65504 in size.
 * - `q8`: codes of 8 bits with one scale a row: `x = code * scale`, codes from -127 to 127.
 * - `q4`: codes of 4 bits with a scale and a minimum for every 32 channels: `x = minimum + code * scale`.
 */
export type RowForm = 'f32' | 'f16' | 'q8' | 'q4';

/** How a cache is stored: the form of its keys and that of its values. */
export interface StoredForm {
  readonly keys: RowForm;
  readonly values: RowForm;
}

/** The stored forms of a cache, by name, from the finest to the coarsest: the levels of the algebra. */
export const cacheForms = {
  f32: { keys: 'f32', values: 'f32' },
  f16: { keys: 'f16', values: 'f16' },
  q8: { keys: 'q8', values: 'q8' },
  k8v4: { keys: 'q8', values: 'q4' },
  q4: { keys: 'q4', values: 'q4' },
} as const satisfies Record<FormName, StoredForm>;

/** The name of a stored form of a cache. */
export type CacheForm = keyof typeof cacheForms;

/**
 * All forms that storage has: those of a cache, and those that it takes once slots are moved. A key that is rotated again
 * and again is rounded each time; halves keep that small.
 */
export const storedForms = {
  ...cacheForms,
  'q8-moved': { keys: 'f16', values: 'q8' },
  'k8v4-moved': { keys: 'f16', values: 'q4' },
  'q4-moved': { keys: 'f16', values: 'q4' },
} as const satisfies Record<string, StoredForm>;

/** The name of a form that storage has. */
export type StorageForm = keyof typeof storedForms;

/** Returns the form of storage whose slots have been moved. */
export const movedForm = (form: StorageForm): StorageForm =>
  form === 'q8' || form === 'k8v4' || form === 'q4' ? `${form}-moved` : form;

/** Returns the form of a cache whose storage has this form. */
export const unmovedForm = (form: StorageForm): CacheForm =>
  form === 'q8-moved' ? 'q8' : form === 'k8v4-moved' ? 'k8v4' : form === 'q4-moved' ? 'q4' : form;

/** Channels that share a scale and a minimum in `q4`. */
export const BLOCK = 32;

/** Bytes of a row's codes, and of its scales, which lie apart. */
export interface RowBytes {
  readonly codes: number;
  readonly scales: number;
}

/** Returns the bytes of a row of `d` numbers. */
export function rowBytes(form: RowForm, d: number): RowBytes {
  switch (form) {
    case 'f32':
      return { codes: 4 * d, scales: 0 };
    case 'f16':
      return { codes: 2 * d, scales: 0 };
    case 'q8':
      return { codes: d, scales: 4 };
    case 'q4':
      return { codes: d / 2, scales: (4 * d) / BLOCK };
  }
}

/** Returns the bytes of a key and a value of one KV head. */
export function keyValueBytes(form: StorageForm, headDim: number): number {
  const { keys, values } = storedForms[form],
    [k, v] = [rowBytes(keys, headDim), rowBytes(values, headDim)];
  return k.codes + k.scales + v.codes + v.scales;
}

/** Returns the bytes of one slot of one KV head: key, value, position and, once rebased, rotation. */
export const slotBytes = (form: StorageForm, headDim: number, rebased = false): number =>
  keyValueBytes(form, headDim) + (rebased ? 8 : 4);

/** Returns the bytes that a token adds to a full cache: a slot in every KV head of every layer that keeps slots. */
export const tokenBytes = (form: CacheForm, config: Pick<ModelConfig, 'mixers'>): number =>
  slotHeads(config).reduce((sum, { kvHeads, headDim }) => sum + kvHeads * slotBytes(form, headDim), 0);

/**
 * Returns the form that a model's caches are stored in.
 * @param asked the form that was asked for, if one was
 * @param forms the forms that the engine stores caches in @defaultValue all
 * @param otherwise the engine's choice; heads that do not fit it are stored as f32
 * @param headDims the widths of the model's heads
 * @throws KvError for a form that the engine has not, or that heads of this width do not fit
 */
export function formOf(
  asked: CacheForm | undefined,
  {
    forms = formNames,
    otherwise,
    headDims,
  }: {
    readonly forms?: readonly CacheForm[];
    readonly otherwise: CacheForm;
    readonly headDims: readonly number[];
  },
): CacheForm {
  if (asked === undefined) return fitsHeads(otherwise, headDims) ? otherwise : 'f32';
  if (!forms.includes(asked))
    throw new KvError('cache', `this engine stores caches as ${forms.join(', ')}, got ${asked}`);
  if (!fitsHeads(asked, headDims))
    throw new KvError(
      'cache',
      `${asked} stores heads of a multiple of ${multipleOf(asked)} channels, the model's have ${headDims.join(' and ')}: use ${fitsHeads('q8', headDims) ? 'q8 or f16' : 'f32'}`,
    );
  return asked;
}

/** Whether heads of these widths can be stored in a form. */
export const fitsHeads = (form: CacheForm, headDims: readonly number[]): boolean =>
  headDims.every((headDim) => headDim % multipleOf(form) === 0);

/**
 * Checks that slots of heads of these widths can be stored at levels.
 * @param name the policy or piece that gives them
 * @throws KvError naming the first level that they do not fit
 */
export function expectLevels(name: string, levels: Iterable<CacheForm>, headDims: readonly number[]): void {
  for (const level of levels)
    if (!fitsHeads(level, headDims))
      throw new KvError(
        name,
        `${level} stores heads of a multiple of ${multipleOf(level)} channels, the model's have ${headDims.join(' and ')}: leave this level out`,
      );
}

/** Returns the levels that slots are given, indexes among `LEVELS` `[layer][kvHead][slot]`, each once. */
export const levelsIn = (levels: readonly (readonly Uint8Array[])[]): Set<CacheForm> =>
  new Set(levels.flat().flatMap((of) => Array.from(of, (level) => LEVELS[level])));

/** Returns what the width of a head must be a multiple of. */
function multipleOf(form: CacheForm): number {
  const { keys, values } = cacheForms[form];
  if (form === 'f32') return 1;
  return (keys as RowForm) === 'q4' || (values as RowForm) === 'q4' ? BLOCK : 4;
}
