import type { Json, TestWeights } from './oracle-weights.ts';

type Vector = readonly number[];

const dot = (a: Vector, b: Vector): number => a.reduce((sum, x, i) => sum + x * b[i], 0);
const sigmoid = (x: number): number => 1 / (1 + Math.exp(-x));
const silu = (x: number): number => x * sigmoid(x);
const gelu = (x: number): number => (x / 2) * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));

/** Numbers of MXFP4, by code. */
const sizes = [0, 0.5, 1, 1.5, 2, 3, 4, 6],
  E2M1 = [...sizes, ...sizes.map((x) => -x)];

/** Returns row r of expert e of gate and up or of down, and the number that is added to its product. */
function rowOf(
  w: TestWeights,
  experts: string,
  which: 'gate_up_proj' | 'down_proj',
  e: number,
  r: number,
): { row: Vector; bias: number } {
  const name = `${experts}.${which}`,
    stored = w[name],
    biases = w[`${name}_bias`],
    bias = biases === undefined ? 0 : biases.data[e * biases.shape[1] + r];
  const blocks = w[`${name}_blocks`];
  if (blocks) {
    const [, rows, count] = blocks.shape,
      at = (e * rows + r) * count;
    const row = Array.from({ length: 32 * count }, (_, i) => {
      const block = at + Math.floor(i / 32),
        byte = blocks.data[16 * block + Math.floor((i % 32) / 2)];
      return E2M1[i % 2 ? byte >> 4 : byte & 15] * 2 ** (w[`${name}_scales`].data[block] - 127);
    });
    return { row, bias };
  }
  if (stored && biases) {
    // transposed, as gpt-oss has it
    const [, inputs, outputs] = stored.shape;
    return { row: Array.from({ length: inputs }, (_, i) => stored.data[(e * inputs + i) * outputs + r]), bias };
  }
  const [, rows, inputs] = stored.shape;
  return { row: stored.data.slice((e * rows + r) * inputs, (e * rows + r + 1) * inputs), bias };
}

/** Returns gate and up, or down, of one expert of a row. */
function product(w: TestWeights, experts: string, e: number, which: 'gate' | 'up' | 'down', x: Vector): number[] {
  const own = [
    `${experts}.${e}.${which}_proj.weight`,
    `${experts}.${e}.${{ gate: 'w1', up: 'w3', down: 'w2' }[which]}.weight`,
  ]
    .map((name) => w[name])
    .find((weight) => weight !== undefined);
  if (own)
    return Array.from({ length: own.shape[0] }, (_, r) => dot(own.data.slice(r * x.length, (r + 1) * x.length), x));
  const paired = w[`${experts}.gate_up_proj_bias`];
  const of = (name: 'gate_up_proj' | 'down_proj', count: number, place: (i: number) => number): number[] =>
    Array.from({ length: count }, (_, i) => {
      const { row, bias } = rowOf(w, experts, name, e, place(i));
      return dot(row, x) + bias;
    });
  if (which === 'down')
    return of('down_proj', (paired ? w[`${experts}.down_proj_bias`] : w[`${experts}.down_proj`]).shape[1], (i) => i);
  const width = (paired ? paired.shape[1] : w[`${experts}.gate_up_proj`].shape[1]) / 2;
  return of('gate_up_proj', width, (i) => (paired ? 2 * i + Number(which === 'up') : i + (which === 'up' ? width : 0)));
}

const routers = [
  'mlp.gate',
  'mlp.router',
  'feed_forward.gate',
  'block_sparse_moe.router.layer',
  'block_sparse_moe.router',
  'router.proj',
];

/**
 * Returns what routed experts make of a row, or undefined where the layer has none.
 * @param within the layer's prefix
 * @param told what the router takes
 */
export function routedExperts(
  config: Json,
  weights: TestWeights,
  within: string,
  x: Vector,
  told: Vector = x,
): number[] | undefined {
  const of = routers.find((name) => weights[`${within}.${name}.weight`] !== undefined);
  if (of === undefined) return undefined;
  const gemma = of === 'router.proj',
    layer = gemma ? within : `${within}.${of.split('.')[0]}`,
    experts = `${layer}.experts`,
    granite = weights[`${layer}.input_linear.weight`],
    w: TestWeights = granite
      ? {
          [`${experts}.gate_up_proj`]: granite,
          [`${experts}.down_proj`]: weights[`${layer}.output_linear.weight`],
        }
      : weights,
    router = weights[`${within}.${of}.weight`],
    lfm2 = of.startsWith('feed'),
    active = (gemma ? config.top_k_experts : config.num_experts_per_tok) as number;
  const logits = Array.from(
      { length: router.shape[0] },
      (_, e) =>
        dot(router.data.slice(e * x.length, (e + 1) * x.length), told) + (w[`${within}.${of}.bias`]?.data[e] ?? 0),
    ),
    total = logits.reduce((sum, z) => sum + Math.exp(z), 0),
    scores = logits.map((z) => (lfm2 ? sigmoid(z) : Math.exp(z) / total)),
    bias = config.use_expert_bias === true ? w[`${layer}.expert_bias`].data : [],
    chosen = [...scores.keys()]
      .sort((a, b) => scores[b] + (bias[b] ?? 0) - scores[a] - (bias[a] ?? 0))
      .slice(0, active),
    sum = (config.norm_topk_prob ?? true) ? chosen.reduce((all, e) => all + scores[e], lfm2 ? 1e-6 : 0) : 1,
    out = x.map(() => 0);
  const add = (y: Vector, by: number): void => {
    for (const [i, v] of y.entries()) out[i] += by * v;
  };
  for (const e of chosen) {
    const [gate, up] = [product(w, experts, e, 'gate', x), product(w, experts, e, 'up', x)];
    const inner = gate.map((g, i) => {
      if (of !== 'mlp.router') return (gemma ? gelu(g) : silu(g)) * up[i];
      const low = Math.min(g, 7);
      return (Math.min(7, Math.max(-7, up[i])) + 1) * low * sigmoid(1.702 * low);
    });
    add(
      product(w, experts, e, 'down', inner),
      (scores[e] / sum) *
        ((config.routed_scaling_factor as number | undefined) ?? 1) *
        (w[`${within}.router.per_expert_scale`]?.data[e] ?? 1),
    );
  }
  const open = w[`${layer}.shared_expert_gate.weight`];
  if (open) {
    const times = (name: string, y: Vector): number[] => {
      const { data, shape } = w[`${layer}.shared_expert.${name}.weight`];
      return Array.from({ length: shape[0] }, (_, r) => dot(data.slice(r * y.length, (r + 1) * y.length), y));
    };
    const up = times('up_proj', x);
    add(
      times(
        'down_proj',
        times('gate_proj', x).map((g, i) => silu(g) * up[i]),
      ),
      sigmoid(dot(open.data, x)),
    );
  }
  return out;
}
