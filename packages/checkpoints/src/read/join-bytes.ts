/** Concatenates bytes. */
export const joinedBytes = (parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> =>
  filled(new Uint8Array(lengthOf(parts)), parts);

/** Concatenates f32 arrays; a single array is returned as it is. */
export const concatArrays = (parts: readonly Float32Array[]): Float32Array =>
  parts.length === 1 ? parts[0] : filled(new Float32Array(lengthOf(parts)), parts);

const lengthOf = (parts: readonly { readonly length: number }[]): number =>
  parts.reduce((sum, { length }) => sum + length, 0);

function filled<T extends { set(part: ArrayLike<number>, at: number): void }>(
  all: T,
  parts: readonly ArrayLike<number>[],
): T {
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
