import type { ExpertActivation } from '@kv/checkpoints';

/** Gate activations: x / (1 + e^-x), and the tanh form of GELU (arXiv 1606.08415). */
export const activations = {
  silu: (x: number): number => x / (1 + Math.exp(-x)),
  gelu: (x: number): number => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
} as const;

/** What gate and up become, in f64; `clamped` is gpt-oss's. */
const gatings: Readonly<Record<ExpertActivation, (gate: number, up: number) => number>> = {
  silu: (gate, up) => activations.silu(gate) * up,
  gelu: (gate, up) => activations.gelu(gate) * up,
  clamped(gate, up) {
    const g = Math.min(gate, 7);
    return (Math.min(Math.max(up, -7), 7) + 1) * (g / (1 + Math.exp(-1.702 * g)));
  },
};

/** Returns activation(gate) * up, in f64, of rows `[gate | up]`: f32 `[rows, 2 * ffn]` to a new `[rows, ffn]`. */
export function gatedActivation(activation: ExpertActivation, gateUp: Float32Array, ffn: number): Float32Array {
  const rows = gateUp.length / (2 * ffn),
    act = gatings[activation],
    out = new Float32Array(rows * ffn);
  for (let r = 0; r < rows; r++)
    for (let i = 0; i < ffn; i++) out[r * ffn + i] = act(gateUp[2 * r * ffn + i], gateUp[(2 * r + 1) * ffn + i]);
  return out;
}
