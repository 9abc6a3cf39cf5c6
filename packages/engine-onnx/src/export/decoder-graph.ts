import { angleFrequencies, finishProgram, headProgram, projectProgram } from '@kv/engine';
import type { Program } from '@kv/engine';
import type { ModelConfig, RopeConfig, Weights } from '@kv/checkpoints';
import { dense, matrixOf, commonHeads } from '@kv/checkpoints';
import { graphWriter, types, type GraphWriter, type ExternalData } from '../graph.ts';
import { fits, fusedAttention, plainAttention, slotCount } from './attention-nodes.ts';
import type { WeightForm } from '../product.ts';
import { body, type AngleNames } from '../program-graph.ts';

export interface DecoderGraphOptions {
  readonly form: Extract<WeightForm, 'f32' | 'q4'>;
  /**
   * The source of a token's position: the input `position_ids`, or the attention mask's length, with keys rotated
   * inside GroupQueryAttention. Some hub exports are of the second kind.
   */
  readonly positions: 'ids' | 'mask';
  /** One node of `com.microsoft` per layer (heads of a multiple of 8 numbers), or products and a softmax. */
  readonly attention: 'fused' | 'plain';
  /** Moves large tensors to a separate file next to the model. */
  readonly store?: ((bytes: Uint8Array) => ExternalData | undefined) | undefined;
}

const BATCH = 'batch_size',
  NEW = 'sequence_length',
  PAST = 'past_sequence_length',
  ALL = 'total_sequence_length';

/**
 * Builds a whole decoder as one ONNX model in the layout of the Hugging Face hub: inputs `input_ids`, `attention_mask`,
 * `position_ids` (int64), `past_key_values.N.key|value` `[batch, G, past, d]`; outputs `logits` `[batch, m, vocab]` and
 * `present.N.key|value`. With fused attention the prompts of a batch must be equally long.
 */
export async function decoderGraph(
  config: ModelConfig,
  weights: Weights,
  { form, positions, attention, store }: DecoderGraphOptions,
): Promise<Uint8Array> {
  const { layers, hidden: D, vocab, tied } = config,
    heads = commonHeads(config, 'export'),
    { queryHeads: H, kvHeads: G, headDim: d } = heads;
  const graph = graphWriter('decoder', store),
    ids = graph.input('input_ids', [BATCH, NEW], 'int64'),
    mask = graph.input('attention_mask', [BATCH, ALL], 'int64'),
    byIds = positions === 'ids' && graph.input('position_ids', [BATCH, NEW], 'int64');
  const pastOf = (l: number, part: string): string => graph.input(`past_key_values.${l}.${part}`, [BATCH, G, PAST, d]),
    cached = Array.from({ length: layers }, (_, l) => [pastOf(l, 'key'), pastOf(l, 'value')] as const);
  const embed = await weights.embed(),
    table = dense(embed),
    rows = (value: string): string => graph.op('Reshape', [value, graph.ints(-1, D)]),
    shape = graph.op('Shape', [ids]),
    /** Reshapes rows `[batch * m, width]` to `[batch, m, width]`. */
    tokens = (value: string, width: number): string =>
      graph.op('Reshape', [value, graph.op('Concat', [shape, graph.ints(width)], { axis: 0 })]);
  let x = rows(graph.op('Gather', [graph.floats(table, [vocab, D]), ids]));
  if (config.embeddingScale !== 1) x = graph.op('Mul', [x, graph.floats(Float32Array.of(config.embeddingScale), [])]);
  const can = fits(config, heads),
    fused = attention === 'fused' && can.fused,
    inside = byIds === false && fused && can.turning,
    angles = anglesByLayer(
      graph,
      config.ropes,
      byIds === false ? () => counted(graph, mask, ids, inside) : () => byIds,
    ),
    attend = fused
      ? fusedAttention(graph, config, heads, mask, inside ? angles : () => undefined)
      : plainAttention(graph, config, heads, mask, ids);
  for (let l = 0; l < layers; l++) {
    const before = rowsOnly(projectProgram(l, config, await weights.project(l)), !inside),
      [q, k, v] = body(graph, before, [x], form, angles(l)).map(({ value }, i) => tokens(value, (i === 0 ? H : G) * d));
    const attended = attend({ layer: l, q, k, v, past: cached[l] });
    const flat = graph.op('Reshape', [attended, graph.ints(-1, H * d)]);
    x = body(graph, finishProgram(l, config, await weights.finish(l)), [x, flat], form)[0].value;
  }
  const head = tied ? (form === 'f32' ? matrixOf(table, vocab, D) : embed) : await weights.head(),
    logits = body(graph, headProgram(config, await weights.norm(), head), [x], form)[0].value;
  graph.output('logits', tokens(logits, vocab), [BATCH, NEW, vocab]);
  for (let l = 0; l < layers; l++)
    for (const part of ['key', 'value']) graph.declare(`present.${l}.${part}`, [BATCH, G, ALL, d]);
  return graph.model();
}

/** Returns a program whose outputs are rows, not heads, with or without rotation. */
function rowsOnly({ instructions, outputs, ...program }: Program, turned: boolean): Program {
  const before = new Map(
    instructions.flatMap(({ op, out, x }) => (op === 'heads' || (op === 'rope' && !turned) ? [[out.id, x]] : [])),
  );
  return {
    ...program,
    instructions: instructions.filter(({ out }) => !before.has(out.id)),
    outputs: outputs.map((rows) => {
      let at = rows;
      for (let next = before.get(at.id); next; next = before.get(at.id)) at = next;
      return at;
    }),
  };
}

/** Returns positions as the mask counts them: of every slot, or of the new tokens only. */
function counted(graph: GraphWriter, mask: string, ids: string, all: boolean): string {
  const total = slotCount(graph, mask),
    one = graph.int(1);
  if (all) return graph.op('Range', [graph.int(0), total, one]);
  const fresh = graph.op('Gather', [graph.op('Shape', [ids]), one]),
    row = graph.op('Range', [graph.op('Sub', [total, fresh]), total, one]);
  return graph.op('Expand', [row, graph.op('Shape', [ids])]);
}

/** Returns the angles by layer, each distinct one written once; none for layers without positions. */
function anglesByLayer(
  graph: GraphWriter,
  ropes: readonly RopeConfig[],
  positions: () => string,
): (layer: number) => AngleNames | undefined {
  const made = new Map<RopeConfig, AngleNames>();
  let from: string | undefined;
  return (layer) => {
    const rope = ropes[layer];
    if (rope.rotary === 0) return undefined;
    const angles = made.get(rope) ?? anglesOf(graph, rope, (from ??= positions()));
    made.set(rope, angles);
    return angles;
  };
}

/** Returns cos and sin of positions `[...]`, as `[positions, rotary / 2]`, rounded as `createAngles` rounds them. */
function anglesOf(graph: GraphWriter, rope: RopeConfig, positions: string): AngleNames {
  const half = rope.rotary / 2,
    { short, far } = angleFrequencies(rope),
    row = (frequency: Float32Array): string => graph.floats(frequency, [1, half]),
    float = (value: string): string => graph.op('Cast', [value], { to: types.f32 });
  const at = float(graph.op('Reshape', [positions, graph.ints(-1, 1)]));
  let by = row(short);
  if (far !== undefined && rope.long !== undefined) {
    const furthest = graph.op('ReduceMax', [at], { keepdims: 0 });
    by = graph.op('Where', [
      graph.op('Less', [graph.floats(Float32Array.of(rope.long.beyond - 1), []), furthest]),
      row(far),
      by,
    ]);
  }
  const angle = graph.op('Mul', [at, by]),
    factor = rope.attentionFactor ?? 1,
    scaled = (value: string): string =>
      factor === 1 ? value : graph.op('Mul', [value, graph.floats(Float32Array.of(factor), [])]);
  return { cos: scaled(graph.op('Cos', [angle])), sin: scaled(graph.op('Sin', [angle])) };
}
