import { deltaChannels, type DeltaWeights, type GatedDelta } from '@kv/checkpoints';
import { exp, sigmoid, silu, softplus, squares } from './f32.ts';
import { activatedColumn, takeUp } from './memory.ts';
import { tapByTap } from './short-convolution.ts';

/** The constants of a layer's gated delta rule. */
export interface DeltaRule extends Pick<GatedDelta, 'keyHeads' | 'valueHeads' | 'keyDim' | 'valueDim'> {
  /** Tokens L that its convolution spans, the newest included. */
  readonly length: number;
  /** Channels of q, k and v together. */
  readonly channels: number;
  /** `[L, channels]`; the last row is of the token itself. */
  readonly taps: Float32Array;
  /** `[channels]` of zeros, that of its convolution. */
  readonly bias: Float32Array;
  /** `[valueHeads]` */
  readonly decay: Float32Array;
  readonly timeBias: Float32Array;
  /** `[valueDim]`, of the norm of each value head. */
  readonly gain: Float32Array;
  /** Added to the mean square inside that norm. */
  readonly eps: number;
  /** Which key head a value head reads, see `DeltaWeights`. */
  readonly keyHeadOf: DeltaWeights['keyHeadOf'];
}

/** Returns the constants of a layer's gated delta rule. */
export function deltaRule(
  { kernel, decay, timeBias, gain, keyHeadOf }: DeltaWeights,
  mixer: GatedDelta,
  eps: number,
): DeltaRule {
  const { keyHeads, valueHeads, keyDim, valueDim, kernel: length } = mixer,
    channels = deltaChannels(mixer);
  return {
    ...{ keyHeads, valueHeads, keyDim, valueDim, length, channels, eps, keyHeadOf },
    taps: tapByTap(kernel, channels),
    bias: new Float32Array(channels),
    decay: decay.slice(),
    timeBias: timeBias.slice(),
    gain: gain.slice(),
  };
}

/** Added to the sum of squares of a head of q or k before its root. */
const DELTA_EPS = 1e-6;

/**
 * Computes a gated delta rule of rows `[q | k | v | z | b | a]`, one token after the other. Each value head has a memory S,
 * `[keyDim, valueDim]`, which a token decays, corrects and reads, as `GatedDelta` of @kv/checkpoints writes it:
 *
 *     S *= g;  S += k (beta * (v - S^T k))^T;  o = S^T q
 *
 * Each product and sum is rounded to f32, in this order, so that a token's result does not depend on how tokens are
 * divided into blocks, nor on who computes it.
 *
 * @param state columns `[L - 1, channels]` of the last tokens, oldest first, then S of each value head; replaced by what
 * they are after the last row
 * @returns `[m, valueHeads * valueDim]`, normed and gated
 */
export function gatedDelta(rows: Float32Array, rule: DeltaRule, state: Float32Array): Float32Array {
  const { valueHeads, keyDim, valueDim, channels, length } = rule,
    values = valueHeads * valueDim,
    width = channels + values + 2 * valueHeads,
    m = rows.length / width,
    out = new Float32Array(m * values),
    memories = (length - 1) * channels;
  for (let r = 0; r < m; r++) {
    const row = rows.subarray(r * width, (r + 1) * width),
      mixed = convolved(row, rule, state);
    for (let h = 0; h < valueHeads; h++) {
      const at = memories + h * keyDim * valueDim;
      remember(
        row,
        mixed,
        rule,
        h,
        state.subarray(at, at + keyDim * valueDim),
        out.subarray(r * values + h * valueDim),
      );
    }
  }
  return out;
}

/** Returns `[q | k | v]` after the convolution and SiLU, heads of q and k normed; the token joins the columns. */
function convolved(row: Float32Array, rule: DeltaRule, state: Float32Array): Float32Array {
  const { fround } = Math,
    { keyHeads, keyDim, channels } = rule,
    out = activatedColumn(row.subarray(0, channels), rule, state);
  const scale = fround(1 / Math.sqrt(keyDim));
  for (let h = 0; h < 2 * keyHeads; h++) {
    const at = h * keyDim,
      inverse = fround(1 / fround(Math.sqrt(fround(squares(out, at, keyDim) + fround(DELTA_EPS))))),
      by = h < keyHeads ? fround(inverse * scale) : inverse;
    for (let i = at; i < at + keyDim; i++) out[i] = out[i] * by;
  }
  return out;
}

/** A token's step of value head h: changes its memory, writes the head's result to `out`. */
function remember(
  row: Float32Array,
  mixed: Float32Array,
  { keyHeads, valueHeads, keyDim, valueDim, channels, decay, timeBias, gain, eps, keyHeadOf }: DeltaRule,
  h: number,
  memory: Float32Array,
  out: Float32Array,
): void {
  const { fround } = Math,
    values = valueHeads * valueDim,
    key = keyHeadOf === 'tiled' ? h % keyHeads : Math.floor((h * keyHeads) / valueHeads),
    [q, k] = [key * keyDim, (keyHeads + key) * keyDim],
    [v, z] = [2 * keyHeads * keyDim + h * valueDim, channels + h * valueDim],
    [b, a] = [row[channels + values + h], row[channels + values + valueHeads + h]],
    beta = sigmoid(b),
    g = exp(fround(decay[h] * softplus(fround(a + timeBias[h])))),
    change = new Float32Array(valueDim);
  // S^T k of the decayed memory, which only the second loop writes
  for (let i = 0; i < keyDim; i++)
    for (let j = 0, s = i * valueDim; j < valueDim; j++, s++)
      change[j] = fround(change[j] + fround(memory[s] * mixed[k + i]));
  for (let j = 0; j < valueDim; j++) change[j] = fround(beta * fround(mixed[v + j] - fround(g * change[j])));
  takeUp(memory, g, { k: mixed.subarray(k, k + keyDim), q: mixed.subarray(q, q + keyDim) }, change, out);
  const inverse = fround(1 / fround(Math.sqrt(fround(fround(squares(out, 0, valueDim) / valueDim) + fround(eps)))));
  for (let j = 0; j < valueDim; j++) out[j] = fround(fround(fround(out[j] * inverse) * gain[j]) * silu(row[z + j]));
}
