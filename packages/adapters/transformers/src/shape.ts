import { KvError } from '@kv/core';

type Fields = Readonly<Record<string, unknown>>;

/** The used part of the metadata of a session's input. */
interface Input {
  readonly name: string;
  readonly type?: string;
  readonly shape?: readonly (number | string)[];
}
/** The used part of a loaded model of transformers.js. */
export interface TransformersModel {
  readonly config: Fields;
  readonly sessions: Readonly<
    Record<string, { readonly inputNames: readonly string[]; readonly inputMetadata: readonly Input[] }>
  >;
}

/** The shape of a decoder, from its configuration and session. */
export interface SessionShape {
  readonly layers: number;
  readonly queryHeads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  /** The cache's element type, `float32` or `float16`. */
  readonly type: string;
  /** Whether the graph derives positions from the attention mask instead of an input. */
  readonly fromMask: boolean;
  /** Factor applied to q·k. */
  readonly scale: number;
}

/**
 * Returns the shape of a loaded decoder. @throws KvError for a model that has not only attention caches, or has sliding
 * windows.
 */
export function shapeOf({ config, sessions }: Partial<TransformersModel> = {}): SessionShape {
  const refuse = (want: string, got: string): never => {
    throw new KvError('withPolicy', `expected ${want}, got ${got}`);
  };
  if (typeof config !== 'object' || typeof sessions !== 'object')
    return refuse('a model that transformers.js has loaded', 'something without config and sessions');
  const kind = String(config.model_type ?? 'a model without model_type');
  if (config.is_encoder_decoder === true || sessions.decoder_model_merged)
    return refuse('a decoder-only model', `${kind}, an encoder-decoder or a model of several parts`);
  const inputs = sessions.model?.inputMetadata ?? [],
    names = inputs.map(({ name }) => name),
    past = names.filter((name) => name.startsWith('past')),
    keys = past.filter((name) => /^past_key_values\.\d+\.key$/.test(name));
  if (keys.length === 0)
    return refuse(
      'a model with a cache (inputs past_key_values.N.key and .value)',
      `${kind} with ${names.join(', ') || 'none'}`,
    );
  const other = past.find((name) => !/^past_key_values\.\d+\.(?:key|value)$/.test(name));
  if (other !== undefined || past.length !== 2 * keys.length)
    return refuse('layers of attention alone', `${kind} with the input ${other ?? past.join(', ')}`);
  const window = windowOf(config);
  if (window !== undefined)
    return refuse(
      'a model whose layers see all slots, since an export counts a sliding window in slots and not in positions',
      `${kind} with a window of ${window}`,
    );
  const [key] = inputs.filter(({ name }) => name === keys[0]),
    size = (axis: number): number | undefined => (typeof key.shape?.[axis] === 'number' ? key.shape[axis] : undefined),
    queryHeads = Number(config.num_attention_heads ?? config.n_head),
    headDim = size(3) ?? Number(config.head_dim ?? Number(config.hidden_size) / queryHeads),
    kvHeads = size(1) ?? Number(config.num_key_value_heads ?? queryHeads);
  for (const [name, n] of Object.entries({
    num_attention_heads: queryHeads,
    num_key_value_heads: kvHeads,
    head_dim: headDim,
  }))
    if (!(Number.isInteger(n) && n > 0)) return refuse(`a config.json that says ${name}`, String(n));
  const { query_pre_attn_scalar: scalar, attention_multiplier: multiplier } = config;
  return {
    layers: keys.length,
    queryHeads,
    kvHeads,
    headDim,
    type: key.type ?? 'float32',
    fromMask: !names.includes('position_ids'),
    scale: typeof multiplier === 'number' ? multiplier : 1 / Math.sqrt(typeof scalar === 'number' ? scalar : headDim),
  };
}

/** Returns the sliding window of a model's layers, if it is shorter than the context. */
function windowOf(config: Fields): number | undefined {
  const {
    sliding_window: window,
    use_sliding_window: used,
    layer_types: types,
    max_position_embeddings: most,
  } = config;
  if (typeof window !== 'number' || used === false || window >= Number(most ?? Infinity)) return undefined;
  if (Array.isArray(types)) return types.includes('sliding_attention') ? window : undefined;
  if (/^qwen/.test(String(config.model_type))) return used === true ? window : undefined;
  return window;
}
