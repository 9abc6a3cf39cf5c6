import { dense, type Matrix } from '../src/format/matrix.ts';

/** Returns weights that were read, each as numbers. */
export const denseWeights = (read: object): unknown =>
  Object.fromEntries(
    Object.entries(read).map(([name, value]: [string, Float32Array | Matrix | object]) => [
      name,
      value instanceof Float32Array ? value : 'parts' in value ? dense(value) : denseWeights(value),
    ]),
  );
