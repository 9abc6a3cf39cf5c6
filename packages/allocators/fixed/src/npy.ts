import { KvError } from '@kv/core';

const MAGIC = [0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59];

/**
 * Reads the numbers of an .npy file with `axes` axes, little-endian f32 or f64 in row-major order.
 *
 * @throws KvError at `where` for any other bytes, an axis without entries, or a number that is not finite.
 */
export function readNpy(
  where: string,
  file: Uint8Array,
  axes: number,
): { readonly shape: readonly number[]; readonly data: Float64Array } {
  const refuse = (expected: string): KvError => new KvError(where, `expected ${expected}`),
    view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  if (file.length < 12 || !MAGIC.every((byte, i) => file[i] === byte))
    throw refuse(`an .npy file, got ${file.length} bytes of something else`);
  const wide = file[6] > 1,
    start = wide ? 12 : 10,
    size = wide ? view.getUint32(8, true) : view.getUint16(8, true);
  if (size > Math.min(65_536, file.length - start))
    throw refuse(`a header of at most 64 KiB inside the file, got ${size} bytes`);
  const header = new TextDecoder().decode(file.subarray(start, start + size)),
    type = /'descr':\s*'<f([48])'/.exec(header)?.[1],
    shape = (/'shape':\s*\(([\d,\s]*)\)/.exec(header)?.[1] ?? '')
      .split(',')
      .map((x) => x.trim())
      .filter((x) => x !== '')
      .map(Number);
  const count = shape.reduce((a, b) => a * b, 1),
    bytes = Number(type);
  if (
    type === undefined ||
    !/'fortran_order':\s*False/.test(header) ||
    shape.length !== axes ||
    !(count > 0) ||
    count * bytes !== file.length - start - size
  )
    throw refuse(
      `${axes} axes of f32 or f64, row by row and the whole file, got ${JSON.stringify(header.trim().slice(0, 120))}`,
    );
  const data = Float64Array.from({ length: count }, (_, i) =>
    bytes === 4 ? view.getFloat32(start + size + 4 * i, true) : view.getFloat64(start + size + 8 * i, true),
  );
  if (!data.every(Number.isFinite)) throw refuse('finite numbers');
  return { shape, data };
}
