import { headsOf, keepsSlots } from '@kv/checkpoints';
import type { ConvolutionWeights, ModelConfig, Matrix, FinishWeights, ProjectWeights } from '@kv/checkpoints';
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
 * Returns the program before attention: x `[m, D]` to queries `[H, m, d]`, keys and values `[G, m, d]`, unless the layer
 * reads another's slots, and, where heads have an output gate, to gates `[m, H * d]`, or `[m, H]` where a head has one, before
 * their sigmoid.
 */
export function projectProgram(
  layer: number,
  config: ModelConfig,
  { norm, qkv, bias, qNorm, kNorm }: ProjectWeights,
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
  const outputs = [heads(0, H, qNorm, true, queryScale !== undefined)],
    own = keepsSlots(config.mixers[layer]);
  if (own) outputs.push(heads(H, G, kNorm, true, false), heads(H + G, G, undefined, false, false));
  if (outputGate) {
    const gate = value(outputGate === 'head' ? H : H * headDim);
    instructions.push({ op: 'columns', x: fused, from: (own ? H + 2 * G : H) * headDim, out: gate });
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

/** Returns the program after a layer's mixer: x `[m, D]` and its result `[m, H * d]` to the next layer's x. */
export function finishProgram(
  layer: number,
  { hidden, ffn, normEps, activation, residualScale = 1, mixers }: ModelConfig,
  weights: FinishWeights,
): Program {
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
  const gateUp = write.linear('gateUp', write.norm(y, weights.norm, normEps), weights.gateUp, weights.gateUpBias);
  const gated = value(ffn);
  instructions.push({ op: 'gated', x: gateUp, activation, out: gated });
  const out = write.add(y, after(write.linear('down', gated, weights.down, weights.downBias), weights.postFfnNorm));
  return { name: `finish ${layer}`, inputs: [x, attended], instructions, outputs: [out] };
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
