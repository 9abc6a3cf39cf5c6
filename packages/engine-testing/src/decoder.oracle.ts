import { readFileSync } from 'node:fs';
import { routedExperts } from './experts.oracle.ts';
import type { Json, TestWeights } from './oracle-weights.ts';
import { spaceOracle } from './state-space.oracle.ts';

export type { Json, TestWeights };
type Vector = readonly number[];

/** Reads a safetensors file of f16 and f32 numbers, with the oracle's own reader. */
export function halfWeights(file: string): TestWeights {
  const bytes = readFileSync(file),
    start = 8 + Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.toString('utf8', 8, start)) as Record<
    string,
    { dtype: string; shape: number[]; data_offsets: [number, number] }
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
            dtype,
            shape,
            data_offsets: [from, to],
          },
        ]) => [
          name,
          {
            shape,
            data:
              dtype === 'U8'
                ? [...bytes.subarray(start + from, start + to)]
                : dtype === 'F32'
                  ? Array.from({ length: (to - from) / 4 }, (_, i) => bytes.readFloatLE(start + from + 4 * i))
                  : Array.from({ length: (to - from) / 2 }, (_, i) => half(bytes.readUInt16LE(start + from + 2 * i))),
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
  { text_config: text, ...whole }: Json,
  weights: TestWeights,
  ids: readonly number[],
  sees: (layer: number, kvHead: number, query: number, position: number) => boolean = () => true,
  frozen: (layer: number, position: number) => boolean = () => false,
  copies = false,
): number[][] {
  const config: Json = { ...whole, ...(text as Json | undefined) },
    n = (name: string, fallback?: number): number => (config[name] ?? fallback) as number;
  const type = config.model_type as string,
    w = type.startsWith('lfm') || type === 'granitemoehybrid' || text !== undefined ? asLlama(weights, type) : weights,
    gemma = type.startsWith('gemma'),
    gemma4 = type === 'gemma4_text',
    granite = type.startsWith('granite'),
    qwen35 = type.startsWith('qwen3_5'),
    olmo = type === 'olmo2' || type === 'olmo3',
    behind = gemma || olmo || config.use_sandwich_norm === true, // norms after the blocks
    before = !olmo,
    plain = gemma ? Math.sqrt(n('hidden_size')) : granite ? n('embedding_multiplier') : 1,
    joined = granite ? n('residual_multiplier') : 1,
    H = n('num_attention_heads'),
    D = n('hidden_size'),
    L = n('num_hidden_layers'),
    own = config.per_layer_config as Readonly<Record<string, Json>> | undefined,
    of = (l: number, name: string, fallback?: number): number => (own?.[l]?.[name] ?? n(name, fallback)) as number,
    firstShared = L - n('num_kv_shared_layers', 0),
    kinds = config.layer_types as string[] | undefined,
    /** The layer whose keys and values a layer reads. */
    readsOf = (l: number): number => (l < firstShared ? l : kinds!.lastIndexOf(kinds![l], firstShared - 1)),
    P = n('hidden_size_per_layer_input', 0);
  const times = (name: string, x: Vector, from = 0, rows = w[`${name}.weight`].shape[0]): number[] => {
    const bias = w[`${name}.bias`]?.data;
    return Array.from(
      { length: rows },
      (_, r) =>
        dot(w[`${name}.weight`].data.slice((from + r) * x.length, (from + r + 1) * x.length), x) +
        (bias?.[from + r] ?? 0),
    );
  };
  const unit = (x: Vector): number[] =>
    x.map((v) => v / Math.sqrt(dot(x, x) / x.length + n('rms_norm_eps', n('norm_eps'))));
  const norm = (name: string, x: Vector): number[] =>
    unit(x).map(
      (v, i) =>
        v *
        (w[`${name}.weight`].data[i] + ((gemma && !gemma4) || (qwen35 && !name.endsWith('linear_attn.norm')) ? 1 : 0)),
    );
  /** Normalises q or k, each head or all of a token's heads together, if the checkpoint has a gain for them. */
  const headNorm = (name: string, heads: readonly Vector[], d: number): readonly Vector[] => {
    const gain = w[`${name}.weight`];
    if (gain === undefined) return heads;
    return gain.data.length === d ? heads.map((head) => norm(name, head)) : chunk(norm(name, heads.flat()), d);
  };
  const ropes = config.rope_parameters as Readonly<Record<string, Json>>,
    turns = (l: number): ((x: Vector, position: number) => readonly number[]) => {
      const d = of(l, 'head_dim', D / H);
      const listed = (config.layer_rope_theta as number[] | undefined)?.[l];
      if (listed === 0 || (type === 'granitemoehybrid' && config.position_embedding_type !== 'rope'))
        return (head) => head;
      if (listed !== undefined) return rotation(config, { ...ropes, rope_theta: listed }, d, ids.length);
      if ((config.no_rope_layers as number[] | undefined)?.[l] === 0) return (head) => head;
      if (ropes.full_attention === undefined) return rotation(config, ropes as Json, d, ids.length);
      const own = ropes[(config.layer_types as string[])[l]];
      return own === undefined ? (head) => head : rotation(config, own, d, ids.length); // none of a convolution
    };
  /** Ministral 3's queries grow with every stretch of as many tokens as there were positions in training. */
  const grown = (t: number): number =>
    type === 'ministral3'
      ? 1 +
        ((ropes as Json).llama_4_scaling_beta as number) *
          Math.log1p(Math.floor(t / ((ropes as Json).original_max_position_embeddings as number)))
      : 1;
  const slides = (l: number): boolean => {
    if (config.sliding_window == null || type === 'llama') return false;
    if (type === 'mistral' || type === 'ministral3' || type === 'phi3') return true;
    return (
      (config.layer_types as string[])[l] === 'sliding_attention' &&
      (gemma || granite || ['olmo3', 'lfm3', 'gpt_oss'].includes(type) || config.use_sliding_window === true)
    );
  };
  let x: number[][] = ids.map((id) =>
    w['model.embed_tokens.weight'].data.slice(id * D, (id + 1) * D).map((v) => v * plain),
  );
  /** What each layer takes of each token, from the embedding and a table. */
  const given =
    P === 0
      ? []
      : x.map((row, t) => {
          const told = chunk(times('model.per_layer_model_projection', row), P).map((part) =>
              norm(
                'model.per_layer_projection_norm',
                part.map((v) => v / Math.sqrt(D)),
              ),
            ),
            known = chunk(w['model.embed_tokens_per_layer.weight'].data.slice(ids[t] * L * P, (ids[t] + 1) * L * P), P);
          return told.map((part, l) => part.map((v, i) => (v + known[l][i] * Math.sqrt(P)) / Math.SQRT2));
        });
  const all: (readonly { readonly k: readonly Vector[]; readonly v: readonly Vector[] }[])[] = [];
  let below: readonly { readonly k: readonly Vector[]; readonly v: readonly Vector[] }[] = [];
  for (let l = 0; l < L; l++) {
    const d = of(l, 'head_dim', D / H),
      G = of(l, 'num_key_value_heads'),
      shared = all[readsOf(l)];
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
    const linear = (config.layer_types as string[] | undefined)?.[l] === 'linear_attention',
      spaced = w[at('mamba.A_log')] !== undefined,
      recalled = spaced
        ? stateSpace(
            config,
            x.map((row) => times(at('mamba.in_proj'), norm(at('input_layernorm'), row))),
            (name) => w[at(`mamba.${name}`)]?.data,
            n('rms_norm_eps'),
          )
        : linear
          ? gatedDelta(
              config,
              x.map((row) => norm(at('input_layernorm'), row)),
              {
                times: (name, y) => times(at(`linear_attn.${name}`), y),
                weight: (name) => w[at(`linear_attn.${name}`)].data,
              },
              (head) => norm(at('linear_attn.norm'), head),
            )
          : [];
    const heads =
      convolved || linear || spaced
        ? []
        : x.map((row, t) => {
            const y = before ? norm(at('input_layernorm'), row) : row;
            const part = (name: string, from: number, count: number): number[][] =>
              chunk(
                fused
                  ? times(at('self_attn.qkv_proj'), y, from * d, count * d)
                  : times(at(`self_attn.${name}_proj`), y),
                d,
              );
            const wide = part('q', 0, H),
              q = qwen35 ? wide.filter((_, i) => i % 2 === 0) : wide;
            const told = (): { readonly k: readonly Vector[]; readonly v: readonly Vector[] } => {
              const k = part('k', H, G),
                v = gemma4 && w[`${at('self_attn.v_proj')}.weight`] === undefined ? k : part('v', H + G, G);
              return {
                k: headNorm(at('self_attn.k_norm'), k, d).map((head) => turn(head, t)),
                v: gemma4 ? v.map(unit) : v,
              };
            };
            return {
              gate: qwen35
                ? wide.filter((_, i) => i % 2 === 1)
                : config.use_attention_gate === true
                  ? times(at('self_attn.g_proj'), y).map((gate) => Array.from({ length: d }, () => gate))
                  : [],
              q: headNorm(at('self_attn.q_norm'), q, d).map((head) => turn(head, t).map((v) => v * grown(t))),
              ...(shared ? { k: shared[t].k, v: shared[t].v } : told()),
              ...(copies && frozen(l, t) && { k: below[t].k, v: below[t].v }),
            };
          });
    if (!convolved && !linear && !spaced) below = all[l] = heads;
    const scale = gemma4
      ? 1
      : granite
        ? n('attention_multiplier')
        : 1 / Math.sqrt(gemma ? n('query_pre_attn_scalar') : d);
    x = x.map((row, t) => {
      if (frozen(l, t)) return row;
      const attend = (): number[] =>
        Array.from({ length: H }, (_, h) => {
          const g = Math.floor(h / (H / G)),
            first = slides(l) ? Math.max(0, t + 1 - n('sliding_window')) : 0,
            seen = heads.slice(first, t + 1).filter((_, j) => sees(l, g, t, first + j));
          const scores = seen.map(({ k }) => cap(dot(heads[t].q[h], k[g]) * scale, config.attn_logit_softcapping));
          const sink = w[at('self_attn.sinks')]?.data[h] ?? -Infinity,
            top = Math.max(...scores, sink),
            e = scores.map((s) => Math.exp(s - top)),
            total = e.reduce((a, b) => a + b, Math.exp(sink - top));
          return Array.from(
            { length: d },
            (_, c) =>
              e.reduce((sum, p, j) => sum + (p / total) * seen[j].v[g][c], 0) *
              (heads[t].gate.length > 0 ? sigmoid(heads[t].gate[h][c]) : 1),
          );
        }).flat();
      const mixed = convolved
        ? times(at('conv.out_proj'), convolve(t))
        : linear
          ? times(at('linear_attn.out_proj'), recalled[t])
          : spaced
            ? times(at('mamba.out_proj'), recalled[t])
            : times(at('self_attn.o_proj'), attend());
      const after = (name: string, y: Vector): Vector => (behind ? norm(at(name), y) : y).map((v) => v * joined);
      const y = add(row, after('post_attention_layernorm', mixed));
      const own = gemma || type === 'lfm3' ? 'pre_feedforward_layernorm' : 'post_attention_layernorm',
        z = before ? norm(at(own), y) : y;
      const act = (v: number): number =>
        gemma ? (v / 2) * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (v + 0.044715 * v * v * v))) : v / (1 + Math.exp(-v));
      const dense = (): number[] | undefined => {
        if (w[`${at('mlp.down_proj')}.weight`] === undefined) return undefined;
        const both = w[`${at('mlp.gate_up_proj')}.weight`]?.shape[0], // where gate and up are one matrix
          ffn = both && both / 2;
        const gate = ffn ? times(at('mlp.gate_up_proj'), z, 0, ffn) : times(at('mlp.gate_proj'), z),
          up = ffn ? times(at('mlp.gate_up_proj'), z, ffn, ffn) : times(at('mlp.up_proj'), z);
        return times(
          at('mlp.down_proj'),
          gate.map((v, i) => act(v) * up[i]),
        );
      };
      const layer = at('x').slice(0, -2),
        told = w[at('router.scale')]?.data, // Gemma 4's router and experts have norms of their own
        routed = told
          ? routedExperts(
              config,
              w,
              layer,
              norm(at('pre_feedforward_layernorm_2'), y),
              unit(y).map((v, i) => (v * told[i]) / Math.sqrt(D)),
            )
          : routedExperts(config, w, layer, z),
        parts = [dense(), routed].flatMap((part, i) =>
          part ? [told ? norm(at(`post_feedforward_layernorm_${i + 1}`), part) : part] : [],
        ),
        fed = add(y, after('post_feedforward_layernorm', parts.reduce(add)));
      const joinedInput = given[t] && times(at('per_layer_input_gate'), fed).map((v, i) => act(v) * given[t][l][i]),
        out = joinedInput
          ? add(fed, norm(at('post_per_layer_input_norm'), times(at('per_layer_projection'), joinedInput)))
          : fed;
      return out.map((v) => v * (w[at('layer_scalar')]?.data[0] ?? 1));
    });
  }
  const head = config.tie_word_embeddings === true ? 'model.embed_tokens' : 'lm_head';
  return x.map((row) =>
    times(head, norm('model.norm', row)).map((v) =>
      cap(v / (granite ? n('logits_scaling') : 1), config.final_logit_softcapping),
    ),
  );
}

const sigmoid = (x: number): number => 1 / (1 + Math.exp(-x));

/** Weights of a layer's gated delta rule, and products with them. */
interface DeltaWeights {
  times(name: string, x: Vector): number[];
  weight(name: string): Vector;
}

/** Returns what Qwen 3.5's gated delta rule makes of rows, token after token, before its output product. */
function gatedDelta(
  config: Json,
  rows: readonly Vector[],
  { times, weight }: DeltaWeights,
  norm: (head: Vector) => number[],
): number[][] {
  const n = (name: string): number => config[`linear_${name}`] as number,
    [Hk, Hv, dk, dv, L] = ['num_key_heads', 'num_value_heads', 'key_head_dim', 'value_head_dim', 'conv_kernel_dim'].map(
      n,
    ),
    kernel = weight('conv1d.weight'),
    before = rows.map((row) => times('in_proj_qkv', row)),
    silu = (x: number): number => x * sigmoid(x),
    unit = (x: Vector, by = 1): number[] => x.map((v) => (v * by) / Math.sqrt(dot(x, x) + 1e-6));
  const memory = Array.from({ length: Hv }, () => Array.from({ length: dk }, () => new Array<number>(dv).fill(0)));
  return rows.map((row, t) => {
    const mixed = before[t].map((_, c) =>
      silu(
        Array.from({ length: L }, (_, j) => kernel[c * L + j] * (before[t + 1 - L + j]?.[c] ?? 0)).reduce(
          (a, b) => a + b,
        ),
      ),
    );
    const q = chunk(mixed.slice(0, Hk * dk), dk).map((head) => unit(head, dk ** -0.5)),
      k = chunk(mixed.slice(Hk * dk, 2 * Hk * dk), dk).map((head) => unit(head)),
      v = chunk(mixed.slice(2 * Hk * dk), dv),
      [z, b, a] = ['in_proj_z', 'in_proj_b', 'in_proj_a'].map((name) => times(name, row));
    return memory.flatMap((S, h) => {
      const from = Math.floor((h * Hk) / Hv),
        kept = Math.exp(-Math.exp(weight('A_log')[h]) * Math.log1p(Math.exp(a[h] + weight('dt_bias')[h])));
      for (const line of S) for (const c of line.keys()) line[c] *= kept;
      const read = (by: Vector): number[] => v[h].map((_, c) => S.reduce((sum, line, i) => sum + line[c] * by[i], 0));
      const told = read(k[from]);
      for (const [i, line] of S.entries())
        for (const c of line.keys()) line[c] += k[from][i] * sigmoid(b[h]) * (v[h][c] - told[c]);
      return norm(read(q[from])).map((o, c) => o * silu(z[h * dv + c]));
    });
  });
}

/** Returns what Granite 4.0's state space makes of rows, `[z | x | B | C | dt]` each, before its output product. */
function stateSpace(config: Json, rows: readonly Vector[], weight: (name: string) => Vector, eps: number): number[][] {
  const n = (name: string): number => config[`mamba_${name}`] as number,
    [heads, headDim, groups, stateDim, L] = ['n_heads', 'd_head', 'n_groups', 'd_state', 'd_conv'].map(n),
    [least, most] = config.time_step_limit as readonly unknown[],
    run = (heads * headDim) / groups;
  return spaceOracle(rows, {
    ...{ heads, headDim, groups, stateDim, bias: weight('conv1d.bias') as Vector | undefined },
    kernel: chunk(weight('conv1d.weight'), L),
    decay: weight('A_log').map((x) => -Math.exp(x)),
    timeBias: weight('dt_bias'),
    skip: weight('D'),
    timeStep: [least as number, typeof most === 'number' ? most : Infinity],
  }).map((row) =>
    chunk(row, run).flatMap((part, g) =>
      part.map((v, i) => (v / Math.sqrt(dot(part, part) / run + eps)) * weight('norm.weight')[g * run + i]),
    ),
  );
}

/** Returns weights of LFM2, LFM3 and Granite 4.0, and of a text model within a larger one, under Llama's names. */
const asLlama = (weights: TestWeights, type: string): TestWeights => {
  const names =
    type === 'lfm3'
      ? [
          ...renamed,
          ['post_operator_norm', 'post_attention_layernorm'],
          ['post_ffn_norm', 'post_feedforward_layernorm'],
        ]
      : renamed;
  return Object.fromEntries(
    Object.entries(weights).map(([name, weight]) => [
      [
        ...names,
        ['.operator_norm', '.input_layernorm'],
        ['.ffn_norm', type === 'lfm3' ? '.pre_feedforward_layernorm' : '.post_attention_layernorm'],
      ].reduce((text, [from, to]) => text.replace(from, to), name),
      weight,
    ]),
  );
};
const renamed = [
  ['model.language_model.', 'model.'],
  ['embedding_norm', 'norm'],
  ['self_attn.out_proj', 'self_attn.o_proj'],
  ['q_layernorm', 'q_norm'],
  ['k_layernorm', 'k_norm'],
  ['feed_forward.w1', 'mlp.gate_proj'],
  ['feed_forward.w3', 'mlp.up_proj'],
  ['feed_forward.w2', 'mlp.down_proj'],
  ['shared_mlp.input_linear', 'mlp.gate_up_proj'],
  ['shared_mlp.output_linear', 'mlp.down_proj'],
];

/** Returns rotary position embedding with the scaling that config.json names. */
function rotation(config: Json, rope: Json, d: number, length: number): (x: Vector, position: number) => number[] {
  const n = (name: string): number => rope[name] as number;
  const part = (rope.partial_rotary_factor as number | undefined) ?? 1,
    rotary = rope.rope_type === 'proportional' ? d : d * part,
    half = rotary / 2,
    plain = Array.from({ length: half }, (_, i) => n('rope_theta') ** ((-2 * i) / rotary));
  let [frequencies, size] = [plain, 1];
  if (rope.rope_type === 'proportional') {
    const turning = Math.floor((part * d) / 2);
    frequencies = plain.map((f, i) => (i < turning ? f / ((rope.factor as number | undefined) ?? 1) : 0));
  }
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
