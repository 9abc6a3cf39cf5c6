/** One head's reference: exponentials of all slots `[m][n]`, masses of sinks `[m]`, values `[n][d]`, and the kept slots. */
export interface FitCase {
  readonly e: readonly (readonly number[])[];
  readonly sink: readonly number[];
  readonly values: readonly (readonly number[])[];
  readonly kept: readonly number[];
}

const product = (a: readonly number[], b: readonly number[]): number => a.reduce((sum, x, i) => sum + x * b[i], 0);

/** Solves A x = b by elimination with pivots. */
function solve(A: readonly (readonly number[])[], b: readonly number[]): number[] {
  const n = b.length,
    rows = A.map((row, i) => [...row, b[i]]);
  for (let k = 0; k < n; k++) {
    let best = k;
    for (let i = k; i < n; i++) if (Math.abs(rows[i][k]) > Math.abs(rows[best][k])) best = i;
    [rows[k], rows[best]] = [rows[best], rows[k]];
    for (let i = 0; i < n; i++) {
      if (i === k) continue;
      const f = rows[i][k] / rows[k][k];
      for (let j = k; j <= n; j++) rows[i][j] -= f * rows[k][j];
    }
  }
  return rows.map((row, k) => row[n] / row[k]);
}

/**
 * The change of x that minimises |X (x0 + change) - want|² + λ |change|², by the normal equations over slots; λ is `ridge`
 * times the mean squared length of a query's row.
 */
function ridgeChange(X: readonly (readonly number[])[], missing: readonly number[], ridge: number): number[] {
  const t = X[0]?.length ?? 0,
    lambda = (ridge * X.reduce((sum, row) => sum + product(row, row), 0)) / X.length + 1e-30,
    column = (j: number): number[] => X.map((row) => row[j]);
  return solve(
    Array.from({ length: t }, (_, j) =>
      Array.from({ length: t }, (_, k) => product(column(j), column(k)) + (j === k ? lambda : 0)),
    ),
    Array.from({ length: t }, (_, j) => product(column(j), missing)),
  );
}

/** Attention Matching in float64: factors and values of the kept slots of one head, by plain loops. */
export function fitOracle(
  { e, sink, values, kept }: FitCase,
  { ridge, bound }: { readonly ridge: number; readonly bound: number },
): { readonly factors: readonly number[]; readonly values: readonly (readonly number[])[] } {
  const E = e.map((row) => kept.map((j) => row[j])),
    y = e.map((row) => row.reduce((a, b) => a + b, 0)),
    ones = kept.map(() => 1),
    error = (B: readonly number[]): number[] => E.map((row, i) => product(row, B) - y[i]),
    size = (x: readonly number[]): number => product(x, x),
    within = (x: number): number => Math.min(Math.exp(bound), Math.max(Math.exp(-bound), x));
  let B = ridgeChange(
    E,
    error(ones).map((x) => -x),
    ridge,
  ).map((x) => within(1 + x));
  const steepest = Math.max(...kept.map((_, j) => E.reduce((sum, row) => sum + row[j] * product(row, ones), 0)));
  for (let step = 0; step < 2; step++) {
    const left = error(B);
    B = B.map((b, j) =>
      within(
        b -
          product(
            E.map((row) => row[j]),
            left,
          ) /
            steepest,
      ),
    );
  }
  if (size(error(B)) > size(error(ones))) B = ones;
  const weigh = (rows: readonly (readonly number[])[]): number[][] =>
      rows.map((row, i) => {
        const total = row.reduce((a, b) => a + b, 0) + sink[i];
        return row.map((x) => x / total);
      }),
    all = weigh(e),
    X = weigh(E.map((row) => row.map((x, j) => x * B[j])));
  const fitted = kept.map((j) => [...values[j]]);
  for (let c = 0; c < (values[0]?.length ?? 0); c++) {
    const missing = all.map(
      (row, i) =>
        product(
          row,
          values.map((v) => v[c]),
        ) -
        product(
          X[i],
          kept.map((j) => values[j][c]),
        ),
    );
    ridgeChange(X, missing, ridge).forEach((x, i) => {
      fitted[i][c] += x;
    });
  }
  return { factors: B, values: fitted };
}
