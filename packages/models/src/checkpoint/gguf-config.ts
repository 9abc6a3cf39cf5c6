import { KvError } from '@kv/core';
import { architectures, type Architecture, type ArchitectureName } from '../architectures.ts';
import { architectureOf, checkHeads, mostHeadDim, mostLayers, slidingWindows, type ModelConfig } from './config.ts';
import { integer, optional, positive, show, type Fields } from './fields.ts';
import type { GgufFile } from './gguf.ts';
import { ggufNames } from './names.ts';
import type { RopeConfig } from './rope-config.ts';
import { missing } from './tensor-file.ts';
import { tensorReader } from './tensor-reader.ts';

/**
 * The shape of a decoder from a GGUF file's metadata, with what llama.cpp takes from tensors: the vocabulary's size,
 * whether there is a head or
 * biases, and the divisors of rotary frequencies.
 * @throws KvError `where: key must be …, got …`, and for what this decoder does not compute.
 */
export async function configFromGguf(file: GgufFile): Promise<ModelConfig> {
  const { tensors, name: where } = file,
    metadata: Fields = Object.fromEntries(file.metadata);
  const name = architectureOf(metadata['general.architecture'], 'general.architecture', where),
    kind = architectures[name];
  const key = (rest: string): string => `${name}.${rest}`;
  const count = (rest: string, fallback?: number, most?: number): number =>
    integer(metadata, key(rest), where, fallback, most);
  const hidden = count('embedding_length'),
    queryHeads = count('attention.head_count');
  const kvHeads = count('attention.head_count_kv', queryHeads),
    headDim = count('attention.key_length', hidden / queryHeads, mostHeadDim);
  checkHeads(queryHeads, kvHeads, headDim, where);
  const values = count('attention.value_length', headDim);
  if (values !== headDim)
    throw new KvError(where, `${key('attention.value_length')} must be that of keys (${headDim}), got ${values}`);
  const layers = count('block_count', undefined, mostLayers);
  const embed = `${ggufNames.embed}.weight`,
    [vocab] = tensors.get(embed)?.shape ?? [];
  if (vocab === undefined) throw missing(where, embed);
  const first = ggufNames.layer(0),
    has = (tensor: string): boolean => tensors.has(tensor);
  const caps = (rest: string): number | undefined =>
    kind.softcaps && metadata[key(rest)] !== undefined ? positive(metadata, key(rest), where) : undefined;
  const bosId = id(metadata, 'bos', vocab, where);
  return {
    architecture: name,
    layers,
    queryHeads,
    kvHeads,
    headDim,
    hidden,
    ffn: count('feed_forward_length'),
    vocab,
    rope: await ropeOf(file, metadata, name, headDim),
    attention: {
      scale: positive(metadata, key('attention.scale'), where, scaleOf(name, { layers, hidden, queryHeads, headDim })),
      ...optional('softcap', caps('attn_logit_softcapping')),
      windows: windowsOf(kind, metadata, key('attention.sliding_window'), layers, where),
    },
    biases: {
      qkv: has(`${kind.fused ? first.qkv : first.q}.bias`) || kind.biases.qkv === true,
      output: has(`${first.output}.bias`),
      ffn: has(`${first.down}.bias`),
    },
    activation: kind.postNorms ? 'gelu' : 'silu',
    normEps: positive(metadata, key('attention.layer_norm_rms_epsilon'), where),
    embeddingScale: kind.scaledEmbedding ? Math.fround(Math.sqrt(hidden)) : 1,
    ...optional('finalSoftcap', caps('final_logit_softcapping')),
    maxPositions: count('context_length'),
    tied: !has(`${ggufNames.head}.weight`),
    ...optional('bosId', bosId),
    eosIds: [...new Set(['eos', 'eot'].flatMap((of) => id(metadata, of, vocab, where) ?? []))],
  };
}

/**
 * Converters write no window for Qwen, and Mistral's files are of architecture `llama`; Gemma 2 has one if none is
 * written.
 */
function windowsOf(kind: Architecture, metadata: Fields, key: string, layers: number, where: string): number[] {
  const usual = kind.windows === 'even' ? kind.defaults.window : undefined;
  const size =
    kind.windows === 'from' || metadata[key] === 0 || (metadata[key] ?? usual) === undefined
      ? undefined
      : integer(metadata, key, where, usual);
  return slidingWindows(kind, size, layers, kind.windows === 'none' ? () => true : undefined);
}

/**
 * Gemma 2 of 27B scales by hidden / heads, every other model by the head's width; the key for it is younger than most
 * files.
 */
function scaleOf(
  name: ArchitectureName,
  { layers, hidden, queryHeads, headDim }: Pick<ModelConfig, 'layers' | 'hidden' | 'queryHeads' | 'headDim'>,
): number {
  return (name === 'gemma2' && layers === 46 ? hidden / queryHeads : headDim) ** -0.5;
}

async function ropeOf(file: GgufFile, metadata: Fields, name: ArchitectureName, headDim: number): Promise<RopeConfig> {
  const { tensors, name: where } = file,
    key = (rest: string): string => `${name}.rope.${rest}`;
  const rotary = integer(metadata, key('dimension_count'), where, headDim, headDim);
  if (rotary % 2 !== 0 || (rotary !== headDim && !architectures[name].partialRotary))
    throw new KvError(
      where,
      `${key('dimension_count')} must be ${architectures[name].partialRotary ? 'even' : headDim}, got ${rotary}`,
    );
  const rope = { rotary, theta: positive(metadata, key('freq_base'), where, 10_000) };
  const read = tensorReader(file),
    divisors = async (tensor: string): Promise<readonly number[]> =>
      positives(await read.vector(tensor, rotary / 2)(), tensor, where);
  if (tensors.has('rope_factors_long.weight')) {
    const attentionFactor = positive(metadata, key('scaling.attn_factor'), where, 1);
    const beyond = integer(
      metadata,
      key('scaling.original_context_length'),
      where,
      integer(metadata, `${name}.context_length`, where),
    );
    const long = { divisors: await divisors('rope_factors_long.weight'), beyond };
    return {
      ...rope,
      divisors: await divisors('rope_factors_short.weight'),
      long,
      ...optional('attentionFactor', attentionFactor === 1 ? undefined : attentionFactor),
    };
  }
  if (tensors.has('rope_freqs.weight')) return { ...rope, divisors: await divisors('rope_freqs.weight') };
  const type = metadata[key('scaling.type')] ?? (metadata[key('scaling.factor')] === undefined ? 'none' : 'linear');
  if (type === 'none') return rope;
  if (type === 'linear')
    return { ...rope, divisors: new Array<number>(rotary / 2).fill(positive(metadata, key('scaling.factor'), where)) };
  throw new KvError(
    where,
    `${key('scaling.type')} must be "none" or "linear", or the file have rope_factors_long.weight, got ${show(type)}`,
  );
}

function positives(values: Float32Array, tensor: string, where: string): readonly number[] {
  if (values.every((x) => x > 0)) return [...values];
  throw new KvError(where, `${tensor} must hold numbers above 0, got ${Math.min(...values)}`);
}

/** A special token of the vocabulary, if the file names it. */
function id(metadata: Fields, name: string, vocab: number, where: string): number | undefined {
  const key = `tokenizer.ggml.${name}_token_id`,
    value = metadata[key];
  if (value === undefined) return undefined;
  if (Number.isInteger(value) && (value as number) >= 0 && (value as number) < vocab) return value as number;
  throw new KvError(where, `${key} must be a token id below ${vocab}, got ${show(value)}`);
}
