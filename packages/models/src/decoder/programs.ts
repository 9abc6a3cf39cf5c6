import type { ModelConfig } from '../checkpoint/config.ts';
import type { Matrix } from '../checkpoint/matrix.ts';
import type { FinishWeights, ProjectWeights } from '../checkpoint/weights.ts';
import type { Instruction, Program, Rows } from './program.ts';

/** Writes a program: each call adds one instruction and gives its result. */
function writer(): {
  readonly instructions: Instruction[];
  value(width: number): Rows;
  norm(x: Rows, gain: Float32Array, eps: number): Rows;
  linear(name: string, x: Rows, weight: Matrix, bias?: Float32Array): Rows;
  add(x: Rows, y: Rows): Rows;
} {
  const instructions: Instruction[] = [];
  let id = 0;
  const value = (width: number): Rows => ({ id: id++, width });
  const put = <I extends Instruction>(instruction: I): Rows => {
    instructions.push(instruction);
    return instruction.out;
  };
  return {
    instructions,
    value,
    norm: (x, gain, eps) => put({ op: 'rmsNorm', x, gain, eps, out: value(x.width) }),
    linear: (name, x, weight, bias) =>
      put({ op: 'linear', name, x, weight, ...(bias && { bias }), out: value(weight.outputs) }),
    add: (x, y) => put({ op: 'add', x, y, out: value(x.width) }),
  };
}

/** Before attention: x `[m, D]` to queries `[H, m, d]`, keys and values `[G, m, d]`. */
export function projectProgram(
  layer: number,
  { hidden, queryHeads: H, kvHeads: G, headDim, normEps, rope }: ModelConfig,
  { norm, qkv, bias, qNorm, kNorm }: ProjectWeights,
): Program {
  const { instructions, value, ...write } = writer();
  const x = value(hidden);
  const fused = write.linear('qkv', write.norm(x, norm, normEps), qkv, bias);
  const heads = (from: number, count: number, gain: Float32Array | undefined, turn: boolean): Rows => {
    let part = value(count * headDim);
    instructions.push({ op: 'columns', x: fused, from: from * headDim, out: part });
    if (gain !== undefined) part = write.norm(part, gain, normEps);
    if (turn) instructions.push({ op: 'rope', x: part, headDim, rotary: rope.rotary, out: (part = value(part.width)) });
    const out = value(part.width);
    instructions.push({ op: 'heads', x: part, headDim, out });
    return out;
  };
  return {
    name: `project ${layer}`,
    inputs: [x],
    instructions,
    outputs: [heads(0, H, qNorm, true), heads(H, G, kNorm, true), heads(H + G, G, undefined, false)],
  };
}

/** After attention: x `[m, D]` and attended `[m, H * d]` to the next layer's x. */
export function finishProgram(
  layer: number,
  { hidden, queryHeads: H, headDim, ffn, normEps, activation }: ModelConfig,
  weights: FinishWeights,
): Program {
  const { instructions, value, ...write } = writer();
  const after = (y: Rows, gain: Float32Array | undefined): Rows =>
    gain === undefined ? y : write.norm(y, gain, normEps);
  const x = value(hidden),
    attended = value(H * headDim);
  const y = write.add(
    x,
    after(write.linear('output', attended, weights.output, weights.outputBias), weights.postAttentionNorm),
  );
  const gateUp = write.linear('gateUp', write.norm(y, weights.norm, normEps), weights.gateUp, weights.gateUpBias);
  const gated = value(ffn);
  instructions.push({ op: 'gated', x: gateUp, activation, out: gated });
  const out = write.add(y, after(write.linear('down', gated, weights.down, weights.downBias), weights.postFfnNorm));
  return { name: `finish ${layer}`, inputs: [x, attended], instructions, outputs: [out] };
}

/** The final norm, the head and any soft cap: x `[m, D]` to logits `[m, vocab]`. */
export function headProgram({ hidden, normEps, finalSoftcap }: ModelConfig, norm: Float32Array, head: Matrix): Program {
  const { instructions, value, ...write } = writer();
  const x = value(hidden);
  let logits = write.linear('head', write.norm(x, norm, normEps), head);
  if (finalSoftcap !== undefined)
    instructions.push({ op: 'softcap', x: logits, cap: finalSoftcap, out: (logits = value(logits.width)) });
  return { name: 'head', inputs: [x], instructions, outputs: [logits] };
}
