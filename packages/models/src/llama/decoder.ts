import { KvError } from '@kv/core';
import type { LlamaConfig } from '../checkpoint/config.ts';
import type { Weights } from '../checkpoint/weights.ts';
import type { Linear, LinearFactory } from '../linear/linear.ts';
import { createRope } from './rope.ts';
import { addInto, rmsNorm } from './rows.ts';
import { defaultSwiglu } from './swiglu.ts';

/** Queries `[H, m, d]`, keys and values `[G, m, d]` of m tokens in one layer, f32; queries and keys are turned by their position. */
export interface Projected {
  readonly q: Float32Array;
  readonly k: Float32Array;
  readonly v: Float32Array;
}

/** Rows that went through each matrix product: by layer, and through the head. Only ever counts up. */
export interface RowCounts {
  readonly qkv: Float64Array;
  readonly output: Float64Array;
  readonly gateUp: Float64Array;
  readonly down: Float64Array;
  head: number;
}

/** A Llama decoder's arithmetic without its attention: what stands before and after it, layer by layer. Rows are tokens, f32. */
export interface Decoder {
  readonly config: LlamaConfig;
  readonly rows: RowCounts;
  /** Embeddings `[m, D]`. @throws KvError for an id outside the vocabulary. */
  embed(ids: ArrayLike<number>): Float32Array;
  /** Norm, q|k|v and rotation of x `[m, D]` at the tokens' original positions `[m]`. */
  project(layer: number, x: Float32Array, positions: Uint32Array): Promise<Projected>;
  /** What follows attention, `[m, H * d]`: output product, residual, norm, SwiGLU, residual. x `[m, D]` to a new `[m, D]`. */
  finish(layer: number, x: Float32Array, attended: Float32Array): Promise<Float32Array>;
  /** The final norm of x `[rows, D]`. */
  hiddenNorm(x: Float32Array): Float32Array;
  /** Logits `[rows, vocab]` of x `[rows, D]`: final norm and head. */
  logits(x: Float32Array): Promise<Float32Array>;
  /** Gives the products' memory back. */
  destroy(): void;
}

interface Layer {
  readonly attentionNorm: Float32Array;
  readonly ffnNorm: Float32Array;
  readonly qkv: Linear;
  readonly output: Linear;
  readonly gateUp: Linear;
  readonly down: Linear;
}

/** A decoder over weights; each weight matrix goes once through `linear`, and the decoder owns the products. */
export function createDecoder(config: LlamaConfig, weights: Weights, linear: LinearFactory): Decoder {
  const { hidden: D, ffn, vocab, headDim: d, queryHeads: H, kvHeads: G, normEps } = config;
  const rope = createRope(d, config.ropeTheta);
  const swiglu = defaultSwiglu();
  const { embed, norm } = weights;
  const layers: readonly Layer[] = weights.layers.map((layer) => ({
    attentionNorm: layer.attentionNorm,
    ffnNorm: layer.ffnNorm,
    qkv: linear(layer.qkv, (H + 2 * G) * d, D),
    output: linear(layer.output, D, H * d),
    gateUp: linear(layer.gateUp, 2 * ffn, D),
    down: linear(layer.down, D, ffn),
  }));
  const head = linear(weights.head ?? embed, vocab, D);
  const count = (): Float64Array => new Float64Array(config.layers);
  const rows: RowCounts = { qkv: count(), output: count(), gateUp: count(), down: count(), head: 0 };
  const at = (layer: number): Layer => {
    const found = layers[layer];
    if (found === undefined) throw new KvError('decoder', `a layer must be an integer from 0 to ${config.layers - 1}, got ${layer}`);
    return found;
  };
  const run = (name: Exclude<keyof RowCounts, 'head'>, layer: number, x: Float32Array, m: number): ReturnType<Linear['apply']> => {
    rows[name][layer] = rows[name][layer]! + m;
    return at(layer)[name].apply(x, m);
  };
  return {
    config,
    rows,
    embed(ids) {
      const x = new Float32Array(ids.length * D);
      for (let i = 0; i < ids.length; i++) {
        const id = ids[i]!;
        if (!(Number.isInteger(id) && id >= 0 && id < vocab)) throw new KvError('decoder', `a token id must be an integer from 0 to ${vocab - 1}, got ${id}`);
        x.set(embed.subarray(id * D, (id + 1) * D), i * D);
      }
      return x;
    },
    async project(layer, x, positions) {
      const m = positions.length;
      const fused = await run('qkv', layer, rmsNorm(x, at(layer).attentionNorm, normEps), m);
      const [q, k, v] = [new Float32Array(H * m * d), new Float32Array(G * m * d), new Float32Array(G * m * d)];
      for (let i = 0; i < m; i++) {
        const row = i * (H + 2 * G) * d;
        const position = positions[i]!;
        for (let h = 0; h < H; h++) rope.turn(fused, row + h * d, position, q, (h * m + i) * d);
        for (let g = 0; g < G; g++) {
          rope.turn(fused, row + (H + g) * d, position, k, (g * m + i) * d);
          const from = row + (H + G + g) * d;
          v.set(fused.subarray(from, from + d), (g * m + i) * d);
        }
      }
      return { q, k, v };
    },
    async finish(layer, x, attended) {
      const m = x.length / D;
      const y = addInto(await run('output', layer, attended, m), x);
      const gated = swiglu(await run('gateUp', layer, rmsNorm(y, at(layer).ffnNorm, normEps), m), ffn);
      return addInto(y, await run('down', layer, gated, m));
    },
    hiddenNorm: (x) => rmsNorm(x, norm, normEps),
    async logits(x) {
      rows.head += x.length / D;
      return head.apply(rmsNorm(x, norm, normEps), x.length / D);
    },
    destroy() {
      for (const { qkv, output, gateUp, down } of layers) for (const product of [qkv, output, gateUp, down]) product.destroy();
      head.destroy();
    },
  };
}
