import ndarray from 'ndarray';
import type { NdArray } from 'ndarray';
import ops from 'ndarray-ops';
import type { ModelConfig } from '@kv/models';

/**
 * Weights of a float64 Llama (with the biases of Qwen 2 and the head norms of Qwen 3 if the weights have them). The
 * oracle runs one token at a time over caches that a test may cut; it is independent of the engine, and slow.
 */
export type Weights64 = Readonly<Record<string, NdArray<Float64Array>>>;
/** Cached tokens of one KV head: position, key after RoPE, value. */
interface Entry {
  readonly position: number;
  key: Float64Array;
  /** Key before RoPE, and the position that it is rotated by. */
  readonly plain: Float64Array;
  rotation: number;
  readonly value: Float64Array;
  /** Attention received from every query so far, by query head of the group. */
  readonly received: number[];
}
export interface Oracle64 {
  /** Feeds one token and returns its logits. */
  feed(id: number): Float64Array;
  /** `[layer][kvHead]` */
  readonly cache: Entry[][][];
  /**
   * Rotates each head's keys again, to consecutive positions that end where the longest head's end, from 0 on, and a
   * query like the last key that it sees. Returns the next position.
   */
  rebase(): number;
  /** Queries after RoPE of every token, `[layer][token][queryHead]`. */
  readonly queries: Float64Array[][][];
}

function dot(a: Float64Array, b: Float64Array): number {
  let s = 0;
  for (let i = 0; i < a.length; i++) s += a[i] * b[i];
  return s;
}
/** Returns w times x. */
const times = (w: NdArray<Float64Array>, x: Float64Array): Float64Array =>
  Float64Array.from({ length: w.shape[0] }, (_, r) => dot(w.data.subarray(r * x.length, (r + 1) * x.length), x));

function norm(x: Float64Array, weight: Float64Array, eps: number): Float64Array {
  const scale = 1 / Math.sqrt(dot(x, x) / x.length + eps);
  return x.map((v, i) => v * scale * weight[i]);
}
function turn(x: Float64Array, position: number, theta: number): Float64Array {
  const half = x.length / 2;
  return x.map((v, i) => {
    const f = i % half,
      angle = position * theta ** (-f / half);
    return v * Math.cos(angle) + (i < half ? -x[i + half] : x[i - half]) * Math.sin(angle);
  });
}
/** softmax(q·k / sqrt(d)) over entries. */
function attention(q: Float64Array, entries: readonly Entry[]): Float64Array {
  const s = Float64Array.from(entries, (e) => dot(q, e.key) / Math.sqrt(q.length)),
    top = Math.max(...s),
    e = ndarray(
      s.map((v) => Math.exp(v - top)),
      [s.length],
    );
  ops.divseq(e, ops.sum(e));
  return e.data;
}

/** @param slotsOf by layer, the earlier layer whose keys and values it reads @defaultValue its own */
export function oracle64(config: ModelConfig, w: Weights64, slotsOf: readonly number[] = []): Oracle64 {
  const {
    layers: L,
    queryHeads: H,
    normEps,
    ropes: [{ theta }],
    mixers: [mixer],
  } = config;
  if (mixer.kind !== 'attention') throw new Error('expected attention in every layer');
  const { kvHeads: G, headDim: d } = mixer;
  const readers = Array.from({ length: L }, (_, own) =>
    Array.from({ length: L }, (_x, l) => l).filter((l) => (slotsOf[l] ?? l) === own),
  );
  const cache: Entry[][][] = Array.from({ length: L }, () => Array.from({ length: G }, () => []));
  const queries: Float64Array[][][] = Array.from({ length: L }, () => []),
    plainQueries: Float64Array[][][] = Array.from({ length: L }, () => []);
  let position = 0,
    rotation = 0;
  const biased = (x: Float64Array, bias: Weights64[string] | undefined): Float64Array => (bias ? sum(x, bias.data) : x);
  /** Qwen 3 normalises each head of q and k. */
  const headNorm = (x: Float64Array, weight: Weights64[string] | undefined): Float64Array =>
    weight
      ? Float64Array.from(
          Array.from({ length: x.length / d }, (_, i) => [
            ...norm(x.slice(i * d, (i + 1) * d), weight.data, normEps),
          ]).flat(),
        )
      : x;
  const vec = (name: string): Float64Array => w[name].data;
  return {
    cache,
    queries,
    rebase() {
      rotation = Math.max(...cache.flat().map((entries) => entries.length));
      for (const entries of cache.flat())
        entries.forEach((e, i) => {
          e.rotation = rotation - entries.length + i;
          e.key = turn(e.plain, e.rotation, theta);
        });
      for (const [l, tokens] of plainQueries.entries())
        queries[l] = tokens.map((heads, t) =>
          heads.map((q, h) =>
            turn(q, cache[l][Math.floor((h * G) / H)].filter((e) => e.position <= t).at(-1)?.rotation ?? 0, theta),
          ),
        );
      return rotation;
    },
    feed(id) {
      let x: Float64Array = Float64Array.from({ length: config.hidden }, (_, i) =>
        w['model.embed_tokens.weight'].get(id, i),
      );
      for (let l = 0; l < L; l++) {
        const at = (part: string): string => `model.layers.${l}.${part}.weight`;
        const h = norm(x, vec(at('input_layernorm')), normEps);
        const own = slotsOf[l] ?? l,
          place = readers[own].indexOf(l),
          several = readers[own].length;
        const [q, k, v] = ['q', 'k', 'v'].map((p) =>
          headNorm(
            biased(times(w[at(`self_attn.${p}_proj`)], h), w[`model.layers.${l}.self_attn.${p}_proj.bias`]),
            w[at(`self_attn.${p}_norm`)],
          ),
        ) as [Float64Array, Float64Array, Float64Array];
        for (let g = 0; own === l && g < G; g++)
          cache[l][g].push({
            position,
            plain: k.slice(g * d, (g + 1) * d),
            rotation,
            key: turn(k.slice(g * d, (g + 1) * d), rotation, theta),
            value: v.slice(g * d, (g + 1) * d),
            received: new Array<number>((several * H) / G).fill(0),
          });
        const heads: Float64Array[] = [],
          out = new Float64Array(H * d);
        for (let hh = 0; hh < H; hh++) {
          const entries = cache[own][Math.floor((hh * G) / H)],
            turned = turn(q.slice(hh * d, (hh + 1) * d), rotation, theta);
          heads.push(turned);
          attention(turned, entries).forEach((a, i) => {
            entries[i].received[(place * H) / G + (hh % (H / G))] += a;
            for (let c = 0; c < d; c++) out[hh * d + c] += a * entries[i].value[c];
          });
        }
        // a layer's queries are those of all that read its slots: KV head by KV head
        if (place === 0) queries[own].push([]);
        const all = queries[own].at(-1)!,
          before = all.length / G;
        for (let g = G - 1; g >= 0; g--)
          all.splice((g + 1) * before, 0, ...heads.slice((g * H) / G, ((g + 1) * H) / G));
        plainQueries[l].push(Array.from({ length: H }, (_, hh) => q.slice(hh * d, (hh + 1) * d)));
        x = sum(x, times(w[at('self_attn.o_proj')], out));
        const y = norm(x, vec(at('post_attention_layernorm')), normEps),
          gate = times(w[at('mlp.gate_proj')], y),
          up = times(w[at('mlp.up_proj')], y);
        x = sum(
          x,
          times(
            w[at('mlp.down_proj')],
            gate.map((g, i) => (g / (1 + Math.exp(-g))) * up[i]),
          ),
        );
      }
      position++;
      rotation++;
      return times(
        w[config.tied ? 'model.embed_tokens.weight' : 'lm_head.weight'],
        norm(x, vec('model.norm.weight'), normEps),
      );
    },
  };
}
const sum = (a: Float64Array, b: Float64Array): Float64Array => a.map((v, i) => v + b[i]);

/**
 * Returns the scores that the named policies give to the entries of a layer, `[kvHead][slot]`;
 * forced slots get Infinity.
 */
export const scores64: Readonly<
  Record<
    string,
    (o: Oracle64, layer: number, options?: { window?: number; kernel?: number; sinks?: number }) => number[][]
  >
> = {
  streaming: (o, l, { sinks = 4 } = {}) =>
    o.cache[l].map((entries) => entries.map((e) => (e.position < sinks ? Infinity : e.position))),
  knorm: (o, l) => o.cache[l].map((entries) => entries.map((e) => -Math.sqrt(dot(e.key, e.key)))),
  observed: (o, l) =>
    o.cache[l].map((entries) =>
      entries.map((e) => e.received.reduce((a, b) => a + b) / e.received.length / (o.queries[l].length - e.position)),
    ),
  tova(o, l) {
    const last = o.queries[l].at(-1)!,
      G = o.cache[l].length;
    const rows = last.map((q, h) => attention(q, o.cache[l][Math.floor((h * G) / last.length)]));
    return o.cache[l].map((entries) =>
      entries.map((_, i) => (i === entries.length - 1 ? Infinity : rows.reduce((a, r) => a + r[i], 0) / rows.length)),
    );
  },
  snapkv(o, l, { window = 16, kernel = 5 } = {}) {
    const recent = o.queries[l].slice(-window),
      G = o.cache[l].length,
      R = recent[0].length / G,
      T = o.queries[l].length;
    return o.cache[l].map((entries, g) => {
      const n = entries.length,
        end = n - window,
        total = new Array<number>(n).fill(0);
      for (let r = 0; r < R; r++) {
        const mean = new Array<number>(n).fill(0);
        recent.forEach((heads, i) => {
          const seen = entries.filter((e) => e.position <= T - recent.length + i);
          attention(heads[g * R + r], seen).forEach((a, j) => {
            mean[j] += a / recent.length;
          });
        });
        for (let i = 0; i < end; i++)
          for (let j = Math.max(0, i - (kernel - 1) / 2); j <= Math.min(end - 1, i + (kernel - 1) / 2); j++)
            total[i] += mean[j] / kernel / R;
      }
      return total.map((s, i) => (i >= end ? Infinity : s));
    });
  },
};

/** Returns the slots of the k highest scores, ties to the lower slot, ascending. */
export const best = (scores: readonly number[], k: number): number[] =>
  scores
    .map((s, i) => ({ s, i }))
    .sort((a, b) => (a.s === b.s ? a.i - b.i : b.s - a.s))
    .slice(0, k)
    .map(({ i }) => i)
    .sort((a, b) => a - b);
/** Cuts the oracle's cache of a layer to these slots of each KV head. */
export const cut = (o: Oracle64, layer: number, kept: readonly (readonly number[])[]): void => {
  o.cache[layer] = o.cache[layer].map((entries, g) => kept[g].map((slot) => entries[slot]));
};
