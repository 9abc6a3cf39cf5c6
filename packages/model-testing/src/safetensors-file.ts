/** One tensor to write; `values` are bytes of `dtype`. */
export interface TensorBytes {
  readonly dtype: 'F32' | 'F16' | 'BF16' | 'U8';
  readonly shape: readonly number[];
  readonly bytes: Uint8Array;
}

/** Returns a safetensors file of these tensors; `edit` may corrupt the header. */
export function writeSafetensors(
  tensors: Readonly<Record<string, TensorBytes>>,
  edit: (header: Record<string, Record<string, unknown>>) => unknown = (header) => header,
): Uint8Array<ArrayBuffer> {
  const header: Record<string, Record<string, unknown>> = { __metadata__: { format: 'pt' } };
  let at = 0;
  for (const [name, { dtype, shape, bytes }] of Object.entries(tensors))
    header[name] = { dtype, shape, data_offsets: [at, (at += bytes.length)] };
  const json = new TextEncoder().encode(JSON.stringify(edit(header)));
  const file = new Uint8Array(8 + json.length + at);
  new DataView(file.buffer).setBigUint64(0, BigInt(json.length), true);
  file.set(json, 8);
  at = 8 + json.length;
  for (const { bytes } of Object.values(tensors)) {
    file.set(bytes, at);
    at += bytes.length;
  }
  return file;
}

/** Returns the little-endian bytes of f32 values. */
export function f32Bytes(values: ArrayLike<number>): Uint8Array {
  const bytes = new Uint8Array(4 * values.length);
  const view = new DataView(bytes.buffer);
  for (let i = 0; i < values.length; i++) view.setFloat32(4 * i, values[i], true);
  return bytes;
}
