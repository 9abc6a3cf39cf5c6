/** Gate activations: x / (1 + e^-x), and the tanh form of GELU (arXiv 1606.08415). */
export const activations = {
  silu: (x: number): number => x / (1 + Math.exp(-x)),
  gelu: (x: number): number => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
} as const;

/** Returns activation(gate) * up, in f64, of rows `[gate | up]`: f32 `[rows, 2 * ffn]` to a new `[rows, ffn]`. */
export function gatedActivation(activation: keyof typeof activations, gateUp: Float32Array, ffn: number): Float32Array {
  const rows = gateUp.length / (2 * ffn),
    act = activations[activation],
    out = new Float32Array(rows * ffn);
  for (let r = 0; r < rows; r++)
    for (let i = 0; i < ffn; i++) out[r * ffn + i] = act(gateUp[2 * r * ffn + i]) * gateUp[(2 * r + 1) * ffn + i];
  return out;
}
