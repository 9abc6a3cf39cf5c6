import { KvError } from '@kv/core';
import type { LlamaConfig } from './config.ts';
import { readSafetensors, type Safetensors } from './safetensors.ts';
import type { Source } from './source.ts';

/** One layer's weights, f32, row-major; products that share an input are stacked. */
export interface LayerWeights {
  /** `[D]` */
  readonly attentionNorm: Float32Array;
  /** q, k and v: `[(H + 2 G) * d, D]` */
  readonly qkv: Float32Array;
  /** `[D, H * d]` */
  readonly output: Float32Array;
  /** `[D]` */
  readonly ffnNorm: Float32Array;
  /** gate and up: `[2 * ffn, D]` */
  readonly gateUp: Float32Array;
  /** `[D, ffn]` */
  readonly down: Float32Array;
}

/** A decoder's weights, f32, row-major. */
export interface Weights {
  /** `[vocab, D]` */
  readonly embed: Float32Array;
  readonly layers: readonly LayerWeights[];
  /** `[D]` */
  readonly norm: Float32Array;
  /** `[vocab, D]`; absent when the embedding is the head. */
  readonly head?: Float32Array;
}

/**
 * Reads a Llama checkpoint in the Hugging Face layout, one tensor at a time.
 * @throws KvError naming the tensor that is missing, has another shape, holds a number that is not finite, or that this decoder would ignore.
 */
export async function loadWeights(source: Source, config: LlamaConfig): Promise<Weights> {
  const file = await readSafetensors(source);
  const { hidden: D, ffn, vocab, headDim: d, queryHeads: H, kvHeads: G } = config;
  checkNames(file, config);
  const load = (rows: number, columns: number | undefined, ...names: readonly string[]): Promise<Float32Array> =>
    stack(file, columns === undefined ? [rows] : [rows, columns], names);
  const layers: LayerWeights[] = [];
  for (let i = 0; i < config.layers; i++) {
    const at = (name: string): string => `model.layers.${i}.${name}.weight`;
    const [q, k, v] = await Promise.all([
      load(H * d, D, at('self_attn.q_proj')), load(G * d, D, at('self_attn.k_proj')), load(G * d, D, at('self_attn.v_proj')),
    ]);
    layers.push({
      attentionNorm: await load(D, undefined, at('input_layernorm')),
      qkv: join([q, k, v]),
      output: await load(D, H * d, at('self_attn.o_proj')),
      ffnNorm: await load(D, undefined, at('post_attention_layernorm')),
      gateUp: await load(ffn, D, at('mlp.gate_proj'), at('mlp.up_proj')),
      down: await load(D, ffn, at('mlp.down_proj')),
    });
  }
  const embed = await load(vocab, D, 'model.embed_tokens.weight');
  const norm = await load(D, undefined, 'model.norm.weight');
  return config.tied ? { embed, layers, norm } : { embed, layers, norm, head: await load(vocab, D, 'lm_head.weight') };
}

/** Every tensor of the file must be one that is read: a bias or a norm left out would change the model silently. */
function checkNames(file: Safetensors, config: LlamaConfig): void {
  const layer = /^model\.layers\.(\d+)\.(?:self_attn\.[qkvo]_proj|mlp\.(?:gate|up|down)_proj|input_layernorm|post_attention_layernorm)\.weight$/;
  const other = /^(?:model\.embed_tokens\.weight|model\.norm\.weight|lm_head\.weight|model\.(?:layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq)$/;
  for (const name of file.tensors.keys()) {
    const index = layer.exec(name)?.[1];
    if (other.test(name) || (index !== undefined && Number(index) < config.layers)) continue;
    throw new KvError(file.name, `expected the tensors of a Llama model with ${config.layers} layers, got ${JSON.stringify(name)} besides`);
  }
}

async function stack(file: Safetensors, shape: readonly number[], names: readonly string[]): Promise<Float32Array> {
  const parts: Float32Array[] = [];
  for (const name of names) {
    const got = file.tensors.get(name)?.shape;
    const want = JSON.stringify(shape);
    if (got === undefined) throw new KvError(file.name, `expected a tensor ${name} of shape ${want}, got a file without it`);
    if (JSON.stringify(got) !== want) throw new KvError(file.name, `${name} must have shape ${want}, got ${JSON.stringify(got)}`);
    const values = await file.read(name);
    const bad = values.findIndex((x) => !Number.isFinite(x));
    if (bad >= 0) throw new KvError(file.name, `${name} must hold finite numbers, got ${values[bad]} at ${bad}`);
    parts.push(values);
  }
  return join(parts);
}

function join(parts: readonly Float32Array[]): Float32Array {
  if (parts.length === 1 && parts[0] !== undefined) return parts[0];
  const out = new Float32Array(parts.reduce((n, part) => n + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}
