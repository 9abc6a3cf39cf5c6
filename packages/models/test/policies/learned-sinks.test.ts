import { commonHeads } from '@kv/engine';
/** What policies read of a model whose heads have learned sinks: kept slots of the first layer, worked out in float64. */
import { compose, type Policy } from '@kv/core';
import { caote } from '@kv/scorers-caote';
import { h2o, snapkv, tova } from '@kv/scorers-attention';
import { topK } from '@kv/selectors-top-k';
import { expect, test } from 'vitest';
import { halfWeights } from '@kv/engine-testing/decoder.oracle';
import { fixture } from '@kv/model-testing/fixture';
import { loadModel, Sequence } from '../../src/index.ts';

const model = await loadModel(fixture('granite_swa')),
  weights = halfWeights(fixture('granite_swa/model.safetensors')),
  { queryHeads: H, kvHeads: G, headDim: d } = commonHeads(model.config),
  { hidden: D, normEps, embeddingScale, attention } = model.config;

type Row = readonly number[];
const dot = (a: Row, b: Row): number => a.reduce((sum, x, i) => sum + x * b[i], 0);
/** Softmax rows of layer 0, which has no positions and no window, by query head and query; and values by KV head. */
function attentionOf(ids: Row): { readonly rows: number[][][]; readonly values: number[][][] } {
  const of = (name: string): Row => weights[name].data,
    at = (name: string): string => `model.layers.0.${name}`,
    hidden = ids.map((id) => {
      const x = of('model.embed_tokens.weight')
        .slice(id * D, (id + 1) * D)
        .map((v) => v * embeddingScale);
      const size = Math.sqrt(dot(x, x) / D + normEps);
      return x.map((v, i) => (v / size) * of(at('input_layernorm.weight'))[i]);
    }),
    heads = (name: string, count: number): number[][][] =>
      Array.from({ length: count }, (_, h) =>
        hidden.map((x) =>
          Array.from({ length: d }, (_c, c) =>
            dot(of(at(`self_attn.${name}_proj.weight`)).slice((h * d + c) * D, (h * d + c + 1) * D), x),
          ),
        ),
      ),
    [queries, keys, values] = [heads('q', H), heads('k', G), heads('v', G)];
  const rows = queries.map((head, h) =>
    head.map((q, t) => {
      const e = keys[Math.floor((h * G) / H)].slice(0, t + 1).map((k) => Math.exp(dot(q, k) * attention.scale)),
        sink = Math.exp(of(at('self_attn.sinks'))[h]),
        total = e.reduce((a, b) => a + b, sink);
      return ids.map((_, j) => (j <= t ? e[j] / total : 0));
    }),
  );
  return { rows, values };
}

/** The slots of most score in each KV head, its query heads' scores averaged; the newest query's own always stays. */
const kept = (scores: readonly Row[], budget: number): number[][] =>
  Array.from({ length: G }, (_, g) => {
    const group = scores.slice((g * H) / G, ((g + 1) * H) / G),
      mean = group[0].map((_, j, { length }) =>
        j === length - 1 ? Infinity : group.reduce((sum, row) => sum + row[j], 0),
      );
    return [...mean.keys()]
      .sort((a, b) => mean[b] - mean[a] || a - b)
      .slice(0, budget)
      .sort((a, b) => a - b);
  });

/** How far each head's output moves when a slot is evicted alone: its sink keeps its score. */
const errors = (row: Row, values: readonly Row[]): number[] => {
  const out = values[0].map((_, c) => row.reduce((sum, p, j) => sum + p * values[j][c], 0));
  return row.map((p, j) => (p / (1 - p)) * Math.hypot(...out.map((o, c) => o - values[j][c])));
};

type Oracle = (of: ReturnType<typeof attentionOf>, h: number) => Row;
const policies: readonly (readonly [name: string, policy: Policy, oracle: Oracle])[] = [
  [
    'tova',
    compose(tova(), topK()),
    ({ rows }) => rows[0][0].map((_, j) => rows.reduce((sum, head) => sum + head.at(-1)![j], 0)),
  ],
  [
    'h2o',
    compose(h2o({ recent: 1 }), topK()),
    ({ rows }, h) => rows[h][0].map((_, j) => rows[h].reduce((sum, row) => sum + row[j], 0)),
  ],
  [
    'snapkv of one query | caote',
    compose(snapkv({ window: 1, kernel: 1 }), caote(), topK()),
    ({ rows, values }, h) => errors(rows[h].at(-1)!, values[Math.floor((h * G) / H)]),
  ],
];

test.each(policies)(
  '%s keeps what float64 says, with weights that sink shares were taken of',
  async (_, policy, oracle) => {
    for (let seed = 0; seed < 12; seed++) {
      const ids = Array.from({ length: 20 + seed }, (_x, i) => 3 + ((7 * i * i + 11 * i + 5 * seed) % 61)),
        whole = attentionOf(ids),
        sequence = new Sequence(model);
      await sequence.prefill(ids, { policy, budget: 8 });
      const want = kept(
        Array.from({ length: H }, (_h, h) => oracle(whole, h)),
        8,
      );
      expect(sequence.kept()[0].map((slots) => [...slots])).toEqual(want);
      sequence.destroy();
    }
  },
);
