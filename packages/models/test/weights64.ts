import { readFileSync } from 'node:fs';
import ndarray from 'ndarray';
import type { Weights64 } from './llama.oracle.ts';

/** Reads an f32 safetensors file as float64 ndarrays, with the oracle's own reader. */
export function weights64(file: string): Weights64 {
  const bytes = readFileSync(file),
    length = Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.toString('utf8', 8, 8 + length)) as Record<
    string,
    { dtype: string; shape: number[]; data_offsets: [number, number] }
  >;
  return Object.fromEntries(
    Object.entries(header)
      .filter(([name]) => name !== '__metadata__')
      .map(
        ([
          name,
          {
            shape,
            data_offsets: [from, to],
          },
        ]) => {
          const data = new Float64Array((to - from) / 4).map((_, i) => bytes.readFloatLE(8 + length + from + 4 * i));
          return [name, ndarray(data, shape)];
        },
      ),
  );
}
