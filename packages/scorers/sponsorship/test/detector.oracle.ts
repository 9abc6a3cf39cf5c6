/**
 * f(h) = σ(W2 GELU(W1 h)) in float64, GELU(x) = x Φ(x), Φ by the logistic function of 2 sqrt(2 / π) (x + 0.044715 x³).
 */
export function confidenceOracle(
  first: readonly (readonly number[])[],
  second: readonly number[],
  h: readonly number[],
): number {
  const hidden = first.map((row) => row.reduce((sum, w, c) => sum + w * h[c], 0));
  const phi = hidden.map((x) => {
    const e = Math.exp(2 * Math.sqrt(2 / Math.PI) * (x + 0.044715 * x * x * x));
    return e === Infinity ? 1 : e / (1 + e);
  }); // (1 + tanh y) / 2 = e^2y / (1 + e^2y)
  const z = hidden.reduce((sum, x, u) => sum + second[u] * x * phi[u], 0);
  return z >= 0 ? 1 / (1 + Math.exp(-z)) : Math.exp(z) / (1 + Math.exp(z));
}
