import { KvError } from '@kv/core';
import { boolean, integer, positive, show, type JsonFields } from '../read/fields.ts';

/**
 * Routed experts: feed-forward layers of which a router chooses a few for every token. The others are not computed, so
 * that a token costs what the chosen ones cost.
 */
export interface ExpertsConfig {
  /** Experts of a layer. */
  readonly count: number;
  /** Width of one expert. */
  readonly width: number;
  /** Whether each layer has experts; the others have a dense feed-forward layer of the model's width. */
  readonly layers: readonly boolean[];
  readonly routing: Routing;
  /** Whether the router adds to its scores a number of each expert that counts for choosing only. */
  readonly selectionBias: boolean;
  /** Whether the router's product and those of the experts add a bias. */
  readonly bias: boolean;
  /** The gated activation of an expert: that of the model, or gpt-oss's, see `ExpertActivation`. */
  readonly activation: ExpertActivation;
  /** An expert that every token passes, its result multiplied by the sigmoid of one more number of the router, if `gated`. */
  readonly shared?: { readonly width: number; readonly gated: boolean };
  /**
   * Whether router and experts take the residual stream by norms of their own, what the experts and the shared one give is
   * normed before it is added, and the weight of each expert has a factor (Gemma 4). The shared expert is then the layer's
   * dense feed-forward layer, whose width may differ by layer.
   *
   * @defaultValue false
   */
  readonly ownNorms?: boolean;
}

/** How a router's products become experts and their weights. */
export interface Routing {
  /** Experts of a token. */
  readonly active: number;
  /** What makes scores of the router's products: softmax over all experts, or each one's sigmoid. */
  readonly scores: 'softmax' | 'sigmoid';
  /** Whether the weights of the chosen experts are their scores divided by the sum of these, rather than the scores. */
  readonly normalised: boolean;
  /** Multiplies the weights. */
  readonly scale: number;
}

/**
 * Gated activation: `silu(gate) * up`, `gelu(gate) * up` (the tanh form), or `clamped`, gpt-oss's: with gate at most 7 and
 * up from -7 to 7, `(up + 1) * gate * sigmoid(1.702 gate)`.
 */
export type ExpertActivation = 'silu' | 'gelu' | 'clamped';

/** What an architecture's experts have that configurations do not say, and names of fields that they do. */
export interface ExpertsKind {
  readonly scores: Routing['scores'];
  /** Whether weights are normalised: always, or as `norm_topk_prob` of config.json says; in GGUF files always. */
  readonly normalised: 'always' | { readonly absent: boolean };
  readonly selectionBias: boolean;
  readonly bias: boolean;
  readonly clamped: boolean;
  /** Field that says whether a model has experts, by their number or by true; absent where all of the kind have. */
  readonly asked?: 'num_local_experts' | 'enable_moe_block';
  /** Present if an expert may be shared by all tokens: there is one where its width is given or has a default. */
  readonly shared?: {
    readonly width: 'shared_expert_intermediate_size' | 'shared_intermediate_size' | 'intermediate_size';
    readonly gated: boolean;
  };
  /** See `ExpertsConfig`. */
  readonly ownNorms?: boolean;
  /** Field of the number of a token's experts. */
  readonly active: 'num_experts_per_tok' | 'top_k_experts';
  /** Field of an expert's width; GGUF files without a key of it have that of `intermediate_size` in `feed_forward_length`. */
  readonly width: 'moe_intermediate_size' | 'intermediate_size';
  /** Which layers are dense: none, the first `num_dense_layers`, or as `mlp_only_layers` and `decoder_sparse_step` say. */
  readonly dense: 'none' | 'first' | 'listed';
  /** What applies where config.json says nothing. */
  readonly defaults: {
    readonly count?: number;
    readonly active?: number;
    readonly width?: number;
    readonly shared?: number;
  };
}

/** The largest number of experts of a layer: matrices of each are prepared. */
const mostExperts = 4096;

/**
 * Reads the experts of a config.json.
 * @throws KvError naming the field that is missing, out of range or asks for something this decoder does not compute
 */
export function parseExperts(
  kind: ExpertsKind | undefined,
  fields: JsonFields,
  {
    layers,
    activation,
    where,
  }: { readonly layers: number; readonly activation: 'silu' | 'gelu'; readonly where: string },
): ExpertsConfig | undefined {
  if (kind === undefined || !asked(kind, fields, where)) return undefined;
  const { defaults } = kind,
    name = fields.num_local_experts == null ? 'num_experts' : 'num_local_experts',
    count = integer(fields, name, where, defaults.count, mostExperts),
    other = fields.num_experts,
    biased = kind.selectionBias && boolean(fields, 'use_expert_bias', where, true);
  if (other != null && other !== count)
    throw new KvError(where, `num_experts must be ${count}, as num_local_experts is, got ${show(other)}`);
  if (kind.clamped)
    for (const [field, only] of [
      ['swiglu_alpha', 1.702],
      ['swiglu_limit', 7],
    ] as const)
      if (fields[field] != null && fields[field] !== only)
        throw new KvError(where, `${field} must be ${only} or absent, got ${show(fields[field])}`);
  return {
    count,
    width: integer(fields, kind.width, where, defaults.width),
    layers: expertLayers(kind, fields, layers, where),
    routing: {
      active: integer(fields, kind.active, where, defaults.active, count),
      scores: kind.scores,
      normalised: kind.normalised === 'always' || boolean(fields, 'norm_topk_prob', where, kind.normalised.absent),
      scale: positive(fields, 'routed_scaling_factor', where, 1),
    },
    selectionBias: biased,
    bias: kind.bias,
    activation: kind.clamped ? 'clamped' : activation,
    ...(kind.shared &&
      (fields[kind.shared.width] ?? defaults.shared) !== undefined && {
        shared: { width: integer(fields, kind.shared.width, where, defaults.shared), gated: kind.shared.gated },
      }),
    ...(kind.ownNorms && { ownNorms: true }),
  };
}

/** Returns whether a model has experts, where some of its architecture have none. */
function asked({ asked: field, defaults }: ExpertsKind, fields: JsonFields, where: string): boolean {
  if (field === undefined) return true;
  if (field === 'enable_moe_block') return boolean(fields, field, where, false);
  return integer(fields, field, where, defaults.count, mostExperts, 0) > 0;
}

function expertLayers({ dense }: ExpertsKind, fields: JsonFields, layers: number, where: string): readonly boolean[] {
  const all = Array.from({ length: layers }, (_, l) => l);
  if (dense === 'none') return all.map(() => true);
  if (dense === 'first') {
    const first = integer(fields, 'num_dense_layers', where, 2, layers, 0);
    return all.map((l) => l >= first);
  }
  const list = fields.mlp_only_layers ?? [],
    step = integer(fields, 'decoder_sparse_step', where, 1);
  if (!Array.isArray(list) || !list.every((l) => all[l as number] === l))
    throw new KvError(where, `mlp_only_layers must be a list of layers below ${layers}, got ${show(list)}`);
  return all.map((l) => !list.includes(l) && (l + 1) % step === 0);
}

/** What a GGUF file says of its experts: keys without the architecture's prefix, and which layers have a router. */
export interface ExpertKeys {
  readonly where: string;
  key(rest: string): string;
  has(rest: string): boolean;
  integer(rest: string, fallback?: number, most?: number, least?: number): number;
  positive(rest: string, fallback?: number): number;
  value(rest: string): unknown;
  /** Whether each layer has a router. */
  readonly routers: readonly boolean[];
  /** Whether some router's scores have a selection bias. */
  readonly selects: boolean;
  /** Width of the dense feed-forward layer, where that is the shared expert. */
  readonly dense: number | undefined;
}

/** How GGUF files number what makes scores. */
const gatingFunctions: Readonly<Record<Routing['scores'], readonly unknown[]>> = { softmax: [1, 3], sigmoid: [2] };

/**
 * Reads the experts of a GGUF file. llama.cpp normalises weights where the architecture does not say otherwise.
 * @throws KvError naming the key that is missing, out of range or asks for something this decoder does not compute
 */
export function expertsOfKeys(
  kind: ExpertsKind | undefined,
  activation: 'silu' | 'gelu',
  keys: ExpertKeys,
): ExpertsConfig | undefined {
  if (kind === undefined) return undefined;
  const count = keys.integer('expert_count', undefined, mostExperts),
    by = keys.value('expert_gating_func'),
    normalises = keys.value('expert_weights_norm') ?? true,
    scale = 'expert_weights_scale',
    width = kind.width === 'intermediate_size' ? keys.integer('feed_forward_length', 0, undefined, 0) : 0,
    shared = sharedWidth(kind, keys);
  if (by !== undefined && !gatingFunctions[kind.scores].includes(by))
    throw new KvError(
      keys.where,
      `${keys.key('expert_gating_func')} must be ${gatingFunctions[kind.scores][0]} or absent, got ${show(by)}`,
    );
  if (typeof normalises !== 'boolean')
    throw new KvError(keys.where, `${keys.key('expert_weights_norm')} must be true or false, got ${show(normalises)}`);
  return {
    count,
    width: keys.integer('expert_feed_forward_length', width > 0 ? width : undefined),
    layers: keys.routers,
    routing: {
      active: keys.integer('expert_used_count', undefined, count),
      scores: kind.scores,
      normalised: normalises,
      scale: keys.value(scale) === 0 ? 1 : keys.positive(scale, 1),
    },
    selectionBias: kind.selectionBias && keys.selects,
    bias: kind.bias,
    activation: kind.clamped ? 'clamped' : activation,
    ...(kind.shared && shared > 0 && { shared: { width: shared, gated: kind.shared.gated } }),
    ...(kind.ownNorms && { ownNorms: true }),
  };
}

/** Returns the width of a shared expert, 0 where there is none. */
function sharedWidth({ shared, ownNorms, defaults }: ExpertsKind, keys: ExpertKeys): number {
  const key = 'expert_shared_feed_forward_length';
  if (shared === undefined) return 0;
  if (ownNorms) return keys.dense ?? 0;
  return defaults.shared === undefined ? keys.integer(key, 0, undefined, 0) : keys.integer(key);
}

/** Returns the fields that `parseExperts` reads back unchanged. */
export function expertsJson(kind: ExpertsKind | undefined, experts: ExpertsConfig | undefined): JsonFields {
  if (kind === undefined || experts === undefined) return {};
  const { count, width, layers, routing, selectionBias, shared } = experts,
    dense = layers.flatMap((routed, l) => (routed ? [] : [l]));
  return {
    [kind.asked === 'num_local_experts' ? kind.asked : 'num_experts']: count,
    ...(kind.asked === 'enable_moe_block' && { enable_moe_block: true }),
    [kind.active]: routing.active,
    [kind.width]: width,
    norm_topk_prob: routing.normalised,
    routed_scaling_factor: routing.scale,
    use_expert_bias: selectionBias,
    mlp_only_layers: dense,
    num_dense_layers: dense.length,
    ...(kind.shared && shared && { [kind.shared.width]: shared.width }),
  };
}
