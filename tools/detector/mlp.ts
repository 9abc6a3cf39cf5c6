import type { Random } from '@kv/tasks';

/** Rows `[n, width]` with their labels: 1 for an anchor, else 0. */
export interface Examples {
  readonly width: number;
  readonly rows: Float32Array;
  readonly labels: Uint8Array;
}
export interface TrainOptions {
  readonly units: number;
  readonly epochs: number;
  readonly batch: number;
  readonly rate: number;
  readonly decay: number;
  readonly random: Random;
  onEpoch?(epoch: number, loss: number): void;
}
/** W1 `[units, width]` and W2 `[units]`. */
export interface Mlp {
  readonly first: Float64Array;
  readonly second: Float64Array;
}

const C = Math.sqrt(2 / Math.PI);
/** An output this close to its label gives no gradient. */
const RIGHT = 1e-4;

/**
 * Trains σ(W2 GELU(W1 h)) by AdamW on the mean binary cross-entropy, with a linear decay of the rate to 0; in float64.
 */
export function train(
  { width, rows, labels }: Examples,
  { units, epochs, batch, rate, decay, random, onEpoch }: TrainOptions,
): Mlp {
  const n = labels.length,
    normal = (): number => Math.sqrt(-2 * Math.log(1 - random.next())) * Math.cos(2 * Math.PI * random.next());
  // rows are divided by it, and W1 at the end
  const scale = Math.sqrt(rows.reduce((s, x) => s + x * x, 0) / Math.max(1, rows.length));
  const first = Float64Array.from({ length: units * width }, () => normal() / Math.sqrt(width)),
    second = Float64Array.from({ length: units }, () => normal() / Math.sqrt(units));
  const [firstGrad, secondGrad] = [new Float64Array(first.length), new Float64Array(units)],
    steps = epochs * Math.ceil(n / batch);
  const update = [adam(first, firstGrad, decay), adam(second, secondGrad, decay)],
    h = new Float64Array(width),
    a = new Float64Array(units),
    slope = new Float64Array(units);
  for (let epoch = 0, step = 0; epoch < epochs; epoch++) {
    const order = shuffled(n, random);
    let loss = 0;
    for (let from = 0; from < n; from += batch, step++) {
      const some = order.subarray(from, from + batch);
      firstGrad.fill(0);
      secondGrad.fill(0);
      for (const i of some) {
        for (let c = 0; c < width; c++) h[c] = rows[i * width + c] / scale;
        let logit = 0;
        for (let u = 0; u < units; u++) {
          const x = dot(first, u * width, h),
            t = Math.tanh(C * (x + 0.044715 * x ** 3));
          a[u] = 0.5 * x * (1 + t);
          slope[u] = 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * C * (1 + 3 * 0.044715 * x * x);
          logit += second[u] * a[u];
        }
        const off = 1 / (1 + Math.exp(-logit)) - labels[i];
        loss += Math.max(logit, 0) - logit * labels[i] + Math.log1p(Math.exp(-Math.abs(logit)));
        if (Math.abs(off) < RIGHT) continue;
        for (let u = 0; u < units; u++) {
          secondGrad[u] += (off * a[u]) / some.length;
          addTo(firstGrad, u * width, (off * second[u] * slope[u]) / some.length, h);
        }
      }
      for (const one of update) one(rate * (1 - step / steps));
    }
    onEpoch?.(epoch, loss / n);
  }
  return { first: first.map((x) => x / scale), second };
}

/** Returns the inner product of h with `w` from `at` on. */
function dot(w: Float64Array, at: number, h: Float64Array): number {
  let [even, odd] = [0, 0],
    c = 0;
  for (; c + 1 < h.length; c += 2) {
    even += w[at + c] * h[c];
    odd += w[at + c + 1] * h[c + 1];
  }
  return even + odd + (c < h.length ? w[at + c] * h[c] : 0);
}

function addTo(w: Float64Array, at: number, by: number, h: Float64Array): void {
  for (let c = 0; c < h.length; c++) w[at + c] += by * h[c];
}

/** Makes AdamW's step for these weights. */
function adam(weights: Float64Array, grad: Float64Array, decay: number): (rate: number) => void {
  const m = new Float64Array(weights.length),
    v = new Float64Array(weights.length);
  let t = 0;
  return (rate) => {
    t++;
    const [c1, c2] = [1 - 0.9 ** t, 1 - 0.999 ** t];
    for (let i = 0; i < weights.length; i++) {
      m[i] = 0.9 * m[i] + 0.1 * grad[i];
      v[i] = 0.999 * v[i] + 0.001 * grad[i] ** 2;
      weights[i] = weights[i] * (1 - rate * decay) - (rate * (m[i] / c1)) / (Math.sqrt(v[i] / c2) + 1e-8);
    }
  };
}

function shuffled(n: number, random: Random): Uint32Array {
  const order = Uint32Array.from({ length: n }, (_, i) => i);
  for (let i = n - 1; i > 0; i--) {
    const j = random.below(i + 1);
    [order[i], order[j]] = [order[j], order[i]];
  }
  return order;
}
