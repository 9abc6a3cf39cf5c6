/** Shape and constants of a gated delta rule, as its paper (arXiv 2412.06464) and transformers' Qwen 3.5 have them. */
export interface OracleDelta {
  readonly keyHeads: number;
  readonly valueHeads: number;
  readonly keyDim: number;
  readonly valueDim: number;
  readonly eps: number;
  /** `[channel][tap]`; the last tap is of the token itself. */
  readonly kernel: readonly (readonly number[])[];
  readonly decay: readonly number[];
  readonly timeBias: readonly number[];
  readonly gain: readonly number[];
  keyHeadOf(valueHead: number): number;
}

const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0),
  sigmoid = (x: number): number => 1 / (1 + Math.exp(-x)),
  silu = (x: number): number => x * sigmoid(x);

/**
 * Returns what a gated delta rule makes of whole rows `[q | k | v | z | b | a]`, in float64 and all tokens at once: the
 * memory is not carried on but written out, as the sum of what every earlier token added to it times what decayed and
 * erased it since. Shares no code with the engine.
 */
export function deltaOracle(rows: readonly (readonly number[])[], rule: OracleDelta): number[][] {
  const { keyHeads, valueHeads, keyDim: n, valueDim: d } = rule,
    channels = rule.kernel.length,
    z = channels,
    b = z + valueHeads * d,
    a = b + valueHeads,
    mixed = rows.map((_, t) =>
      rule.kernel.map((taps, c) => silu(sum(taps.map((tap, j) => tap * (rows[t + 1 + j - taps.length]?.[c] ?? 0))))),
    ),
    unit = (x: readonly number[]): number[] => x.map((v) => v / Math.sqrt(sum(x.map((w) => w * w)) + 1e-6));
  return rows.map((row, t) =>
    Array.from({ length: valueHeads }, (_, h) => {
      const of = (at: number, first: number): number[] => mixed[at].slice(first, first + n),
        key = rule.keyHeadOf(h) * n,
        keys = rows.map((_, i) => unit(of(i, keyHeads * n + key))),
        beta = rows.map((at) => sigmoid(at[b + h])),
        g = rows.map((at) => Math.exp(rule.decay[h] * Math.log1p(Math.exp(at[a + h] + rule.timeBias[h]))));
      // what reads the memory after token t, taken back through the tokens: (I - beta k kᵀ) g of each
      let read = unit(of(t, key)).map((x) => x / Math.sqrt(n));
      const o = new Array<number>(d).fill(0);
      for (let i = t; i >= 0; i--) {
        const overlap = sum(read.map((x, c) => x * keys[i][c]));
        for (let j = 0; j < d; j++) o[j] += overlap * beta[i] * mixed[i][2 * keyHeads * n + h * d + j];
        read = read.map((x, c) => g[i] * (x - beta[i] * overlap * keys[i][c]));
      }
      const size = Math.sqrt(sum(o.map((x) => x * x)) / d + rule.eps);
      return o.map((x, j) => (x / size) * rule.gain[j] * silu(row[z + h * d + j]));
    }).flat(),
  );
}
