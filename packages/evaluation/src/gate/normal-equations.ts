import { kernel } from '@kv/core';
import type { Backend } from '@kv/core';

/** Products of every two columns of x `[m, D]`, summed over rows in f32: `[D, D]`. */
export const columnProducts = kernel({
  id: 'column-products',
  inputs: { x: 'f32' },
  output: { shape: ({ x: [, D = 0] }) => [D, D] },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let D = x_shape.y; let a = index / D; let b = index % D;
  var sum = 0.0;
  for (var r = 0u; r < x_shape.x; r++) { sum += x[r * D + a] * x[r * D + b]; }
  output[index] = sum;
}`,
  operations: ({
    x: {
      shape: [m = 0, D = 0],
    },
  }) => 2 * m * D * D,
  ref({ x: { data, shape } }, _, out, __, products) {
    const [m = 0, D = 0] = shape,
      columns = new Float32Array(m * D);
    for (let r = 0; r < m; r++) for (let c = 0; c < D; c++) columns[c * m + r] = data[r * D + c];
    products.multiply(columns, columns, m, out as Float32Array);
  },
});

/** Rows whose products are summed in f32 before they join the sums in f64. */
export const TOGETHER = 256;

/** Sums of a linear regression of several targets on the same inputs; their size does not grow with the rows. */
export class NormalEquations {
  readonly #width: number;
  readonly #targets: number;
  readonly #backend: Backend;
  /** Σ x xᵀ `[D, D]`, Σ x, Σ y xᵀ `[G, D]`, Σ y. */
  readonly #xx: Float64Array;
  readonly #x: Float64Array;
  readonly #yx: Float64Array;
  readonly #y: Float64Array;
  #rows = 0;

  /** @param backend computes the products */
  constructor(width: number, targets: number, backend: Backend) {
    [this.#width, this.#targets, this.#backend] = [width, targets, backend];
    this.#xx = new Float64Array(width * width);
    this.#x = new Float64Array(width);
    this.#yx = new Float64Array(targets * width);
    this.#y = new Float64Array(targets);
  }

  /** Adds inputs `[m, D]` with their targets `[G, m]`. */
  async add(inputs: Float32Array, targets: readonly ArrayLike<number>[]): Promise<void> {
    const D = this.#width,
      m = inputs.length / D;
    for (let from = 0; from < m; from += TOGETHER)
      await this.#addFew(
        inputs.subarray(from * D, Math.min(m, from + TOGETHER) * D),
        targets.map((row) => Array.from(row).slice(from, from + TOGETHER)),
      );
  }

  async #addFew(inputs: Float32Array, targets: readonly (readonly number[])[]): Promise<void> {
    const D = this.#width,
      m = inputs.length / D,
      { ops } = this.#backend,
      [{ data }] = await this.#backend.read([
        ops.kernel(columnProducts, { x: ops.from({ data: inputs, shape: [m, D] }) }),
      ]);
    for (let i = 0; i < data.length; i++) this.#xx[i] += data[i];
    for (let r = 0; r < m; r++)
      for (let c = 0; c < D; c++) {
        const x = inputs[r * D + c];
        this.#x[c] += x;
        for (let g = 0; g < this.#targets; g++) this.#yx[g * D + c] += targets[g][r] * x;
      }
    targets.forEach((row, g) => {
      for (const y of row) this.#y[g] += y;
    });
    this.#rows += m;
  }

  /**
   * Returns weights W `[G, D]` and bias `[G]` that minimise Σ |y - W x - b|² + alpha |W|². The bias is not penalised: W
   * solves the equations of x and y less their means.
   */
  solve(alpha: number): { readonly weight: Float32Array; readonly bias: Float32Array } {
    const D = this.#width,
      n = Math.max(1, this.#rows),
      means = this.#x.map((sum) => sum / n),
      // the lower triangle alone is read
      matrix = Float64Array.from(
        this.#xx,
        (sum, i) => sum - n * means[Math.floor(i / D)] * means[i % D] + (i % (D + 1) === 0 ? alpha : 0),
      ),
      lower = cholesky(matrix, D),
      weight = new Float32Array(this.#targets * D),
      bias = new Float32Array(this.#targets);
    for (let g = 0; g < this.#targets; g++) {
      const y = this.#y[g] / n,
        w = solveLower(
          lower,
          D,
          this.#yx.subarray(g * D, (g + 1) * D).map((sum, c) => sum - n * y * means[c]),
        );
      weight.set(w, g * D);
      bias[g] = y - w.reduce((sum, x, c) => sum + x * means[c], 0);
    }
    return { weight, bias };
  }
}

/** Replaces the lower triangle of a positive definite matrix `[d, d]` by L with L Lᵀ = A. */
function cholesky(a: Float64Array, d: number): Float64Array {
  for (let i = 0; i < d; i++)
    for (let j = 0; j <= i; j++) {
      let sum = a[i * d + j];
      for (let k = 0; k < j; k++) sum -= a[i * d + k] * a[j * d + k];
      // rounding may leave a pivot at 0 where inputs are collinear and alpha is small
      a[i * d + j] = i === j ? Math.sqrt(Math.max(sum, Number.EPSILON)) : sum / a[j * d + j];
    }
  return a;
}

/** Returns x with L Lᵀ x = b. */
function solveLower(lower: Float64Array, d: number, b: Float64Array): Float64Array {
  for (let i = 0; i < d; i++) {
    for (let k = 0; k < i; k++) b[i] -= lower[i * d + k] * b[k];
    b[i] /= lower[i * d + i];
  }
  for (let i = d - 1; i >= 0; i--) {
    for (let k = i + 1; k < d; k++) b[i] -= lower[k * d + i] * b[k];
    b[i] /= lower[i * d + i];
  }
  return b;
}
