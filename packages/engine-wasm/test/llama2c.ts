import type { ModelConfig } from '@kv/checkpoints';
import { createDecoder, hostDecoder } from '@kv/engine';
import type { HostDecoder, Engine } from '@kv/engine';
import { matrixOf, onlyAttention } from '@kv/checkpoints';

/**
 * A decoder from a llama2.c checkpoint: its pairs (2i, 2i + 1) become (i, i + d/2) by permuting the rows of q and k.
 */
export async function loadLlama2c(bytes: Uint8Array, engine: Engine): Promise<HostDecoder> {
  const file = Uint8Array.from(bytes).buffer;
  const header = new Int32Array(file, 0, 7);
  const [hidden = 0, ffn = 0, layers = 0, queryHeads = 0, kvHeads = 0, vocab = 0, maxPositions = 0] = header;
  const headDim = hidden / queryHeads;
  const config: ModelConfig = {
    architecture: 'llama',
    layers,
    mixers: onlyAttention(layers, { kvHeads, headDim }),
    queryHeads,
    hidden,
    ffn,
    vocab: Math.abs(vocab),
    ropes: Array<ModelConfig['ropes'][0]>(layers).fill({ theta: 10_000, rotary: headDim }),
    activation: 'silu',
    embeddingScale: 1,
    attention: { scale: headDim ** -0.5, windows: [] },
    biases: { qkv: false, output: false, ffn: false },
    normEps: 1e-5,
    maxPositions,
    tied: vocab > 0,
    eosIds: [],
  };
  const all = new Float32Array(file, 28);
  let at = 0;
  const take = (size: number): Float32Array => all.slice(at, (at += size));
  const perLayer = (size: number): Float32Array[] => Array.from({ length: layers }, () => take(size));
  const kv = kvHeads * headDim;
  const embed = take(config.vocab * hidden);
  const attentionNorm = perLayer(hidden);
  const q = perLayer(hidden * hidden).map((w) => toHalves(w, queryHeads, headDim, hidden));
  const k = perLayer(kv * hidden).map((w) => toHalves(w, kvHeads, headDim, hidden));
  const v = perLayer(kv * hidden);
  const output = perLayer(hidden * hidden);
  const ffnNorm = perLayer(hidden);
  const gate = perLayer(ffn * hidden);
  const down = perLayer(hidden * ffn);
  const up = perLayer(ffn * hidden);
  const norm = take(hidden);
  return hostDecoder(
    await createDecoder(
      config,
      {
        project: async (i) => ({
          norm: attentionNorm[i],
          qkv: matrixOf(join(q[i], k[i], v[i]), hidden + 2 * kv, hidden),
        }),
        finish: async (i) => ({
          output: matrixOf(output[i], hidden, hidden),
          norm: ffnNorm[i],
          gateUp: matrixOf(join(gate[i], up[i]), 2 * ffn, hidden),
          down: matrixOf(down[i], hidden, ffn),
        }),
        norm: async () => norm,
        embed: async () => matrixOf(embed, config.vocab, hidden),
        head: async () => matrixOf(embed, config.vocab, hidden),
      },
      engine,
    ),
  );
}

function toHalves(w: Float32Array, heads: number, d: number, inputs: number): Float32Array {
  const out = new Float32Array(w.length);
  for (let h = 0; h < heads; h++)
    for (let i = 0; i < d / 2; i++)
      for (const odd of [0, 1]) {
        const from = (h * d + 2 * i + odd) * inputs;
        out.set(w.subarray(from, from + inputs), (h * d + i + (odd * d) / 2) * inputs);
      }
  return out;
}

function join(...parts: readonly Float32Array[]): Float32Array {
  return Float32Array.from(parts.flatMap((part) => [...part]));
}
