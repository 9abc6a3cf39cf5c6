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
  /** B (0) or C (1) of every token, by group. */
  const [B, C] = [0, 1].map((which) =>
    Array.from({ length: groups }, (_, g) =>
      mixed.map((all) => all.slice(inner + (which * groups + g) * n, inner + (which * groups + g + 1) * n)),
    ),
  );
  const steps = Array.from({ length: heads }, (_, h) =>
    rows.map((row) => {
      const softplus = Math.log1p(Math.exp(row[inner + kernel.length + h] + rule.timeBias[h]));
      return Math.min(Math.max(softplus, timeStep[0]), timeStep[1]);
    }),
  );
  return rows.map((row, t) =>
    Array.from({ length: heads }, (_, h) => {
      const group = Math.floor(h / (heads / groups)),
        own = mixed[t].slice(h * d, (h + 1) * d),
        y = own.map((x) => rule.skip[h] * x);
      let since = 0; // time since token i
      for (let i = t; i >= 0; since += steps[h][i--]) {
        const overlap = B[group][i].reduce((all, b, c) => all + b * C[group][t][c], 0),
          weight = overlap * steps[h][i] * Math.exp(rule.decay[h] * since);
        for (let j = 0; j < d; j++) y[j] += weight * mixed[i][h * d + j];
      }
      return y.map((v, j) => v * silu(row[h * d + j]));
    }).flat(),
  );
}
