import { KvError } from '@kv/core';
import { architectures, type Architecture, type ArchitectureName } from './architectures.ts';
import {
  checkHeads,
  mostHeadDim,
  mostLayers,
  slidesEvery,
  slidingWindows,
  turning,
  type ModelConfig,
} from './config.ts';
import { expertsOfKeys } from './experts.ts';
import { boolean, integer, optional, positive, show, type JsonFields } from '../read/fields.ts';
import { expectKnown, type Keys } from './gguf-keys.ts';
import type { GgufFile } from '../format/gguf.ts';
import {
  everyNth,
  fitting,
  longestKernel,
  mixersOf,
  onlyAttention,
  type GatedDelta,
  type KvHeads,
  type Mixer,
  type StateMixer,
  type StateSpace,
  unlimited,
} from './mixers.ts';
import { layersOfFile } from './gguf-layers.ts';
import { ggufNames } from './names.ts';
import { ropesByLayer, yarn, yarnAttention, type RopeConfig, type Yarn } from './rope-config.ts';
import { missing } from '../format/tensor-file.ts';
import { tensorReader } from '../format/tensor-reader.ts';
import { unknownArchitecture } from './unknown-architecture.ts';

/**
 * Derives the shape of a decoder from a GGUF file's metadata and, as llama.cpp does, from its tensors: vocabulary size,
 * presence of a head and of biases, divisors of rotary frequencies.
 * @throws KvError `where: key must be …, got …`, also for something that this decoder does not compute
 */
export async function configFromGguf(file: GgufFile): Promise<ModelConfig> {
  const { tensors, name: where } = file,
    metadata: JsonFields = Object.fromEntries(file.metadata);
  const name = architectureOf(metadata, where),
    { experts: some, ...dense } = architectures[name] as Architecture,
    routed = some && (some.asked === undefined || Boolean(metadata[`${dense.gguf}.expert_count`])),
    kind: Architecture = routed ? architectures[name] : dense,
    keys = keysOf(metadata, kind, where);
  expectKnown(metadata, kind, where);
  const hidden = keys.integer('embedding_length'),
    queryHeads = keys.integer('attention.head_count');
  const layers = layersOf(keys),
    [kvHeads, attends] = kind.byLayer
      ? [1, new Array<boolean>(layers).fill(true)]
      : kvHeadsOf(kind, keys, layers, queryHeads),
    headDim = keys.integer('attention.key_length', hidden / queryHeads, mostHeadDim);
  checkHeads(queryHeads, kvHeads, headDim, where);
  const values = keys.integer('attention.value_length', headDim);
  if (values !== headDim)
    throw new KvError(where, `${keys.key('attention.value_length')} must be that of keys (${headDim}), got ${values}`);
  const has = (tensor: string): boolean => tensors.has(tensor),
    names = ggufNames(name, has),
    embed = `${names.embed}.weight`,
    [vocab] = tensors.get(embed)?.shape ?? [];
  if (vocab === undefined) throw missing(where, embed);
  const windows = windowsOf(kind, keys, layers),
    differing = kind.byLayer
      ? layersOfFile(keys, { queryHeads, headDim, windows, hasValues: (l) => has(`${names.layer(l).v}.weight`) })
      : undefined;
  const carrying = names.layer(attends.indexOf(false)),
    alike = layerMixers(kind, attends, keys, {
      hidden,
      heads: { kvHeads, headDim },
      bias: ['convolution', 'stateSpace'].some((of) => has(`${carrying[of as 'convolution'].input}.bias`)),
      convolutionBias: has(`${carrying.stateSpace.kernel}.bias`),
    }),
    { mixers = alike } = differing ?? {},
    first = names.layer(attends.indexOf(true));
  const caps = (rest: string): number | undefined =>
    kind.softcaps && keys.has(rest) ? keys.positive(rest) : undefined;
  const routers = Array.from({ length: layers }, (_, l) => names.layer(l).experts),
    experts = expertsOfKeys(kind.experts, kind.activation, {
      ...keys,
      value: (rest) => metadata[keys.key(rest)],
      routers: routers.map(({ router }) => has(`${router}.weight`)),
      selects: routers.some(({ selectionBias }) => has(selectionBias)),
      dense: differing?.ffn,
    });
  const bosId = id(metadata, 'bos', vocab, where),
    rope = await ropeOf(file, kind, keys, headDim),
    local =
      kind.localTheta === undefined
        ? undefined
        : {
            rotary: kind.byLayer ? keys.integer('rope.dimension_count_swa', rope.rotary) : rope.rotary,
            theta: keys.positive('rope.freq_base_swa', kind.localTheta === 'same' ? rope.theta : kind.localTheta),
          };
  return {
    architecture: name,
    layers,
    queryHeads,
    hidden,
    // every layer of Qwen 3.5's has experts, and its files name no other width
    ...(differing ?? { ffn: widthOf(keys, experts?.shared?.width) }),
    mixers,
    ...optional('experts', experts),
    vocab,
    ropes: ropesByLayer(rope, local, windows, turnsOf(kind, keys, mixers)),
    attention: {
      scale: keys.positive('attention.scale', scaleOf(name, { layers, hidden, queryHeads }, headDim)),
      ...optional('softcap', caps('attn_logit_softcapping')),
      windows,
      ...(kind.outputGate !== 'none' && { outputGate: kind.outputGate }),
      ...optional('queryScale', queryScaleOf(kind, keys)),
      ...(kind.learnedSinks && { learnedSinks: true }),
    },
    biases: {
      qkv: has(`${kind.fused ? first.qkv : first.q}.bias`) || kind.biases.qkv === true,
      output: has(`${first.output}.bias`),
      ffn: has(`${first.down}.bias`),
    },
    activation: kind.activation,
    normEps: keys.positive('attention.layer_norm_rms_epsilon'),
    embeddingScale: kind.scaledEmbedding
      ? Math.fround(Math.sqrt(hidden))
      : kind.multipliers
        ? keys.positive('embedding_scale', 1)
        : 1,
    ...(kind.multipliers && {
      residualScale: keys.positive('residual_scale', 1),
      logitScale: 1 / keys.positive('logit_scale'),
    }),
    ...optional('finalSoftcap', caps('final_logit_softcapping')),
    maxPositions: Math.max(keys.integer('context_length'), rope.reach ?? 0),
    tied: !has(`${names.head}.weight`),
    ...optional('bosId', bosId),
    eosIds: [...new Set(['eos', 'eot', 'eom'].flatMap((of) => id(metadata, of, vocab, where) ?? []))],
  };
}

function keysOf(metadata: JsonFields, { gguf }: Architecture, where: string): Keys {
  const key = (rest: string): string => `${gguf}.${rest}`;
  return {
    where,
    metadata,
    key,
    has: (rest) => metadata[key(rest)] !== undefined,
    positive: (rest, fallback) => positive(metadata, key(rest), where, fallback),
    integer: (rest, fallback, most, least) => integer(metadata, key(rest), where, fallback, most, least),
  };
}

/** Returns the width of the feed-forward layer; Granite 4.0's is that of its shared expert. */
function widthOf(keys: Keys, fallback?: number): number {
  const shared = 'expert_shared_feed_forward_length';
  return keys.integer(keys.metadata[keys.key(shared)] ? shared : 'feed_forward_length', fallback);
}

/** Returns the architecture of a file. @throws KvError that lists the known architectures */
function architectureOf(fields: JsonFields, where: string): ArchitectureName {
  const field = 'general.architecture',
    got = fields[field];
  if (typeof got === 'string' && Object.hasOwn(architectures, got) && !architectures[got as ArchitectureName].gguf)
    throw new KvError(where, `${field} must be one that llama.cpp has a layout for, got ${got}: load its safetensors`);
  const alike = Object.entries<Architecture>(architectures).filter(
      ([, { gguf }]) => gguf !== undefined && gguf === got,
    ),
    told = alike.find(([, { gguf, ggufKey }]) => ggufKey !== undefined && (fields[`${gguf}.${ggufKey}`] ?? 0) !== 0),
    found = told ?? alike.find(([, { ggufKey }]) => ggufKey === undefined);
  if (found !== undefined) return found[0] as ArchitectureName;
  const known = [...new Set(Object.values(architectures).flatMap(({ gguf }) => gguf ?? []))];
  throw unknownArchitecture(where, { field, known, got, fields, prefix: `${got}.` });
}

/** Returns the layers of a model, without those that draft the tokens after the next, which are counted with them. */
function layersOf(keys: Keys): number {
  const all = keys.integer('block_count', undefined, mostLayers);
  return all - keys.integer('nextn_predict_layers', 0, all - 1, 0);
}

/**
 * Returns the KV heads of the layers with attention, and which layers these are. A list holds a number for each layer, 0
 * for one without attention; Qwen 3.5's files have a list of the other layers, or attention in every n-th.
 */
function kvHeadsOf(
  { mixer }: Architecture,
  keys: Keys,
  layers: number,
  queryHeads: number,
): readonly [kvHeads: number, attends: readonly boolean[]] {
  const rest = 'attention.head_count_kv',
    key = keys.key(rest),
    list = keys.metadata[key];
  if (!Array.isArray(list))
    return [
      keys.integer(rest, queryHeads),
      mixer === 'gatedDelta' ? attendsOf(keys, layers) : new Array<boolean>(layers).fill(true),
    ];
  const one = list.find((heads) => heads !== 0) ?? 1, // of none: `mixersOf` refuses
    fits = (heads: unknown): boolean => heads === one || (heads === 0 && mixer !== undefined);
  if (list.length === layers && list.every(fits))
    return [integer({ [key]: one }, key, keys.where), list.map((heads) => heads !== 0)];
  throw new KvError(
    keys.where,
    `${key} must be a number, or ${layers} of the same number${mixer ? ' and 0' : ''}, got ${show(list)}`,
  );
}

/** Returns which layers have attention, by the list of those that have not; it counts drafting layers too. */
function attendsOf(keys: Keys, layers: number): readonly boolean[] {
  const key = keys.key('attention.recurrent_layers'),
    list = keys.metadata[key];
  if (list === undefined) return everyNth(layers, keys.integer('full_attention_interval', 4));
  if (Array.isArray(list) && list.length >= layers && list.every((x) => typeof x === 'boolean'))
    return list.slice(0, layers).map((recurrent) => !recurrent);
  throw new KvError(keys.where, `${key} must be true or false for each of ${layers} layers, got ${show(list)}`);
}

/** Returns each layer's mixer. @throws KvError for a size of what is not attention that is missing or out of range */
function layerMixers(
  { mixer }: Architecture,
  attends: readonly boolean[],
  keys: Keys,
  {
    hidden,
    bias,
    convolutionBias,
    heads,
  }: { readonly hidden: number; readonly bias: boolean; readonly convolutionBias: boolean; readonly heads: KvHeads },
): readonly Mixer[] {
  if (mixer === undefined || attends.every(Boolean)) return onlyAttention(attends.length, heads);
  const other: StateMixer =
    mixer === 'gatedDelta'
      ? gatedDelta(keys)
      : mixer === 'stateSpace'
        ? stateSpace(keys, { bias, convolutionBias })
        : {
            kind: 'shortConvolution',
            channels: hidden,
            kernel: keys.integer('shortconv.l_cache', undefined, longestKernel, 2),
            bias,
          };
  return mixersOf(attends, other, heads, keys.where);
}

/** Returns what the keys say of a memory: its heads, their width and groups, and the kernel before it. */
function memoryOf(keys: Keys, what: string): Record<'heads' | 'headDim' | 'groups' | 'stateDim' | 'kernel', number> {
  const heads = keys.integer('ssm.time_step_rank'),
    inner = keys.integer('ssm.inner_size');
  if (inner % heads !== 0)
    throw new KvError(
      keys.where,
      `${keys.key('ssm.inner_size')} must be a multiple of the ${what} (${heads}), got ${inner}`,
    );
  return {
    heads,
    headDim: inner / heads,
    groups: keys.integer('ssm.group_count'),
    stateDim: keys.integer('ssm.state_size'),
    kernel: keys.integer('ssm.conv_kernel', undefined, longestKernel, 2),
  };
}

function gatedDelta(keys: Keys): GatedDelta {
  const { heads, headDim, groups, stateDim, kernel } = memoryOf(keys, 'value heads'),
    mixer = { keyHeads: groups, valueHeads: heads, keyDim: stateDim, valueDim: headDim, kernel };
  return fitting({ kind: 'gatedDelta', ...mixer }, keys.key('ssm.time_step_rank'), keys.where);
}

function stateSpace(keys: Keys, biases: Pick<StateSpace, 'bias' | 'convolutionBias'>): StateSpace {
  const mixer = { ...memoryOf(keys, 'heads'), ...biases, timeStep: unlimited };
  return fitting({ kind: 'stateSpace', ...mixer }, keys.key('ssm.time_step_rank'), keys.where);
}

/**
 * Converters write no window for Qwen, and Mistral's files have architecture `llama`. If the key is absent, Gemma 2 has
 * its default window and Gemma 3 has none.
 */
function windowsOf({ gguf, windows, defaults, softcaps }: Architecture, keys: Keys, layers: number): readonly number[] {
  const rest = 'attention.sliding_window',
    usual = softcaps?.scores === undefined ? undefined : defaults.window,
    written = keys.metadata[keys.key(rest)];
  const size = written === 0 || (written ?? usual) === undefined ? undefined : keys.integer(rest, usual);
  if (typeof windows === 'object') {
    const pattern = keys.metadata[keys.key(`${rest}_pattern`)];
    if (Array.isArray(pattern) && pattern.length === layers && pattern.every((slides) => typeof slides === 'boolean'))
      return slidingWindows(size, layers, (l) => pattern[l] === true);
    const every = keys.integer(`${rest}_pattern`, windows.every);
    return slidingWindows(size, layers, slidesEvery(windows, every));
  }
  const all = Object.values(architectures).some((kind) => kind.gguf === gguf && kind.windows === 'all');
  if (size !== undefined && !all) throw new KvError(keys.where, `${keys.key(rest)} must be 0 or absent, got ${size}`);
  return slidingWindows(size, layers, () => true);
}

/** Returns how queries are scaled: Ministral 3's by every stretch as long as the positions in training, as in llama.cpp. */
function queryScaleOf(kind: Architecture, keys: Keys): ModelConfig['attention']['queryScale'] {
  const by = 'attention.temperature_scale';
  if (!kind.queryScale || !keys.has(by) || keys.metadata[keys.key(by)] === 0) return undefined;
  return { by: keys.positive(by), every: originalOf(keys) };
}

/** Returns the number of positions in training, before any scaling. */
const originalOf = (keys: Keys): number =>
  keys.integer('rope.scaling.original_context_length', keys.integer('context_length'));

/** Returns which layers rotate heads, as the architecture or the file's list says. */
function turnsOf(kind: Architecture, keys: Keys, mixers: readonly Mixer[]): readonly boolean[] {
  const key = keys.key('attention.rope_pattern'),
    list = keys.metadata[key];
  if (kind.multipliers && !boolean(keys.metadata, keys.key('rope.scaling.finetuned'), keys.where, true))
    return mixers.map(() => false);
  if (list === undefined || !kind.listedThetas) return turning(kind, mixers);
  if (Array.isArray(list) && list.length === mixers.length && list.every((turns) => typeof turns === 'boolean'))
    return list as readonly boolean[];
  throw new KvError(keys.where, `${key} must be ${mixers.length} of true and false, got ${show(list)}`);
}

/**
 * Gemma 2 and 3 27B scale scores by hidden / heads, all other models by the head's width; the key for it is newer than
 * most files.
 */
function scaleOf(
  name: ArchitectureName,
  { layers, hidden, queryHeads }: Pick<ModelConfig, 'layers' | 'hidden' | 'queryHeads'>,
  headDim: number,
): number {
  if (architectures[name].scale === 'one') return 1;
  const large = (name === 'gemma2' && layers === 46) || (name === 'gemma3_text' && layers === 62);
  return 1 / Math.sqrt(large ? hidden / queryHeads : headDim);
}

async function ropeOf(file: GgufFile, kind: Architecture, keys: Keys, headDim: number): Promise<RopeConfig> {
  const { tensors, name: where } = file,
    { metadata } = keys,
    key = (rest: string): string => keys.key(`rope.${rest}`),
    rotary = keys.integer('rope.dimension_count', headDim, headDim);
  if (rotary % 2 !== 0 || (rotary !== headDim && !kind.partialRotary))
    throw new KvError(
      where,
      `${key('dimension_count')} must be ${kind.partialRotary ? 'even' : headDim}, got ${rotary}`,
    );
  const read = tensorReader(file),
    divisors = async (tensor: string): Promise<readonly number[]> =>
      positives(await read.vector(tensor, rotary / 2)(), tensor, where);
  const times = keys.positive('rope.scaling.attn_factor', 1),
    rope = { rotary, theta: keys.positive('rope.freq_base', 10_000) },
    turned = { ...rope, ...optional('attentionFactor', times === 1 ? undefined : times) };
  const old = 'rope.scale_linear', // in files of 2023; llama.cpp reads it if the new key is absent
    factor = keys.has(old) && !keys.has('rope.scaling.factor') ? old : 'rope.scaling.factor',
    written = metadata[key('scaling.type')],
    type = written ?? 'linear',
    [long, freqs] = ['rope_factors_long.weight', 'rope_freqs.weight'].map((tensor) => tensors.has(tensor));
  if (type === 'yarn' && !long && !freqs)
    return yarn(rope, { ...yarnOf(keys, factor, times), truncate: kind.names !== 'gpt_oss' });
  if (!['none', 'linear', ...(long ? ['longrope'] : [])].includes(type as string))
    throw new KvError(
      where,
      `${key('scaling.type')} must be "none", "linear" or "yarn", or the file have rope_factors_long.weight, got ${show(type)}`,
    );
  const by = type === 'none' ? 1 : keys.positive(factor, written === 'linear' && !freqs ? undefined : 1),
    stretched = (list: readonly number[]): readonly number[] => (by === 1 ? list : list.map((x) => x * by));
  if (long)
    return {
      ...turned,
      divisors: stretched(await divisors('rope_factors_short.weight')),
      long: { divisors: stretched(await divisors('rope_factors_long.weight')), beyond: originalOf(keys) },
    };
  // files say 1e30 of a pair that does not turn
  if (freqs)
    return {
      ...turned,
      divisors: stretched((await divisors('rope_freqs.weight')).map((x) => (x > 1e29 ? Infinity : x))),
    };
  return by === 1 ? turned : { ...turned, divisors: new Array<number>(rotary / 2).fill(by) };
}

/** Reads YaRN's parameters; `times` is the attention factor that any scaling may have. */
function yarnOf(keys: Keys, key: string, times: number): Yarn {
  const number = (rest: string): number | undefined =>
    keys.has(`rope.scaling.yarn_${rest}`) ? keys.positive(`rope.scaling.yarn_${rest}`) : undefined;
  const factor = keys.positive(key),
    extrapolation = number('ext_factor') ?? 1,
    all = keys.metadata[keys.key('rope.scaling.yarn_log_multiplier')] === 0 ? undefined : number('log_multiplier');
  if (extrapolation !== 1)
    throw new KvError(
      keys.where,
      `${keys.key('rope.scaling.yarn_ext_factor')} must be 1 or absent, got ${extrapolation}`,
    );
  return {
    factor,
    original: originalOf(keys),
    attentionFactor: times * (number('attn_factor') ?? yarnAttention(factor) / (all ? yarnAttention(factor, all) : 1)),
    fast: number('beta_fast'),
    slow: number('beta_slow'),
  };
}

function positives(values: Float32Array, tensor: string, where: string): readonly number[] {
  if (values.every((x) => x > 0)) return [...values];
  throw new KvError(where, `${tensor} must hold numbers above 0, got ${Math.min(...values)}`);
}

/** Reads the id of a special token, if the file names it; one beyond the vocabulary, as converters write for none, is none. */
function id(metadata: JsonFields, name: string, vocab: number, where: string): number | undefined {
  const key = `tokenizer.ggml.${name}_token_id`,
    value = metadata[key];
  if (value === undefined) return undefined;
  if (Number.isInteger(value) && (value as number) >= 0)
    return (value as number) < vocab ? (value as number) : undefined;
  throw new KvError(where, `${key} must be a token id, got ${show(value)}`);
}
