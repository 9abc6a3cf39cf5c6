import type { Routing } from '@kv/checkpoints';
import { sigmoid } from './f32.ts';

/** The experts of rows, `active` of each in the order of their numbers, and their weights. */
export interface ChosenExperts {
  readonly experts: Uint32Array;
  readonly weights: Float32Array;
}

/** Numbers of each expert that a router has besides its product. */
export interface ExpertNumbers {
  /** `[E]`, added to scores for choosing only. */
  readonly selectionBias?: Float32Array;
  /** `[E]`, multiplies the weights of the chosen experts. */
  readonly weightScale?: Float32Array;
}

/**
 * Chooses the experts of m rows by the router's products `[m, E]`: those of the highest scores, to which `selectionBias` is
 * added; of equal scores the lower number. Their weights are the scores, without this bias, divided by their sum if the
 * routing normalises, times its scale and that of each expert. In f64, each row by itself.
 */
export function routeRows(
  products: Float32Array,
  m: number,
  { active, scores, normalised, scale }: Routing,
  { selectionBias, weightScale }: ExpertNumbers = {},
): ChosenExperts {
  const count = products.length / m,
    experts = new Uint32Array(m * active),
    weights = new Float32Array(m * active),
    score = new Float64Array(count);
  for (let r = 0; r < m; r++) {
    const row = products.subarray(r * count, (r + 1) * count);
    if (scores === 'sigmoid') for (let e = 0; e < count; e++) score[e] = 1 / (1 + Math.exp(-row[e]));
    else softmax(row, score);
    const chosen = experts.subarray(r * active, (r + 1) * active);
    highest(score, selectionBias, chosen);
    let sum = scores === 'sigmoid' ? 1e-6 : 0; // as transformers adds it to sigmoids, which may all be small
    for (const expert of chosen) sum += score[expert];
    for (const [i, expert] of chosen.entries())
      weights[r * active + i] = (score[expert] / (normalised ? sum : 1)) * scale * (weightScale?.[expert] ?? 1);
  }
  return { experts, weights };
}

function softmax(row: Float32Array, out: Float64Array): void {
  let [most, sum] = [-Infinity, 0];
  for (const x of row) most = Math.max(most, x);
  for (let e = 0; e < row.length; e++) sum += out[e] = Math.exp(row[e] - most);
  for (let e = 0; e < row.length; e++) out[e] /= sum;
}

/** Sets `chosen` to the numbers of the highest scores, in ascending order. */
function highest(score: Float64Array, bias: Float32Array | undefined, chosen: Uint32Array): void {
  const taken = new Set<number>();
  while (taken.size < chosen.length) {
    let best = -1,
      most = -Infinity;
    for (let e = 0; e < score.length; e++) {
      const s = score[e] + (bias?.[e] ?? 0);
      if (!taken.has(e) && (best < 0 || s > most)) [best, most] = [e, s];
    }
    taken.add(best);
  }
  chosen.set([...taken].sort((a, b) => a - b));
}

/** Rows that chose an expert, in ascending order, and their weights of it. */
export interface ExpertRows {
  readonly expert: number;
  readonly rows: readonly number[];
  readonly weights: readonly number[];
}

/** Groups rows by their experts, in the order of the experts' numbers; experts that no row chose are left out. */
export function rowsByExpert(
  { experts, weights }: ChosenExperts,
  active: number,
  count: number,
): readonly ExpertRows[] {
  const groups = Array.from({ length: count }, (_, expert) => ({
    expert,
    rows: [] as number[],
    weights: [] as number[],
  }));
  for (let i = 0; i < experts.length; i++) {
    const group = groups[experts[i]];
    group.rows.push(Math.floor(i / active));
    group.weights.push(weights[i]);
  }
  return groups.filter(({ rows }) => rows.length > 0);
}

/** Returns these rows of x `[m, width]`. */
export function gatherRows(x: Float32Array, width: number, rows: readonly number[]): Float32Array {
  const out = new Float32Array(rows.length * width);
  for (const [i, r] of rows.entries()) out.set(x.subarray(r * width, (r + 1) * width), i * width);
  return out;
}

/** Returns rows of x, `[m, width]`, times the sigmoid of a gate of each, `[m]`. */
export function gateRows(x: Float32Array, gate: Float32Array): Float32Array {
  const width = x.length / gate.length;
  return x.map((value, i) => value * sigmoid(gate[Math.floor(i / width)]));
}
