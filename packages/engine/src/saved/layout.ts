import { stateRows } from '../host/store.ts';
import type { SavedManifest, SavedState } from './manifest.ts';

/** The parts of a model's shape that its cache depends on. */
export interface CacheShape {
  readonly layers: number;
  readonly queryHeads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly vocab: number;
}

/** One tensor of the file. */
export interface SavedTensor {
  readonly name: string;
  readonly dtype: 'F32' | 'U32';
  readonly shape: readonly number[];
}

const sum = (list: readonly number[]): number => list.reduce((a, b) => a + b, 0);

/** Returns the tensors of a file with this manifest, in the order of their bytes. The file may hold nothing else. */
export function layoutOf(
  { tokens, logits, shift, layers, states }: SavedManifest,
  shape: CacheShape,
): readonly SavedTensor[] {
  const { queryHeads: H, kvHeads: G, headDim: d, vocab } = shape,
    rebased = shift !== null,
    out: SavedTensor[] = [];
  const add = (dtype: SavedTensor['dtype'], name: string, ...size: number[]): void => {
    out.push({ name, dtype, shape: size });
  };
  const addStates = (list: readonly SavedState[], at: string): void =>
    list.forEach(({ spec, columns }, i) => add('F32', `${at}states.${i}`, stateRows(spec, shape), columns));
  add('U32', 'tokens', tokens);
  add('F32', 'logits', logits, vocab);
  for (const [l, { lengths, ring, accumulated, block, states: own, event }] of layers.entries()) {
    const at = `layers.${l}.`,
      slots = sum(lengths),
      longest = Math.max(0, ...lengths);
    add('F32', `${at}keys`, slots, d);
    add('F32', `${at}values`, slots, d);
    add('U32', `${at}positions`, slots);
    if (rebased) add('U32', `${at}rotations`, slots);
    if (ring) add('F32', `${at}ring.queries`, ring.window, H, d);
    if (ring) add('U32', `${at}ring.positions`, ring.window);
    if (ring && rebased) add('U32', `${at}ring.rotations`, ring.window, H);
    if (accumulated) add('F32', `${at}accumulated`, accumulated === 'kv' ? G : H, longest);
    if (block) add('F32', `${at}block`, H, longest);
    addStates(own, at);
    if (event) add('U32', `${at}kept`, sum(event.kept));
  }
  addStates(states, '');
  return out;
}

/** Returns the bytes of a tensor; all types have four bytes per number. */
export const bytesOf = ({ shape }: SavedTensor): number => shape.reduce((product, n) => product * n, 4);

/**
 * Returns the header of a safetensors file of these tensors, padded to eight bytes; a manifest determines exactly one.
 */
export function headerOf(manifest: SavedManifest, tensors: readonly SavedTensor[]): Uint8Array {
  const header: Record<string, unknown> = { __metadata__: { format: 'kv-cache', kv: JSON.stringify(manifest) } };
  let at = 0;
  for (const tensor of tensors)
    header[tensor.name] = { dtype: tensor.dtype, shape: tensor.shape, data_offsets: [at, (at += bytesOf(tensor))] };
  const bytes = new TextEncoder().encode(JSON.stringify(header));
  const padded = new Uint8Array(8 * Math.ceil(bytes.length / 8)).fill(0x20);
  padded.set(bytes);
  return padded;
}
