import { KvError } from '@kv/core';
import { headsOf } from '@kv/checkpoints';
import type {
  AttentionMixer,
  ConvolutionWeights,
  ExpertsConfig,
  ExpertWeights,
  ModelConfig,
  Matrix,
  FinishWeights,
  PerLayerWeights,
  ProjectWeights,
} from '@kv/checkpoints';
import type { Instruction, Program, RowsValue } from './program.ts';

/** Returns a program writer: each call adds one instruction and returns its result. */
function writer(): {
  readonly instructions: Instruction[];
  value(width: number): RowsValue;
  /** Adds a norm of each run; returns `x` itself if there is no gain. */
  norm(x: RowsValue, gain: Float32Array | undefined, eps: number, run?: number): RowsValue;
  linear(name: string, x: RowsValue, weight: Matrix, bias?: Float32Array): RowsValue;
  add(x: RowsValue, y: RowsValue): RowsValue;
  /** Adds a scale; returns `x` itself for 1. */
  scale(x: RowsValue, by: number): RowsValue;
} {
  const instructions: Instruction[] = [];
  let id = 0;
  const value = (width: number): RowsValue => ({ id: id++, width });
  const put = <I extends Instruction>(instruction: I): RowsValue => {
    instructions.push(instruction);
    return instruction.out;
  };
  return {
    instructions,
    value,
    norm: (x, gain, eps, run) =>
      gain === undefined
        ? x
        : put({ op: 'rmsNorm', x, gain, ...(run !== undefined && { run }), eps, out: value(x.width) }),
    linear: (name, x, weight, bias) =>
      put({ op: 'linear', name, x, weight, ...(bias && { bias }), out: value(weight.outputs) }),
    add: (x, y) => put({ op: 'add', x, y, out: value(x.width) }),
    scale: (x, by) => (by === 1 ? x : put({ op: 'scale', x, by, out: value(x.width) })),
  };
}

/**
 * Returns the program before attention: x `[m, D]` to queries `[H, m, d]`, keys and values `[G, m, d]`, unless it reads the
 * slots of another layer, and, where heads have an output gate, to gates `[m, H * d]`, or `[m, H]` where a head has one, before
 * their sigmoid.
 */
export function projectProgram(
  layer: number,
  config: ModelConfig,
  { norm, qkv, bias, qNorm, kNorm, vNorm }: ProjectWeights,
): Program {
  const { instructions, value, ...write } = writer(),
    {
      hidden,
      normEps,
      attention: { outputGate, queryScale },
    } = config,
    { queryHeads: H, kvHeads: G, headDim } = headsOf(config, layer);
  const x = value(hidden),
    { rotary } = config.ropes[layer];
  const fused = write.linear('qkv', write.norm(x, norm, normEps), qkv, bias);
  const heads = (
    from: number,
    count: number,
    gain: Float32Array | undefined,
    turn: boolean,
    scaled: boolean,
  ): RowsValue => {
    let part = value(count * headDim);
    instructions.push({ op: 'columns', x: fused, from: from * headDim, out: part });
    part = write.norm(part, gain, normEps);
    if (turn && rotary > 0)
      instructions.push({
        ...{ op: 'rope', x: part, headDim, rotary },
        ...(scaled && { scaled }),
        out: (part = value(part.width)),
      });
    const out = value(part.width);
    instructions.push({ op: 'heads', x: part, headDim, out });
    return out;
  };
  const { slotsOf, valuesOfKeys } = config.mixers[layer] as AttentionMixer, // `headsOf` above found it to be one
    own = slotsOf === undefined,
    values = valuesOfKeys ? H : H + G,
    outputs = [heads(0, H, qNorm, true, queryScale !== undefined)];
  if (own) outputs.push(heads(H, G, kNorm, true, false), heads(values, G, vNorm, false, false));
  if (outputGate) {
    const gate = value(outputGate === 'head' ? H : H * headDim);
    instructions.push({ op: 'columns', x: fused, from: own ? (values + G) * headDim : H * headDim, out: gate });
    outputs.push(gate);
  }
  return { name: `project ${layer}`, inputs: [x], instructions, outputs };
}

/**
 * Returns the program before a mixer that carries a state: x `[m, D]` to the rows that it takes, `[B | C | u]` of a short
 * convolution, `[q | k | v | z | b | a]` of a gated delta rule or `[z | x | B | C | dt]` of a state space.
 */
export function mixerProgram(
  layer: number,
  { hidden, normEps }: ModelConfig,
  { norm, input, inputBias }: Pick<ConvolutionWeights, 'norm' | 'input' | 'inputBias'>,
): Program {
  const { instructions, value, ...write } = writer();
  const x = value(hidden),
    rows = write.linear('input', write.norm(x, norm, normEps), input, inputBias);
  return { name: `project ${layer}`, inputs: [x], instructions, outputs: [rows] };
}

/**
 * Returns the program after a layer's mixer: x `[m, D]` and its result `[m, H * d]`, and where layers have inputs of their
 * own those of all layers, `[m, layers * P]`, to the next layer's x.
 */
export function finishProgram(layer: number, config: ModelConfig, weights: FinishWeights): Program {
  const { hidden, layers, normEps, activation, residualScale = 1, mixers, experts, perLayer: P = 0 } = config;
  const { instructions, value, ...write } = writer();
  const after = (y: RowsValue, gain: Float32Array | undefined): RowsValue =>
    write.scale(write.norm(y, gain, normEps), residualScale);
  const x = value(hidden),
    attended = value(weights.output.inputs),
    mixer = mixers[layer],
    run = mixer.kind === 'stateSpace' ? attended.width / mixer.groups : undefined,
    mixed = write.norm(attended, weights.mixerGain, normEps, run);
  const y = write.add(
    x,
    after(write.linear('output', mixed, weights.output, weights.outputBias), weights.postAttentionNorm),
  );
  const normed = write.norm(y, weights.norm, normEps),
    { gateUp, down, experts: routed } = weights;
  // what all tokens pass comes before what a router chooses
  let fed: RowsValue | undefined;
  if (gateUp && down) {
    const both = write.linear('gateUp', normed, gateUp, weights.gateUpBias),
      gated = value(gateUp.outputs / 2);
    instructions.push({ op: 'gated', x: both, activation, out: gated });
    fed = write.linear('down', gated, down, weights.downBias);
  }
  if (routed && experts) fed = writeExperts(routed, experts, fed);
  if (!fed) throw new KvError(`layer ${layer}`, 'expected a feed-forward layer or experts, got neither');
  let out = write.add(y, after(fed, weights.postFfnNorm));
  const inputs = [x, attended],
    { perLayer, scale: [by] = [1] } = weights;
  if (perLayer) {
    const all = value(layers * P),
      own = value(P),
      joined = value(P);
    inputs.push(all);
    instructions.push({ op: 'columns', x: all, from: layer * P, out: own });
    const gate = write.linear('inputGate', out, perLayer.gate);
    instructions.push({ op: 'gatedBy', x: gate, y: own, activation, out: joined });
    out = write.add(out, write.norm(write.linear('inputOutput', joined, perLayer.output), perLayer.norm, normEps));
  }
  return { name: `finish ${layer}`, inputs, instructions, outputs: [write.scale(out, by)] };

  /** Adds routed experts and, to their result, that of a shared one. */
  function writeExperts(
    { router, routerBias, sharedGate, norms, ...rest }: ExpertWeights,
    { routing, activation }: ExpertsConfig,
    given: RowsValue | undefined,
  ): RowsValue {
    const own = (gain: Float32Array | undefined): RowsValue => (gain ? write.norm(y, gain, normEps) : normed),
      shared = given && write.norm(given, norms?.shared, normEps),
      scores = write.linear('router', own(norms?.router), router, routerBias),
      gate = sharedGate && write.linear('sharedGate', normed, sharedGate),
      sum = value(hidden);
    instructions.push({ op: 'experts', x: own(norms?.before), scores, routing, activation, ...rest, out: sum });
    const chosen = write.norm(sum, norms?.after, normEps);
    if (!shared) return chosen;
    if (!gate) return write.add(chosen, shared);
    const gated = value(hidden);
    instructions.push({ op: 'gateRows', x: shared, gate, out: gated });
    return write.add(chosen, gated);
  }
}

/**
 * Returns the program of the inputs that each layer takes of a token: its embedding `[m, D]` and its row of the table `[m,
 * layers * P]` to `(norm(W x / sqrt(D)) + row * sqrt(P)) / sqrt(2)`, the norm of each layer's part alone.
 */
export function perLayerProgram(
  { hidden, layers, perLayer: P = 0, normEps }: ModelConfig,
  { input, norm }: PerLayerWeights,
): Program {
  const { instructions, value, ...write } = writer();
  const x = value(hidden),
    row = value(layers * P),
    projected = write.norm(write.scale(write.linear('perLayer', x, input), hidden ** -0.5), norm, normEps),
    sum = write.add(projected, write.scale(row, Math.sqrt(P)));
  return { name: 'per layer', inputs: [x, row], instructions, outputs: [write.scale(sum, Math.SQRT1_2)] };
}

/** Returns the program of the final norm, the head and any scale or soft cap: x `[m, D]` to logits `[m, vocab]`. */
export function headProgram(
  { hidden, normEps, logitScale = 1, finalSoftcap }: ModelConfig,
  norm: Float32Array,
  head: Matrix,
): Program {
  const { instructions, value, ...write } = writer();
  const x = value(hidden);
  let logits = write.scale(write.linear('head', write.norm(x, norm, normEps), head), logitScale);
  if (finalSoftcap !== undefined)
    instructions.push({ op: 'softcap', x: logits, cap: finalSoftcap, out: (logits = value(logits.width)) });
  return { name: 'head', inputs: [x], instructions, outputs: [logits] };
}
