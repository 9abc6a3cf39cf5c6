/** Rows `[m, width]` as tables, in float64. */
export type Table = readonly (readonly number[])[];

/** The rows of a view. */
export const viewed = (data: ArrayLike<number>, m: number, at: number, stride: number, width: number): Table =>
  Array.from({ length: m }, (_, r) => Array.from({ length: width }, (_, i) => data[at + r * stride + i]));

/** x / sqrt(mean(x²) + eps) * gain for every run of `gain.length`. */
export const normed = (x: Table, gain: ArrayLike<number>, eps: number): Table =>
  x.map((row) =>
    row.map((v, c) => {
      const size = gain.length,
        first = c - (c % size);
      let sum = 0;
      for (let i = 0; i < size; i++) sum += row[first + i] ** 2;
      return (v / Math.sqrt(sum / size + eps)) * gain[c % size];
    }),
  );

/** The two products of which a turned number is the sum; the second is 0 where nothing turns. */
export const turnedParts = (
  x: Table,
  size: number,
  rotary: number,
  cos: ArrayLike<number>,
  sin: ArrayLike<number>,
): readonly (readonly (readonly [number, number])[])[] =>
  x.map((row, r) =>
    row.map((v, c): [number, number] => {
      const i = c % size,
        half = rotary / 2;
      if (i >= rotary) return [v, 0];
      const at = r * half + (i % half);
      return [v * cos[at], i < half ? -row[c + half] * sin[at] : row[c - half] * sin[at]];
    }),
  );

/** `[m, H * size]` to `[H, m, size]`. */
export const inHeads = (x: Table, size: number): number[] =>
  Array.from({ length: (x[0]?.length ?? 0) / size }, (_, h) =>
    x.flatMap((row) => row.slice(h * size, (h + 1) * size)),
  ).flat();

export const silu = (x: number): number => x / (1 + Math.exp(-x));
export const gelu = (x: number): number => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));
