import { KvError } from '@kv/core';
import type { Signal } from '@kv/core';

/** One layer's queries before rotation, over a calibration text. */
export interface PreRope {
  /** E[q] of every channel, `[H, d]`; the pair (i, i + half) is one complex number. */
  readonly mean: Float32Array;
  /** E[|q_f|] of every pair, `[H, half]`. */
  readonly size: Float32Array;
  /** Pairs that rotate. */
  readonly half: number;
}
/** All layers of a model. */
export interface Statistics { /** Tokens that they are of. */ readonly tokens: number; readonly rows: readonly PreRope[] }
interface Heads { readonly queryHeads: number; readonly headDim: number }

/** Name of the file beside the model. */
export const PRE_ROPE_FILE = 'pre-rope.safetensors';
const LENGTH = 8;

/** Statistics as a safetensors file: `mean` f32 `[L, H, d]` and `size` f32 `[L, H, half]`. */
export function preRopeFile({ tokens, rows }: Statistics, { queryHeads: H, headDim: d }: Heads): Uint8Array {
  const L = rows.length, half = rows[0]?.half ?? 0, at = L * H * d * 4, end = at + L * H * half * 4;
  const header = new TextEncoder().encode(JSON.stringify({ __metadata__: { tokens: String(tokens) }, mean: { dtype: 'F32', shape: [L, H, d], data_offsets: [0, at] }, size: { dtype: 'F32', shape: [L, H, half], data_offsets: [at, end] } }));
  const padded = Math.ceil(header.length / 8) * 8, file = new Uint8Array(LENGTH + padded + end).fill(32, LENGTH, LENGTH + padded), view = new DataView(file.buffer);
  view.setBigUint64(0, BigInt(padded), true);
  file.set(header, LENGTH);
  [...rows.flatMap((r) => Array.from(r.mean)), ...rows.flatMap((r) => Array.from(r.size))].forEach((x, i) => view.setFloat32(LENGTH + padded + 4 * i, x, true));
  return file;
}

const refuse = (expected: string): KvError => new KvError(PRE_ROPE_FILE, `expected ${expected}`);
/** Reads what `preRopeFile` writes. @throws KvError for any other bytes. */
export function readPreRope(file: Uint8Array): Statistics & Heads {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength), size = file.length >= LENGTH ? Number(view.getBigUint64(0, true)) : Infinity;
  if (!(size <= Math.min(file.length - LENGTH, 65_536))) throw refuse(`a safetensors file with a header of at most 64 KiB, got ${file.length} bytes`);
  let header: unknown;
  try { header = JSON.parse(new TextDecoder().decode(file.subarray(LENGTH, LENGTH + size))); } catch { throw refuse('a header of JSON'); }
  const data = file.length - LENGTH - size, of = (x: unknown, key: string): unknown => (typeof x === 'object' && x !== null ? (x as Readonly<Record<string, unknown>>)[key] : undefined);
  const tensor = (name: string): { readonly shape: readonly [number, number, number]; readonly values: Float32Array } => {
    const entry = of(header, name), shape = of(entry, 'shape'), offsets = of(entry, 'data_offsets');
    const whole = (list: unknown, length: number): list is number[] => Array.isArray(list) && list.length === length && list.every((x) => Number.isSafeInteger(x) && x >= 0);
    if (of(entry, 'dtype') !== 'F32' || !whole(shape, 3) || !whole(offsets, 2) || offsets[1]! - offsets[0]! !== 4 * shape[0]! * shape[1]! * shape[2]! || offsets[1]! > data) throw refuse(`'${name}' as f32 [layers, heads, channels] inside the file`);
    const values = Float32Array.from({ length: (offsets[1]! - offsets[0]!) / 4 }, (_, i) => view.getFloat32(LENGTH + size + offsets[0]! + 4 * i, true));
    if (!values.every(Number.isFinite)) throw refuse(`finite numbers in '${name}'`);
    return { shape: shape as [number, number, number], values };
  };
  const mean = tensor('mean'), sizes = tensor('size'), [L, H, d] = mean.shape, half = sizes.shape[2];
  if (sizes.shape[0] !== L || sizes.shape[1] !== H || 2 * half > d) throw refuse(`sizes of ${L} layers, ${H} heads and at most ${Math.floor(d / 2)} pairs, got [${sizes.shape.join(', ')}]`);
  const rows = Array.from({ length: L }, (_, l): PreRope => ({ mean: mean.values.slice(l * H * d, (l + 1) * H * d), size: sizes.values.slice(l * H * half, (l + 1) * H * half), half }));
  return { tokens: Number(of(of(header, '__metadata__'), 'tokens')) || 0, rows, queryHeads: H, headDim: d };
}

const parsed = new WeakMap<Uint8Array, Statistics & Heads>();
/**
 * Statistics of a layer's queries before rotation, from `pre-rope.safetensors` beside the model.
 *
 * @throws KvError where the file is missing, or is of another model.
 */
export const preRope: Signal<'preRope', PreRope & Heads> = {
  id: 'preRope', as: 'preRope', cost: 'artifact',
  provide: async (engine, layer) => {
    const file = await engine.artifact(PRE_ROPE_FILE);
    if (!file) throw new KvError('triattention', `expected ${PRE_ROPE_FILE} beside the model, got none: make it with 'node tools/calibrate.mjs MODEL'`);
    const all = parsed.get(file) ?? readPreRope(file), row = all.rows[layer];
    parsed.set(file, all);
    if (!row) throw refuse(`statistics of layer ${layer}, got ${all.rows.length} layers: they are of another model`);
    return { ...row, queryHeads: all.queryHeads, headDim: all.headDim };
  },
};
