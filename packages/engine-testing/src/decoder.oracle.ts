import { readFileSync } from 'node:fs';

/** A weight of a checkpoint as numbers, row-major. */
interface Weight {
  readonly shape: readonly number[];
  readonly data: readonly number[];
}
export type TestWeights = Readonly<Record<string, Weight>>;
/** config.json as parsed, without the engine's own reader. */
export type Json = Readonly<Record<string, unknown>>;
type Vector = readonly number[];

/** Reads an f16 safetensors file, with the oracle's own reader. */
export function halfWeights(file: string): TestWeights {
  const bytes = readFileSync(file),
    start = 8 + Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.toString('utf8', 8, start)) as Record<
    string,
    { shape: number[]; data_offsets: [number, number] }
  >;
  const half = (x: number): number =>
    (x & 0x8000 ? -1 : 1) *
    ((x >> 10) & 31 ? 2 ** (((x >> 10) & 31) - 15) * (1 + (x & 1023) / 1024) : 2 ** -24 * (x & 1023));
  return Object.fromEntries(
    Object.entries(header)
      .filter(([name]) => name !== '__metadata__')
      .map(
        ([
          name,
          {
            shape,
            data_offsets: [from, to],
          },
        ]) => [
          name,
          {
            shape,
            data: Array.from({ length: (to - from) / 2 }, (_, i) => half(bytes.readUInt16LE(start + from + 2 * i))),
          },
        ],
      ),
  );
}

const dot = (a: Vector, b: Vector): number => a.reduce((sum, x, i) => sum + x * b[i], 0);
const add = (a: Vector, b: Vector): number[] => a.map((x, i) => x + b[i]);
const chunk = (x: Vector, size: number): number[][] =>
  Array.from({ length: x.length / size }, (_, i) => x.slice(i * size, (i + 1) * size));
const cap = (x: number, by: unknown): number => (typeof by === 'number' ? by * Math.tanh(x / by) : x);

/**
 * Returns logits of every position in float64, the whole sequence at once, written from the formulas of the models'
 * papers and of transformers' configuration, without sharing code with the engine. A query sees a slot that causality,
 * the layer's window and `sees` all allow. A token that a layer freezes keeps its hidden state there, and with `copies`
 * takes its keys and values from the layer below.
 */
export function oracleLogits(
  config: Json,
  weights: TestWeights,
  ids: readonly number[],
  sees: (layer: number, kvHead: number, query: number, position: number) => boolean = () => true,
  frozen: (layer: number, position: number) => boolean = () => false,
  copies = false,
): number[][] {
  const n = (name: string, fallback?: number): number => (config[name] ?? fallback) as number;
  const type = config.model_type as string,
    w = type === 'lfm2' ? asLlama(weights) : weights,
    gemma = type.startsWith('gemma'),
    behind = gemma || type === 'olmo2', // norms after the blocks
    before = type !== 'olmo2',
    plain = gemma ? Math.sqrt(n('hidden_size')) : type === 'granite' ? n('embedding_multiplier') : 1,
    joined = type === 'granite' ? n('residual_multiplier') : 1,
    H = n('num_attention_heads'),
    G = n('num_key_value_heads'),
    D = n('hidden_size'),
    d = n('head_dim', D / H);
  const times = (name: string, x: Vector, from = 0, rows = w[`${name}.weight`].shape[0]): number[] => {
    const bias = w[`${name}.bias`]?.data;
    return Array.from(
      { length: rows },
      (_, r) =>
        dot(w[`${name}.weight`].data.slice((from + r) * x.length, (from + r + 1) * x.length), x) +
        (bias?.[from + r] ?? 0),
    );
  };
  const norm = (name: string, x: Vector): number[] =>
    x.map(
      (v, i) =>
        (v / Math.sqrt(dot(x, x) / x.length + n('rms_norm_eps', n('norm_eps')))) *
        (w[`${name}.weight`].data[i] + (gemma ? 1 : 0)),
    );
  /** Normalises q or k, each head or all of a token's heads together, if the checkpoint has a gain for them. */
  const headNorm = (name: string, heads: readonly Vector[]): readonly Vector[] => {
    const gain = w[`${name}.weight`];
    if (gain === undefined) return heads;
    return gain.data.length === d ? heads.map((head) => norm(name, head)) : chunk(norm(name, heads.flat()), d);
  };
  const ropes = config.rope_parameters as Readonly<Record<string, Json>>,
    turns = (l: number): ((x: Vector, position: number) => readonly number[]) => {
      if ((config.no_rope_layers as number[] | undefined)?.[l] === 0) return (head) => head;
      if (ropes.full_attention === undefined) return rotation(config, ropes as Json, d, ids.length);
      return rotation(config, ropes[(config.layer_types as string[])[l]], d, ids.length);
    };
  const slides = (l: number): boolean => {
    if (config.sliding_window == null || type === 'llama') return false;
    if (type === 'mistral' || type === 'phi3') return true;
    return (config.layer_types as string[])[l] === 'sliding_attention' && (gemma || config.use_sliding_window === true);
  };
  let x: number[][] = ids.map((id) =>
    w['model.embed_tokens.weight'].data.slice(id * D, (id + 1) * D).map((v) => v * plain),
  );
  let below: readonly { readonly k: readonly Vector[]; readonly v: readonly Vector[] }[] = [];
  for (let l = 0; l < n('num_hidden_layers'); l++) {
    const at = (name: string): string => `model.layers.${l}.${name}`;
    const turn = turns(l);
    const fused = w[`${at('self_attn.qkv_proj')}.weight`] !== undefined,
      convolved = w[`${at('conv.conv')}.weight`];
    const thirds = convolved && x.map((row) => chunk(times(at('conv.in_proj'), norm(at('input_layernorm'), row)), D));
    /** The short convolution of a token: C times what a kernel of each channel makes of B * u of the last tokens. */
    const convolve = (t: number): number[] =>
      thirds![t][1].map((c, i) => {
        const length = convolved.shape[2];
        return Array.from({ length }, (_, j) => t + 1 - length + j)
          .map((at, j) => (at < 0 ? 0 : convolved.data[i * length + j] * thirds![at][0][i] * thirds![at][2][i]))
          .reduce((sum, part) => sum + c * part, c * (w[`${at('conv.conv')}.bias`]?.data[i] ?? 0));
      });
    const heads = convolved
      ? []
      : x.map((row, t) => {
          const y = before ? norm(at('input_layernorm'), row) : row;
          const part = (name: string, from: number, count: number): number[][] =>
            chunk(
              fused ? times(at('self_attn.qkv_proj'), y, from * d, count * d) : times(at(`self_attn.${name}_proj`), y),
              d,
            );
          const [q, k, v] = [part('q', 0, H), part('k', H, G), part('v', H + G, G)];
          return {
            q: headNorm(at('self_attn.q_norm'), q).map((head) => turn(head, t)),
            k: headNorm(at('self_attn.k_norm'), k).map((head) => turn(head, t)),
            v,
            ...(copies && frozen(l, t) && { k: below[t].k, v: below[t].v }),
          };
        });
    if (!convolved) below = heads;
    const scale =
      type === 'granite' ? n('attention_multiplier') : 1 / Math.sqrt(gemma ? n('query_pre_attn_scalar') : d);
    x = x.map((row, t) => {
      if (frozen(l, t)) return row;
      const attend = (): number[] =>
        Array.from({ length: H }, (_, h) => {
          const g = Math.floor(h / (H / G)),
            first = slides(l) ? Math.max(0, t + 1 - n('sliding_window')) : 0,
            seen = heads.slice(first, t + 1).filter((_, j) => sees(l, g, t, first + j));
          const scores = seen.map(({ k }) => cap(dot(heads[t].q[h], k[g]) * scale, config.attn_logit_softcapping));
          const top = Math.max(...scores),
            e = scores.map((s) => Math.exp(s - top)),
            total = e.reduce((a, b) => a + b);
          return Array.from({ length: d }, (_, c) => e.reduce((sum, p, j) => sum + (p / total) * seen[j].v[g][c], 0));
        }).flat();
      const mixed = convolved ? times(at('conv.out_proj'), convolve(t)) : times(at('self_attn.o_proj'), attend());
      const after = (name: string, y: Vector): Vector => (behind ? norm(at(name), y) : y).map((v) => v * joined);
      const y = add(row, after('post_attention_layernorm', mixed));
      const z = before ? norm(at(gemma ? 'pre_feedforward_layernorm' : 'post_attention_layernorm'), y) : y;
      const ffn = n('intermediate_size'); // where gate and up are one matrix
      const gate = fused ? times(at('mlp.gate_up_proj'), z, 0, ffn) : times(at('mlp.gate_proj'), z),
        up = fused ? times(at('mlp.gate_up_proj'), z, ffn, ffn) : times(at('mlp.up_proj'), z);
      const act = (v: number): number =>
        gemma ? (v / 2) * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (v + 0.044715 * v * v * v))) : v / (1 + Math.exp(-v));
      return add(
        y,
        after(
          'post_feedforward_layernorm',
          times(
            at('mlp.down_proj'),
            gate.map((v, i) => act(v) * up[i]),
          ),
        ),
      );
    });
  }
  const head = config.tie_word_embeddings === true ? 'model.embed_tokens' : 'lm_head';
  return x.map((row) =>
    times(head, norm('model.norm', row)).map((v) =>
      cap(v / (type === 'granite' ? n('logits_scaling') : 1), config.final_logit_softcapping),
    ),
  );
}

/** Returns weights of LFM2 under Llama's names. */
const asLlama = (weights: TestWeights): TestWeights =>
  Object.fromEntries(
    Object.entries(weights).map(([name, weight]) => [
      [
        ['embedding_norm', 'norm'],
        ['operator_norm', 'input_layernorm'],
        ['ffn_norm', 'post_attention_layernorm'],
        ['self_attn.out_proj', 'self_attn.o_proj'],
        ['q_layernorm', 'q_norm'],
        ['k_layernorm', 'k_norm'],
        ['feed_forward.w1', 'mlp.gate_proj'],
        ['feed_forward.w3', 'mlp.up_proj'],
        ['feed_forward.w2', 'mlp.down_proj'],
      ].reduce((text, [from, to]) => text.replace(from, to), name),
      weight,
    ]),
  );

/** Returns rotary position embedding with the scaling that config.json names. */
function rotation(config: Json, rope: Json, d: number, length: number): (x: Vector, position: number) => number[] {
  const n = (name: string): number => rope[name] as number;
  const rotary = d * ((rope.partial_rotary_factor as number | undefined) ?? 1),
    half = rotary / 2,
    plain = Array.from({ length: half }, (_, i) => n('rope_theta') ** ((-2 * i) / rotary));
  let [frequencies, size] = [plain, 1];
  if (rope.rope_type === 'linear') frequencies = plain.map((f) => f / n('factor'));
  if (rope.rope_type === 'llama3') {
    const original = n('original_max_position_embeddings');
    frequencies = plain.map((f) => {
      const wave = (2 * Math.PI) / f;
      if (wave < original / n('high_freq_factor')) return f;
      if (wave > original / n('low_freq_factor')) return f / n('factor');
      const smooth = (original / wave - n('low_freq_factor')) / (n('high_freq_factor') - n('low_freq_factor'));
      return ((1 - smooth) * f) / n('factor') + smooth * f;
    });
  }
  if (rope.rope_type === 'yarn') {
    const factor = n('factor'),
      or = (name: string, fallback: number): number => (rope[name] as number | undefined) ?? fallback,
      edge = (turns: number): number =>
        (rotary * Math.log(n('original_max_position_embeddings') / (2 * Math.PI * turns))) /
        (2 * Math.log(n('rope_theta'))),
      whole = rope.truncate !== false;
    const low = Math.max(0, whole ? Math.floor(edge(or('beta_fast', 32))) : edge(or('beta_fast', 32))),
      high = Math.min(rotary - 1, whole ? Math.ceil(edge(or('beta_slow', 1))) : edge(or('beta_slow', 1)));
    frequencies = plain.map((f, i) => {
      const kept = 1 - Math.min(1, Math.max(0, (i - low) / (high === low ? 0.001 : high - low)));
      return kept * f + ((1 - kept) * f) / factor;
    });
    const sharp = (by: number): number => (factor > 1 ? 1 + 0.1 * by * Math.log(factor) : 1);
    size =
      rope.mscale === undefined
        ? or('attention_factor', sharp(1))
        : or('attention_factor', sharp(n('mscale')) / sharp(n('mscale_all_dim')));
  }
  if (rope.rope_type === 'longrope') {
    const original = n('original_max_position_embeddings'),
      by = (length > original ? rope.long_factor : rope.short_factor) as number[];
    frequencies = plain.map((f, i) => f / by[i]);
    const ratio = (config.max_position_embeddings as number) / original;
    size = ratio > 1 ? Math.sqrt(1 + Math.log(ratio) / Math.log(original)) : 1;
  }
  return (x, position) =>
    x.map((v, i) => {
      if (i >= rotary) return v;
      const angle = position * frequencies[i % half];
      return size * (v * Math.cos(angle) + (i < half ? -x[i + half] : x[i - half]) * Math.sin(angle));
    });
}
