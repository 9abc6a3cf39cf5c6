/** Shape and constants of a state space, as Mamba-2's paper (arXiv 2405.21060) and transformers' Granite 4.0 have them. */
export interface OracleSpace {
  readonly heads: number;
  readonly headDim: number;
  readonly groups: number;
  readonly stateDim: number;
  /** `[channel][tap]`; the last tap is of the token itself. */
  readonly kernel: readonly (readonly number[])[];
  /** By channel. @defaultValue 0 */
  readonly bias?: readonly number[] | undefined;
  readonly decay: readonly number[];
  readonly timeBias: readonly number[];
  readonly skip: readonly number[];
  readonly timeStep: readonly [least: number, most: number];
}

const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0),
  silu = (x: number): number => x / (1 + Math.exp(-x));

/**
 * Returns what a state space makes of whole rows `[z | x | B | C | dt]`, before its norm, in float64 and all tokens at
 * once: no memory is carried on, every token weighs all earlier ones by C of its own, their B and what has decayed since.
 * Shares no code with the engine.
 */
export function spaceOracle(rows: readonly (readonly number[])[], rule: OracleSpace): number[][] {
  const { heads, headDim: d, groups, stateDim: n, kernel, timeStep } = rule,
    inner = heads * d,
    mixed = rows.map((_, t) =>
      kernel.map((taps, c) =>
        silu(
          sum(taps.map((tap, j) => tap * (rows[t + 1 + j - taps.length]?.[inner + c] ?? 0))) + (rule.bias?.[c] ?? 0),
        ),
      ),
    );
  return rows.map((row, t) =>
    Array.from({ length: heads }, (_, h) => {
      const group = Math.floor(h / (heads / groups)),
        of = (at: number, which: 0 | 1): number[] => {
          const first = inner + (which * groups + group) * n;
          return mixed[at].slice(first, first + n);
        },
        steps = rows.map((at) => {
          const softplus = Math.log1p(Math.exp(at[inner + kernel.length + h] + rule.timeBias[h]));
          return Math.min(Math.max(softplus, timeStep[0]), timeStep[1]);
        }),
        x = (at: number, j: number): number => mixed[at][h * d + j],
        weights = Array.from({ length: t + 1 }, (_, i) => {
          const overlap = sum(of(i, 0).map((b, c) => b * of(t, 1)[c]));
          return overlap * steps[i] * Math.exp(rule.decay[h] * sum(steps.slice(i + 1, t + 1)));
        });
      return Array.from(
        { length: d },
        (_, j) => (sum(weights.map((weight, i) => weight * x(i, j))) + rule.skip[h] * x(t, j)) * silu(row[h * d + j]),
      );
    }).flat(),
  );
}
