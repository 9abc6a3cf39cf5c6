import { KvError } from '@kv/core';
import { architectures, type Architecture, type ArchitectureName } from './architectures.ts';
import { boolean, integer, object, optional, positive, show, type JsonFields } from '../read/fields.ts';
import { parseExperts, type ExpertsConfig } from './experts.ts';
import { layeredFields, parseLayers } from './layers.ts';
import { asList, layerTypes, parseMixers, type Mixer } from './mixers.ts';
import { originalPositions, parseRope, ropeFields, ropesByLayer, type RopeConfig } from './rope-config.ts';
import { unknownArchitecture } from './unknown-architecture.ts';

/** Shape of a decoder. All counts are positive integers; in every layer `queryHeads % kvHeads === 0` and `headDim` is even. */
export interface ModelConfig {
  /** Its `model_type`, a row of `architectures`. */
  readonly architecture: ArchitectureName;
  readonly layers: number;
  /**
   * What mixes the tokens of each layer: attention, with its KV heads, or something that keeps a state instead of slots. See
   * `headsOf`.
   */
  readonly mixers: readonly Mixer[];
  /** Query heads H of every layer with attention. */
  readonly queryHeads: number;
  /** Width D of the residual stream. */
  readonly hidden: number;
  /** Width of the gated feed-forward layer, of layers without experts, and of the expert that all tokens share. */
  readonly ffn: number;
  /** Its width in each layer, where layers differ. @defaultValue `ffn` in all */
  readonly ffns?: readonly number[];
  /** Numbers P of every token that each layer takes in addition to the residual stream. @defaultValue none */
  readonly perLayer?: number;
  /** Routed experts, if some layers have them. */
  readonly experts?: ExpertsConfig;
  /** Rows of the embedding; token ids are below it. */
  readonly vocab: number;
  /** RoPE of each layer; layers with the same rotation share one object. A layer without attention rotates nothing. */
  readonly ropes: readonly RopeConfig[];
  readonly attention: AttentionConfig;
  /** Which products add a bias. */
  readonly biases: { readonly qkv: boolean; readonly output: boolean; readonly ffn: boolean };
  /** Activation of the feed-forward gate; gelu is the tanh approximation. */
  readonly activation: 'silu' | 'gelu';
  /** Where norms are, where the architecture leaves that to the configuration. */
  readonly norms?: 'before' | 'around';
  /** Added to the mean square inside norms. */
  readonly normEps: number;
  /** Factor applied to embeddings. */
  readonly embeddingScale: number;
  /** Factor applied to what a block adds to the residual stream. @defaultValue 1 */
  readonly residualScale?: number;
  /** Factor applied to logits, before any cap. @defaultValue 1 */
  readonly logitScale?: number;
  /** Logits become `cap * tanh(logits / cap)`. */
  readonly finalSoftcap?: number;
  /** Number of positions that the model was trained for. */
  readonly maxPositions: number;
  /** Whether the embedding is also the output head. */
  readonly tied: boolean;
  /** Token that begins a text, if there is one. */
  readonly bosId?: number;
  /** Tokens that end an answer. */
  readonly eosIds: readonly number[];
  /** Tokens that no answer may have, such as a place for an image. @defaultValue none */
  readonly bannedIds?: readonly number[];
}

/** Returns the width of a layer's feed-forward layer. */
export const ffnOf = ({ ffn, ffns }: Pick<ModelConfig, 'ffn' | 'ffns'>, layer: number): number => ffns?.[layer] ?? ffn;

/** How attention scores are computed from q·k. */
export interface AttentionConfig {
  /** Multiplies q·k, 1 / sqrt(d) in most models. */
  readonly scale: number;
  /** Scores become `cap * tanh(score / cap)`. */
  readonly softcap?: number;
  /** Positions that a query sees in each layer, its own included; Infinity for all, and where there is no attention. */
  readonly windows: readonly number[];
  /**
   * What is multiplied by the sigmoid of a gate, a product of the layer's normed input, before the output product: every
   * channel that a query head gives by its own, or all of a head by one.
   *
   * @defaultValue no gates
   */
  readonly outputGate?: 'channel' | 'head';
  /**
   * Queries are multiplied by `1 + by * ln(1 + floor(position / every))`, by the position in the text, which stays when kept
   * slots are moved together.
   *
   * @defaultValue queries are not scaled
   */
  readonly queryScale?: { readonly by: number; readonly every: number };
  /**
   * Whether every query head has a learned sink, a score of no slot that takes part in its softmax, so that its weights sum
   * to less than 1.
   *
   * @defaultValue false
   */
  readonly learnedSinks?: boolean;
}

/**
 * Maximum number of layers. Per-layer and per-pair lists are allocated before any weight confirms the counts; no model
 * is larger.
 */
export const mostLayers = 4096;
/** Maximum width of a head. */
export const mostHeadDim = 65_536;

/**
 * Fields that change what is computed, with the values that this decoder supports. All other fields that transformers'
 * classes read concern training, outputs or generation, and the classes ignore fields that they do not know.
 */
const plainly: Readonly<Record<string, readonly unknown[]>> = {
  quantization_config: [],
  compression_config: [],
  quantization: [], // of MLX
  use_bidirectional_attention: [false, 'vision'], // of images, which are not read
  is_causal: [true],
  is_encoder_decoder: [false],
  add_cross_attention: [false],
};

/**
 * Parses a Hugging Face `config.json`; defaults are those of transformers.
 * @param json the parsed file
 * @param where name of the file, for errors
 * @throws KvError `where: field must be …, got …` for a field that is missing or out of range, or that asks for
 * something this decoder does not compute
 */
export function parseConfig(json: unknown, where: string): ModelConfig {
  const [name, written] = architectureOf(object(json, where, 'the configuration'), where);
  const kind: Architecture = architectures[name];
  for (const [field, plain] of Object.entries(plainly))
    if (written[field] != null && !plain.includes(written[field]) && !ofExperts(kind, field, written[field]))
      throw new KvError(
        where,
        `${field} must be ${[...plain.map(show), 'absent'].join(' or ')}, got ${show(written[field])}`,
      );
  const layers = integer(written, 'num_hidden_layers', where, undefined, mostLayers),
    fields = completed(kind, kind.byLayer ? layeredFields(written, layers) : written, where);
  const hidden = integer(fields, 'hidden_size', where);
  const queryHeads = integer(fields, 'num_attention_heads', where);
  const kvHeads = integer(fields, 'num_key_value_heads', where, queryHeads);
  const headDim = integer(fields, 'head_dim', where, kind.defaults.headDim ?? hidden / queryHeads, mostHeadDim);
  checkHeads(queryHeads, kvHeads, headDim, where);
  const vocab = integer(fields, 'vocab_size', where);
  const maxPositions = integer(fields, 'max_position_embeddings', where, kind.defaults.maxPositions);
  const named = (what: keyof Architecture['fields']): string => {
    const names = kind.fields[what];
    return names.find((name) => fields[name] != null) ?? names[names.length - 1];
  };
  const ffn = parseFfn(kind, fields, named('ffn'), where),
    alike = parseMixers(kind, fields, { layers, hidden, heads: { kvHeads, headDim }, where }),
    windows = windowsOf(kind, fields, alike, where),
    turns = turnsOf(kind, fields, alike, where),
    differing = kind.byLayer ? parseLayers(fields, { queryHeads, kvHeads, headDim, ffn, vocab }, where) : undefined,
    { mixers = alike } = differing ?? {},
    full = differing?.mixers[layers - 1], // the last layer has no window
    { rope, local, listed } = parseRope(fields, {
      headDim: full?.headDim ?? headDim,
      ...(full && { localHeadDim: headDim }),
      ...{ maxPositions, layers, kind, where },
    });
  const bias = (of: boolean | string): boolean =>
    typeof of === 'boolean' ? of : boolean(fields, of, where, kind.defaults.biased ?? false);
  const bosId = tokenIds(fields, 'bos_token_id', vocab, where)[0],
    activation = activationOf(fields, kind, where);
  return {
    architecture: name,
    layers,
    mixers,
    queryHeads,
    hidden,
    ffn,
    ...(differing?.ffns && { ffns: differing.ffns }),
    ...(differing?.perLayer !== undefined && { perLayer: differing.perLayer }),
    ...optional('experts', parseExperts(kind.experts, fields, { layers, activation, where })),
    vocab,
    ropes: listed ?? ropesByLayer(rope, local, windows, turns),
    ...(kind.norms === 'asked' && { norms: boolean(fields, 'use_sandwich_norm', where, true) ? 'around' : 'before' }),
    attention: {
      scale: scaleOf(kind, fields, headDim, where),
      ...(kind.softcaps && optional('softcap', softcap(fields, 'attn_logit_softcapping', where, kind.softcaps.scores))),
      windows,
      ...optional('outputGate', gateOf(kind, fields, where)),
      ...optional('queryScale', queryScaleOf(kind, fields, maxPositions, where)),
      ...(kind.learnedSinks && { learnedSinks: true }),
    },
    biases: { qkv: bias(kind.biases.qkv), output: bias(kind.biases.output), ffn: bias(kind.biases.ffn) },
    activation,
    normEps: positive(fields, named('normEps'), where, kind.defaults.normEps),
    embeddingScale: kind.scaledEmbedding
      ? Math.fround(Math.sqrt(hidden))
      : kind.multipliers
        ? positive(fields, 'embedding_multiplier', where, 1)
        : 1,
    ...(kind.multipliers && {
      residualScale: positive(fields, 'residual_multiplier', where, 1),
      logitScale: 1 / positive(fields, 'logits_scaling', where, 1),
    }),
    ...(kind.softcaps &&
      optional('finalSoftcap', softcap(fields, 'final_logit_softcapping', where, kind.softcaps.logits))),
    maxPositions: Math.max(maxPositions, rope.reach ?? 0),
    tied: boolean(fields, named('tied'), where, kind.defaults.tied),
    ...optional('bosId', bosId),
    eosIds: tokenIds(fields, 'eos_token_id', vocab, where),
  };
}

/** Returns the token that ends a text where a config.json does not have `eos_token_id` at all: the class's, as in transformers. */
export function unwrittenEnd(json: unknown, where: string): number | undefined {
  const [name, fields] = architectureOf(object(json, where, 'the configuration'), where);
  return fields.eos_token_id === undefined ? architectures[name].end : undefined;
}

/** Returns a configuration with what the architecture's class makes of fields that a file lacks. */
function completed(kind: Architecture, fields: JsonFields, where: string): JsonFields {
  const { layerTypes: types } = kind;
  return {
    ...fields,
    ...ropeFields(kind, fields, where),
    ...(types &&
      fields.layer_types == null && {
        layer_types: Array.from(
          { length: integer(fields, 'num_hidden_layers', where, undefined, mostLayers) },
          (_, l) => (l === 0 ? types.first : types.repeat[l % types.repeat.length]),
        ),
      }),
  };
}

/** Returns whether a field says that experts are stored in MXFP4, which tensors say themselves. */
const ofExperts = ({ experts }: Architecture, field: string, value: unknown): boolean =>
  field === 'quantization_config' &&
  experts?.clamped === true &&
  typeof value === 'object' &&
  (value as JsonFields).quant_method === 'mxfp4';

/** Checks head counts. @throws KvError for heads that cannot be grouped or halved */
export function checkHeads(queryHeads: number, kvHeads: number, headDim: number, where: string): void {
  if (queryHeads % kvHeads !== 0)
    throw new KvError(
      where,
      `num_attention_heads must be a multiple of num_key_value_heads (${kvHeads}), got ${queryHeads}`,
    );
  if (headDim % 2 !== 0) throw new KvError(where, `head_dim must be even, got ${headDim}`);
}

/**
 * Returns the architecture of a config and the fields of its text model, which a model that also reads images keeps in
 * `text_config`; a field of the whole that the text model lacks counts too.
 * @throws KvError that lists the known architectures
 */
function architectureOf(fields: JsonFields, where: string): readonly [ArchitectureName, JsonFields] {
  const value = fields.model_type,
    known = Object.entries<Architecture>(architectures);
  const filled = (name: string, own: JsonFields, more?: JsonFields): readonly [ArchitectureName, JsonFields] => [
    name as ArchitectureName,
    { ...architectures[name as ArchitectureName].absent, ...more, ...own },
  ];
  if (typeof value === 'string' && Object.hasOwn(architectures, value)) return filled(value, fields);
  const aliased = known.find(([, { alias }]) => alias !== undefined && alias.text === value);
  if (aliased) return filled(aliased[0], fields, aliased[1].alias?.absent);
  const inner = known.flatMap(([name, { within, alias }]) => {
    if (value === undefined) return [];
    if (within === value) return [{ name, type: name, absent: {} }];
    return alias?.within === value ? [{ name, type: alias.text, absent: alias.absent }] : [];
  });
  if (inner.length > 0) {
    const text = object(fields.text_config, where, 'text_config'),
      { model_type: given = inner[0].type } = text,
      found = inner.find(({ type }) => type === given);
    if (found === undefined) {
      const types = inner.map(({ type }) => type).join(' or ');
      throw new KvError(where, `model_type of text_config must be ${types}, got ${show(given)}`);
    }
    return filled(found.name, { ...text, ...whole(fields, text) }, found.absent);
  }
  const names = [
    ...new Set(
      known.flatMap(([name, { within, alias }]) => [name, within ?? [], alias?.text ?? [], alias?.within ?? []].flat()),
    ),
  ];
  throw unknownArchitecture(where, { field: 'model_type', known: names, got: value, fields });
}

/** Returns what the whole model's configuration says of its text model. */
const whole = (fields: JsonFields, text: JsonFields): JsonFields => ({
  ...(fields.tie_word_embeddings != null && { tie_word_embeddings: fields.tie_word_embeddings }),
  ...Object.fromEntries(
    [...Object.keys(plainly), 'bos_token_id', 'eos_token_id']
      .filter((name) => text[name] == null && fields[name] != null)
      .map((name) => [name, fields[name]]),
  ),
});

/** Returns each layer's window from the window size; Infinity where a layer has none. */
export function slidingWindows(
  size: number | undefined,
  layers: number,
  slides: (layer: number) => boolean,
): readonly number[] {
  return Array.from({ length: layers }, (_, l) => (size !== undefined && slides(l) ? size : Infinity));
}

/** Returns which layers rotate heads by position: those with attention, except every n-th where there is such an n. */
export const turning = ({ unturned }: Architecture, mixers: readonly Mixer[], every = unturned): readonly boolean[] =>
  mixers.map(({ kind }, l) => kind === 'attention' && (every === undefined || (l + 1) % every !== 0));

/** Returns which layers rotate heads: `no_rope_layers` holds 1 for a layer that does. */
function turnsOf(kind: Architecture, fields: JsonFields, mixers: readonly Mixer[], where: string): readonly boolean[] {
  const { unturned, namedPositions } = kind,
    layers = mixers.length,
    { no_rope_layers: list, position_embedding_type: positions } = fields;
  if (namedPositions && positions !== 'rope') {
    if (positions == null || positions === 'nope') return mixers.map(() => false);
    throw new KvError(where, `position_embedding_type must be "rope", "nope" or absent, got ${show(positions)}`);
  }
  if (unturned === undefined) return turning(kind, mixers);
  if (list == null) return turning(kind, mixers, integer(fields, 'no_rope_layer_interval', where, unturned));
  if (Array.isArray(list) && list.length === layers && list.every((x) => x === 0 || x === 1))
    return list.map((x) => x === 1);
  throw new KvError(where, `no_rope_layers must be ${layers} of 0 and 1, got ${show(list)}`);
}

function scaleOf({ scale }: Architecture, fields: JsonFields, headDim: number, where: string): number {
  if (scale === 'one') return 1;
  if (scale === 'attention_multiplier') return positive(fields, scale, where, 1);
  return 1 / Math.sqrt(scale === 'head' ? headDim : positive(fields, scale, where, 256)); // sqrt is exact; the result of ** differs between versions of Node
}

function gateOf({ outputGate }: Architecture, fields: JsonFields, where: string): 'channel' | 'head' | undefined {
  if (outputGate === 'none') return undefined;
  return outputGate === 'channel' || boolean(fields, 'use_attention_gate', where, true) ? outputGate : undefined;
}

function queryScaleOf(
  kind: Architecture,
  fields: JsonFields,
  maxPositions: number,
  where: string,
): AttentionConfig['queryScale'] {
  const rope = fields.rope_parameters ?? fields.rope_scaling,
    given = kind.queryScale && rope != null ? object(rope, where, 'rope_parameters') : {};
  if (given.llama_4_scaling_beta == null) return undefined;
  return {
    by: positive(given, 'llama_4_scaling_beta', where),
    // only a scaling counts those of the whole
    every: originalPositions(
      fields,
      given,
      (given.rope_type ?? given.type ?? 'default') === 'default' ? undefined : maxPositions,
      where,
    ),
  };
}

function windowsOf(kind: Architecture, fields: JsonFields, mixers: readonly Mixer[], where: string): readonly number[] {
  const { windows, defaults } = kind,
    layers = mixers.length,
    asked = ['asked', 'from', 'unturned'].includes(windows as string);
  const wanted =
    windows !== 'none' &&
    fields.sliding_window !== null &&
    (!asked || boolean(fields, 'use_sliding_window', where, false));
  const absent = fields.sliding_window === undefined && defaults.window === undefined;
  const size = wanted && !absent ? integer(fields, 'sliding_window', where, defaults.window) : undefined;
  if (windows === 'none' || windows === 'all' || windows === 'asked') return slidingWindows(size, layers, () => true);
  if (fields.layer_types != null) {
    const types = typesOf(fields.layer_types, layers, where, kind.mixer && layerTypes[kind.mixer].state[0]);
    return slidingWindows(size, layers, (l) => types[l] === 'sliding_attention');
  }
  if (windows === 'unturned') {
    const turns = turnsOf(kind, fields, mixers, where);
    return slidingWindows(size, layers, (l) => !turns[l]);
  }
  if (windows === 'from') {
    const first =
      size === undefined || fields.max_window_layers === 0 ? 0 : integer(fields, 'max_window_layers', where, 28);
    return slidingWindows(size, layers, (l) => l >= first);
  }
  const every = integer(fields, 'sliding_window_pattern', where, windows.every);
  return slidingWindows(size, layers, slidesEvery(windows, every));
}

/** Returns which layers slide, where all but every n-th do. */
export const slidesEvery =
  ({ first = false }: { readonly first?: boolean }, every: number): ((layer: number) => boolean) =>
  (layer) =>
    (first ? layer : layer + 1) % every !== 0;

/** Returns the width of the feed-forward layer, rounded as LFM2's code rounds it. */
function parseFfn({ adjustedFfn }: Architecture, fields: JsonFields, name: string, where: string): number {
  const given = integer(fields, name, where);
  if (!adjustedFfn || !boolean(fields, 'block_auto_adjust_ff_dim', where, true)) return given;
  const narrowed = Math.trunc((2 * given) / 3),
    [factor, multiple] =
      fields.block_ffn_dim_multiplier === null
        ? [1, 1]
        : [positive(fields, 'block_ffn_dim_multiplier', where, 1), integer(fields, 'block_multiple_of', where, 256)];
  const width = multiple * Math.ceil(Math.trunc(factor * narrowed) / multiple);
  if (width > 0 && width < 2 ** 31) return width;
  throw new KvError(where, `${name} and the block_ fields must give a width from 1 to ${2 ** 31 - 1}, got ${width}`);
}

function typesOf(value: unknown, layers: number, where: string, other?: string): readonly unknown[] {
  const known = ['full_attention', 'sliding_attention', ...(other === undefined ? [] : [other])];
  if (Array.isArray(value) && value.length === layers && value.every((type) => known.includes(type as string)))
    return value;
  throw new KvError(where, `layer_types must be ${layers} of ${asList(known)}, got ${show(value)}`);
}

function softcap(fields: JsonFields, name: string, where: string, fallback: number | undefined): number | undefined {
  return fields[name] === null || (fields[name] === undefined && fallback === undefined)
    ? undefined
    : positive(fields, name, where, fallback);
}

function activationOf(fields: JsonFields, kind: Architecture, where: string): 'silu' | 'gelu' {
  const name = fields.hidden_activation == null ? 'hidden_act' : 'hidden_activation';
  const value = fields[name];
  if (value == null) return kind.activation;
  if (value === 'silu' || value === 'swish') return 'silu';
  // the convolution of a gated delta rule or a state space would have it too
  if (kind.mixer === 'gatedDelta' || kind.mixer === 'stateSpace')
    throw new KvError(where, `${name} must be "silu", got ${show(value)}`);
  if (value === 'gelu_pytorch_tanh' || value === 'gelu_new') return 'gelu';
  throw new KvError(where, `${name} must be "silu" or "gelu_pytorch_tanh", got ${show(value)}`);
}

/** Reads one id, a list of ids, or nothing. */
function tokenIds(fields: JsonFields, name: string, vocab: number, where: string): readonly number[] {
  const value = fields[name];
  const ids = value == null ? [] : Array.isArray(value) ? (value as unknown[]) : [value];
  return ids.map((id) => {
    if (Number.isInteger(id) && (id as number) >= 0 && (id as number) < vocab) return id as number;
    throw new KvError(where, `${name} must be a token id below vocab_size (${vocab}), got ${show(value)}`);
  });
}
