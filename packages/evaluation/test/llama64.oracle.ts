import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** A token that a KV head remembers. */
interface Slot {
  readonly position: number;
  readonly key: readonly number[];
  readonly value: readonly number[];
}
export interface Llama64 {
  /** Feeds one token: its logits. */
  feed(id: number): readonly number[];
  /** Leaves only slots at these positions, in every layer and KV head. */
  keep(positions: (all: readonly number[]) => readonly number[]): void;
}

const dot = (a: readonly number[], b: readonly number[]): number => a.reduce((sum, x, i) => sum + x * b[i], 0);

/** A tiny Llama checkpoint in float64, a token at a time: from its files alone, with no code of the engine. */
export function llama64(folder: string): Llama64 {
  const config = JSON.parse(readFileSync(join(folder, 'config.json'), 'utf8')) as Readonly<Record<string, number>>,
    bytes = readFileSync(join(folder, 'model.safetensors')),
    start = 8 + Number(bytes.readBigUInt64LE()),
    header = JSON.parse(bytes.toString('utf8', 8, start)) as Readonly<
      Record<string, { readonly shape: readonly number[]; readonly data_offsets: readonly number[] }>
    >;
  const rows = (name: string): readonly (readonly number[])[] => {
    const { shape, data_offsets } = header[`model.${name}.weight`],
      width = shape.at(-1) ?? 1,
      at = (i: number): number => bytes.readFloatLE(start + data_offsets[0] + 4 * i);
    return Array.from({ length: shape.length === 1 ? 1 : shape[0] }, (_, r) =>
      Array.from({ length: width }, (_value, c) => at(r * width + c)),
    );
  };
  const { num_hidden_layers, num_attention_heads, num_key_value_heads, head_dim, rms_norm_eps, rope_theta } = config,
    embedding = rows('embed_tokens'),
    [last] = rows('norm'),
    group = num_attention_heads / num_key_value_heads,
    layers = Array.from({ length: num_hidden_layers }, (_, l) => {
      const of = (part: string): readonly (readonly number[])[] => rows(`layers.${l}.${part}`);
      return {
        norms: [of('input_layernorm')[0], of('post_attention_layernorm')[0]],
        ...{
          q: of('self_attn.q_proj'),
          k: of('self_attn.k_proj'),
          v: of('self_attn.v_proj'),
          o: of('self_attn.o_proj'),
        },
        ...{ gate: of('mlp.gate_proj'), up: of('mlp.up_proj'), down: of('mlp.down_proj') },
        slots: Array.from({ length: num_key_value_heads }, (): Slot[] => []),
      };
    });
  const product = (matrix: readonly (readonly number[])[], x: readonly number[]): number[] =>
    matrix.map((line) => dot(line, x));
  const normed = (x: readonly number[], weight: readonly number[]): number[] => {
    const root = Math.sqrt(dot(x, x) / x.length + rms_norm_eps);
    return x.map((value, i) => (value / root) * weight[i]);
  };
  const heads = (x: readonly number[]): number[][] =>
    Array.from({ length: x.length / head_dim }, (_, h) => x.slice(h * head_dim, (h + 1) * head_dim));
  const turned = (x: readonly number[], position: number): number[] => {
    const half = head_dim / 2;
    return x.map((value, i) => {
      const angle = position / rope_theta ** ((i % half) / half);
      return value * Math.cos(angle) + (i < half ? -x[i + half] : x[i - half]) * Math.sin(angle);
    });
  };
  let position = -1;
  return {
    feed(id) {
      position++;
      let x: readonly number[] = embedding[id];
      for (const { norms, q, k, v, o, gate, up, down, slots } of layers) {
        const inner = normed(x, norms[0]),
          keys = heads(product(k, inner)),
          values = heads(product(v, inner));
        for (const [g, row] of slots.entries())
          row.push({ position, key: turned(keys[g], position), value: values[g] });
        const mixed = heads(product(q, inner)).flatMap((query, h) => {
          const row = slots[Math.floor(h / group)],
            logits = row.map(({ key }) => dot(turned(query, position), key) / Math.sqrt(head_dim)),
            weights = logits.map((logit) => Math.exp(logit - Math.max(...logits))),
            whole = weights.reduce((a, b) => a + b, 0);
          return Array.from({ length: head_dim }, (_, i) =>
            row.reduce((sum, { value }, s) => sum + (weights[s] / whole) * value[i], 0),
          );
        });
        const after = product(o, mixed).map((value, i) => value + x[i]),
          hidden = normed(after, norms[1]),
          ups = product(up, hidden),
          gated = product(gate, hidden).map((value, i) => (value / (1 + Math.exp(-value))) * ups[i]);
        x = product(down, gated).map((value, i) => value + after[i]);
      }
      return product(embedding, normed(x, last));
    },
    keep(positions) {
      for (const { slots } of layers)
        for (const [g, row] of slots.entries()) {
          const stays = new Set(positions(row.map((slot) => slot.position)));
          slots[g] = row.filter((slot) => stays.has(slot.position));
        }
    },
  };
}
