import type { ModelConfig } from '@kv/checkpoints';
import { BLOCK, storedForms, type RowForm } from '../cache/form.ts';
import { recordBytes } from '../cache/records.ts';
import { joinedHeads } from '../decoder/keeps.ts';
import { stateRows } from '../host/store.ts';
import type { SavedManifest, SavedState } from './manifest.ts';

/** The parts of a model's shape that its cache depends on. */
export interface CacheShape {
  readonly mixers: ModelConfig['mixers'];
  readonly queryHeads: number;
  readonly vocab: number;
}

/** Types of numbers in the file, and their bytes. */
const typeBytes = { F32: 4, U32: 4, F16: 2, I8: 1, U8: 1 } as const;
export type SavedType = keyof typeof typeBytes;

/** One tensor of the file. */
export interface SavedTensor {
  readonly name: string;
  readonly dtype: SavedType;
  readonly shape: readonly number[];
}

const sum = (list: readonly number[]): number => list.reduce((a, b) => a + b, 0);

/** Returns the tensors of a file with this manifest, in the order of their bytes. The file may hold nothing else. */
export function layoutOf(
  { form, tokens, logits, shift, layers, carried = [], states }: SavedManifest,
  shape: CacheShape,
): readonly SavedTensor[] {
  const { vocab } = shape,
    heads = joinedHeads(shape),
    rebased = shift !== null,
    out: SavedTensor[] = [];
  const add = (dtype: SavedTensor['dtype'], name: string, ...size: number[]): void => {
    out.push({ name, dtype, shape: size });
  };
  const addStates = (list: readonly SavedState[], at: string, of: Parameters<typeof stateRows>[1]): void =>
    list.forEach(({ spec, columns }, i) => add('F32', `${at}states.${i}`, stateRows(spec, of), columns));
  add('U32', 'tokens', tokens);
  add('F32', 'logits', logits, vocab);
  for (const [l, { lengths, ring, accumulated, block, states: own, levels, biases, event }] of layers.entries()) {
    const { queryHeads: H, kvHeads: G, headDim: d } = heads[l],
      at = `layers.${l}.`,
      slots = sum(lengths),
      longest = Math.max(0, ...lengths);
    if (levels) {
      add('U32', `${at}levels`, slots);
      add('U8', `${at}records`, sum(levels.map((count, level) => count * recordBytes(level, d))));
    }
    for (const part of levels ? [] : (['keys', 'values'] as const))
      for (const { name, dtype, width } of rowTensors[storedForms[form][part]](d))
        add(dtype, `${at}${part}${name}`, slots, width);
    add('U32', `${at}positions`, slots);
    if (rebased) add('U32', `${at}rotations`, slots);
    if (biases) add('F32', `${at}biases`, slots);
    if (ring) add('F32', `${at}ring.queries`, ring.window, H, d);
    if (ring) add('U32', `${at}ring.positions`, ring.window);
    if (ring && rebased) add('U32', `${at}ring.rotations`, ring.window, H);
    if (accumulated) add('F32', `${at}accumulated`, accumulated === 'kv' ? G : H, longest);
    if (block) add('F32', `${at}block`, H, longest);
    addStates(own, at, heads[l]);
    if (event) add('U32', `${at}kept`, sum(event.kept));
  }
  carried.forEach((numbers, i) => add('F32', `carried.${i}`, numbers));
  addStates(states, '', { queryHeads: 1, kvHeads: 1 }); // of rows `model`
  return out;
}

/** The tensors of a row of each form: codes, then scales, if it has any. */
const rowTensors: Readonly<
  Record<
    RowForm,
    (d: number) => readonly { readonly name: string; readonly dtype: SavedType; readonly width: number }[]
  >
> = {
  f32: (d) => [{ name: '', dtype: 'F32', width: d }],
  f16: (d) => [{ name: '', dtype: 'F16', width: d }],
  q8: (d) => [
    { name: '', dtype: 'I8', width: d },
    { name: '.scales', dtype: 'F32', width: 1 },
  ],
  // a scale and a minimum for every block
  q4: (d) => [
    { name: '', dtype: 'U8', width: d / 2 },
    { name: '.scales', dtype: 'F16', width: (2 * d) / BLOCK },
  ],
};

/** Returns the bytes of a tensor. */
export const bytesOf = ({ dtype, shape }: SavedTensor): number =>
  shape.reduce((product, n) => product * n, typeBytes[dtype]);

/**
 * Returns the header of a safetensors file of these tensors, padded to eight bytes; a manifest determines exactly one.
 */
export function headerOf(manifest: SavedManifest, tensors: readonly SavedTensor[]): Uint8Array {
  // version 1 does not name its form
  const written = manifest.version === 1 ? { ...manifest, form: undefined } : manifest,
    header: Record<string, unknown> = { __metadata__: { format: 'kv-cache', kv: JSON.stringify(written) } };
  let at = 0;
  for (const tensor of tensors)
    header[tensor.name] = { dtype: tensor.dtype, shape: tensor.shape, data_offsets: [at, (at += bytesOf(tensor))] };
  const bytes = new TextEncoder().encode(JSON.stringify(header));
  const padded = new Uint8Array(8 * Math.ceil(bytes.length / 8)).fill(0x20);
  padded.set(bytes);
  return padded;
}
