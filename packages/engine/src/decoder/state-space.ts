import { spaceChannels, type SpaceWeights, type StateSpace } from '@kv/checkpoints';
import { exp, silu, softplus } from './f32.ts';
import { activatedColumn, takeUp } from './memory.ts';
import { tapByTap } from './short-convolution.ts';

/** The constants of a layer's state space. */
export interface SpaceRule extends Pick<StateSpace, 'heads' | 'headDim' | 'groups' | 'stateDim' | 'timeStep'> {
  /** Tokens L that its convolution spans, the newest included. */
  readonly length: number;
  /** Channels of x, B and C together. */
  readonly channels: number;
  /** `[L, channels]`; the last row is of the token itself. */
  readonly taps: Float32Array;
  /** `[channels]` of the convolution, zeros where there is none. */
  readonly bias: Float32Array;
  /** `[3, heads]`: decay, time bias and skip. */
  readonly constants: Float32Array;
}

/** Returns the constants of a layer's state space. */
export function spaceRule({ kernel, kernelBias, decay, timeBias, skip }: SpaceWeights, mixer: StateSpace): SpaceRule {
  const { heads, headDim, groups, stateDim, kernel: length, timeStep } = mixer,
    channels = spaceChannels(mixer);
  return {
    ...{ heads, headDim, groups, stateDim, timeStep, length, channels },
    taps: tapByTap(kernel, channels),
    bias: kernelBias?.slice() ?? new Float32Array(channels),
    constants: Float32Array.of(...decay, ...timeBias, ...skip),
  };
}

/**
 * Computes a state space of rows `[z | x | B | C | dt]`, one token after the other. Each head has a memory S, `[stateDim,
 * headDim]`, as `StateSpace` of @kv/checkpoints writes it:
 *
 *     S = g S + B (dt x)^T;  y = S^T C + skip x
 *
 * Each product and sum is rounded to f32, in this order, so that a token's result does not depend on how tokens are
 * divided into blocks, nor on who computes it.
 *
 * @param state columns `[L - 1, channels]` of the last tokens, oldest first, then S of each head; replaced by what they
 * are after the last row
 * @returns `[m, heads * headDim]`, y times silu(z), before the norm
 */
export function stateSpace(rows: Float32Array, rule: SpaceRule, state: Float32Array): Float32Array {
  const { fround } = Math,
    { heads, headDim, groups, stateDim, channels, length } = rule,
    [decay, timeBias, skip] = [0, 1, 2].map((i) => rule.constants.subarray(i * heads, (i + 1) * heads)),
    [least, most] = rule.timeStep.map(fround),
    inner = heads * headDim,
    width = inner + channels + heads,
    m = rows.length / width,
    out = new Float32Array(m * inner),
    memories = (length - 1) * channels;
  for (let r = 0; r < m; r++) {
    const row = rows.subarray(r * width, (r + 1) * width),
      mixed = activatedColumn(row.subarray(inner, inner + channels), rule, state),
      of = (from: number, size: number): Float32Array => mixed.subarray(from, from + size);
    for (let h = 0; h < heads; h++) {
      const group = Math.floor((h * groups) / heads) * stateDim,
        [k, q] = [of(inner + group, stateDim), of(inner + groups * stateDim + group, stateDim)],
        x = of(h * headDim, headDim),
        dt = Math.min(Math.max(softplus(fround(row[inner + channels + h] + timeBias[h])), least), most),
        at = memories + h * stateDim * headDim,
        y = out.subarray(r * inner + h * headDim, r * inner + (h + 1) * headDim);
      takeUp(
        state.subarray(at, at + stateDim * headDim),
        exp(fround(decay[h] * dt)),
        { k, q },
        x.map((value) => dt * value),
        y,
      );
      for (let j = 0; j < headDim; j++) y[j] = fround(y[j] + fround(skip[h] * x[j])) * silu(row[h * headDim + j]);
    }
  }
  return out;
}
