import { KvError } from '@kv/core';
import { object, notJson } from '@kv/checkpoints';
import { bytesOf, headerOf, layoutOf, type CacheShape, type SavedTensor } from './layout.ts';
import { parseManifest, type SavedManifest } from './manifest.ts';

/** An array of a saved cache; types of fewer than four bytes are bytes. */
export type SavedArray = Float32Array | Uint32Array | Uint8Array;
/** Arrays of a saved cache, by tensor name. */
export type SavedArrays = ReadonlyMap<string, SavedArray>;

/** Maximum header size, bytes. */
const maxHeader = 2 ** 24;

/** Encodes a saved cache as a safetensors file, little-endian. */
export function writeSaved(manifest: SavedManifest, arrays: SavedArrays, shape: CacheShape): Uint8Array {
  const tensors = layoutOf(manifest, shape),
    header = headerOf(manifest, tensors);
  const file = new Uint8Array(8 + header.length + tensors.reduce((total, tensor) => total + bytesOf(tensor), 0));
  new DataView(file.buffer).setBigUint64(0, BigInt(header.length), true);
  file.set(header, 8);
  let at = 8 + header.length;
  for (const tensor of tensors) {
    // saveCache put there all that the manifest names
    const { buffer, byteOffset, byteLength } = arrays.get(tensor.name)!;
    file.set(new Uint8Array(buffer, byteOffset, byteLength), at);
    at += bytesOf(tensor);
  }
  return file;
}

/**
 * Reads a saved cache for a model of this shape. Its header must equal, byte for byte, the one that its manifest
 * determines, which checks offsets, shapes and types. The values are for the caller to check.
 * @throws KvError before anything is allocated by a number of the file
 */
export function readSaved(
  bytes: Uint8Array,
  where: string,
  accept: (manifest: SavedManifest) => CacheShape,
): { readonly manifest: SavedManifest; readonly arrays: SavedArrays } {
  const size = bytes.length < 8 ? 0 : Number(new DataView(bytes.buffer, bytes.byteOffset, 8).getBigUint64(0, true));
  if (size === 0 || size > Math.min(maxHeader, bytes.length - 8))
    throw new KvError(where, `expected a saved cache, got ${bytes.length} bytes with a header of ${size}`);
  const given = bytes.subarray(8, 8 + size),
    manifest = parseManifest(metadata(given, where), where),
    shape = accept(manifest);
  const tensors = layoutOf(manifest, shape),
    header = headerOf(manifest, tensors);
  if (header.length !== size || header.some((byte, i) => byte !== given[i]))
    throw new KvError(
      where,
      'expected the header of a saved cache as kv writes it, got other tensors, shapes or offsets',
    );
  const total = 8 + size + tensors.reduce((sum, tensor) => sum + bytesOf(tensor), 0);
  if (total !== bytes.length)
    throw new KvError(
      where,
      `expected ${total} bytes, got ${bytes.length}: the file is ${bytes.length < total ? 'cut' : 'too long'}`,
    );
  let at = 8 + size;
  return {
    manifest,
    // copies, which slices of Node's buffers are not
    arrays: new Map(
      tensors.map((tensor) => [
        tensor.name,
        array(tensor, new Uint8Array(bytes.subarray(at, (at += bytesOf(tensor))))),
      ]),
    ),
  };
}

function array({ dtype }: SavedTensor, bytes: Uint8Array<ArrayBuffer>): SavedArray {
  if (dtype === 'F32') return new Float32Array(bytes.buffer);
  return dtype === 'U32' ? new Uint32Array(bytes.buffer) : bytes;
}

/** Returns the manifest, not yet validated. */
function metadata(header: Uint8Array, where: string): unknown {
  try {
    const { __metadata__: given } = object(
      JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(header)),
      where,
      'the header',
    );
    return JSON.parse(String(object(given, where, '__metadata__').kv));
  } catch (cause) {
    throw new KvError(
      where,
      `expected a saved cache with a header of JSON, got ${KvError.is(cause) ? 'another file' : notJson(cause)}`,
    );
  }
}
