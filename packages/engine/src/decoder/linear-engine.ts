import { KvError } from '@kv/core';
import { toHeads, turnRows } from './heads.ts';
import type { Angles, Engine, Instruction } from './program.ts';
import { addBias, rmsNorm, columns } from './rows.ts';
import { dense, type ExpertActivation } from '@kv/checkpoints';
import { gateRows, gatherRows, routeRows, rowsByExpert } from './experts.ts';
import { activations, gatedActivation } from './gated.ts';

/** Computes a value of m rows from those that the instruction reads. */
type Step = (read: (id: number) => Float32Array, m: number, angles: Angles | undefined) => Float32Array;

/**
 * Returns an engine that runs programs in plain loops, instruction by instruction, with weights as f32 and sums in f64:
 * the reference for other engines, and the fallback.
 */
export const referenceEngine = (): Engine => ({
  name: 'plain loops, f32, 1 thread',
  async prepare({ name, inputs, instructions, outputs }) {
    const steps = instructions.map((instruction) => ({ id: instruction.out.id, compute: step(instruction, name) }));
    return {
      async run(given, m, angles) {
        const values = new Map(inputs.map(({ id }, i) => [id, given[i]]));
        const read = (id: number): Float32Array => values.get(id)!; // programs compute a value before they read it
        for (const { id, compute } of steps) values.set(id, compute(read, m, angles));
        return outputs.map(({ id }) => read(id));
      },
      destroy() {},
    };
  },
});

/** Returns what an instruction does. It holds a product's weight as f32, not the checkpoint's bytes. */
function step(instruction: Instruction, program: string): Step {
  const { op, x, out } = instruction;
  switch (op) {
    case 'rmsNorm': {
      const { gain, eps, run } = instruction;
      return (read) => rmsNorm(read(x.id), gain, eps, run);
    }
    case 'linear': {
      const weight = dense(instruction.weight),
        { bias } = instruction;
      return (read) => {
        const y = product(read(x.id), weight, x.width);
        return bias === undefined ? y : addBias(y, bias);
      };
    }
    case 'columns': {
      const { from } = instruction;
      return (read) => columns(read(x.id), x.width, from, out.width);
    }
    case 'rope':
      return (read, m, angles) => {
        if (angles === undefined) throw new KvError(program, 'expected the angles of its rows, got none');
        const { scales, ...plain } = angles;
        return turnRows(read(x.id), m, instruction.headDim, instruction.scaled ? angles : plain);
      };
    case 'heads':
      return (read, m) => toHeads(read(x.id), m, instruction.headDim);
    case 'gated':
      return (read) => gatedActivation(instruction.activation, read(x.id), out.width);
    case 'gatedBy': {
      const act = activations[instruction.activation];
      return (read) => {
        const y = read(instruction.y.id);
        return read(x.id).map((value, i) => act(value) * y[i]);
      };
    }
    case 'experts': {
      const { scores, routing, activation } = instruction,
        one = plainExpert(instruction);
      return (read, m) => {
        const chosen = routeRows(read(scores.id), m, routing, instruction),
          sums = new Float64Array(m * out.width);
        // experts in order, so that a row's sum does not depend on the others
        for (const { expert, rows, weights } of rowsByExpert(chosen, routing.active, scores.width)) {
          const y = one(expert, activation, gatherRows(read(x.id), x.width, rows));
          for (let i = 0; i < rows.length; i++)
            for (let c = 0; c < out.width; c++) sums[rows[i] * out.width + c] += weights[i] * y[i * out.width + c];
        }
        return Float32Array.from(sums);
      };
    }
    case 'gateRows':
      return (read) => gateRows(read(x.id), read(instruction.gate.id));
    case 'add':
      return (read) => {
        const y = read(instruction.y.id);
        return read(x.id).map((value, i) => value + y[i]);
      };
    case 'scale':
      return (read) => read(x.id).map((value) => value * instruction.by);
    case 'softcap':
      return (read) => read(x.id).map((value) => instruction.cap * Math.tanh(value / instruction.cap));
  }
}

/** Returns what computes one expert of rows `[n, D]`. */
function plainExpert({
  gateUp,
  gateUpBias,
  down,
  downBias,
  scores: { width: count },
}: Extract<Instruction, { op: 'experts' }>): (
  expert: number,
  activation: ExpertActivation,
  x: Float32Array,
) => Float32Array {
  const [both, back] = [dense(gateUp), dense(down)],
    part = (all: Float32Array, expert: number): Float32Array => {
      const each = all.length / count;
      return all.subarray(expert * each, (expert + 1) * each);
    },
    biased = (y: Float32Array, bias: Float32Array | undefined, expert: number): Float32Array =>
      bias ? addBias(y, part(bias, expert)) : y;
  return (expert, activation, x) => {
    const wide = biased(product(x, part(both, expert), gateUp.inputs), gateUpBias, expert);
    return biased(
      product(gatedActivation(activation, wide, down.inputs), part(back, expert), down.inputs),
      downBias,
      expert,
    );
  };
}

/** Returns x `[rows, inputs]` times w `[outputs, inputs]`, transposed: `[rows, outputs]`, sums in f64. */
function product(x: Float32Array, w: Float32Array, inputs: number): Float32Array {
  const rows = x.length / inputs,
    outputs = w.length / inputs,
    y = new Float32Array(rows * outputs);
  for (let r = 0; r < rows; r++) {
    const at = r * outputs;
    let o = 0;
    for (; o + 4 <= outputs; o += 4) fourOutputs(x, r * inputs, w, o * inputs, inputs, y, at + o);
    for (; o < outputs; o++) y[at + o] = dot(x, r * inputs, w, o * inputs, inputs);
  }
  return y;
}

/** Sets y[at .. at + 4) to the products of one row of x with four rows of w: four sums at a time are twice as fast. */
function fourOutputs(
  x: Float32Array,
  xAt: number,
  w: Float32Array,
  wAt: number,
  n: number,
  y: Float32Array,
  at: number,
): void {
  const w1 = wAt + n,
    w2 = w1 + n,
    w3 = w2 + n;
  let [a, b, c, d] = [0, 0, 0, 0];
  for (let i = 0; i < n; i++) {
    const v = x[xAt + i];
    a += v * w[wAt + i];
    b += v * w[w1 + i];
    c += v * w[w2 + i];
    d += v * w[w3 + i];
  }
  y.set([a, b, c, d], at);
}

function dot(x: Float32Array, xAt: number, w: Float32Array, wAt: number, n: number): number {
  let sum = 0;
  for (let i = 0; i < n; i++) sum += x[xAt + i] * w[wAt + i];
  return sum;
}
