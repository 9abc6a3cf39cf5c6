import type { Angles, Instruction, Program } from '@kv/engine';
import type { Matrix } from '@kv/checkpoints';

/**
 * Runs a program in float64, one number at a time, from the formulas of its instructions. `numbers` reads a stored
 * weight, which has its own oracles.
 */
export function runProgram(
  numbers: (weight: Matrix) => Float32Array,
  program: Program,
  inputs: readonly Float32Array[],
  m: number,
  angles?: Angles,
): number[][] {
  const values = new Map<number, number[]>(program.inputs.map(({ id }, i) => [id, [...inputs[i]]]));
  for (const instruction of program.instructions) {
    const x = values.get(instruction.x.id)!,
      { width } = instruction.x,
      to = instruction.out.width;
    const cells = (cell: (row: number, column: number) => number): number[] =>
      Array.from({ length: m * to }, (_, i) => cell(Math.floor(i / to), i % to));
    const at = (row: number, column: number): number => x[row * width + column];
    const compute = (): number[] => {
      switch (instruction.op) {
        case 'rmsNorm': {
          const { gain, eps, run = gain.length } = instruction;
          return cells((r, c) => {
            const first = c - (c % run);
            let squares = 0;
            for (let i = 0; i < run; i++) squares += at(r, first + i) ** 2;
            return (at(r, c) / Math.sqrt(squares / run + eps)) * gain[c % gain.length];
          });
        }
        case 'linear': {
          const w = numbers(instruction.weight);
          return cells((r, c) => {
            let sum = instruction.bias?.[c] ?? 0;
            for (let i = 0; i < width; i++) sum += at(r, i) * w[c * width + i];
            return sum;
          });
        }
        case 'columns':
          return cells((r, c) => at(r, instruction.from + c));
        case 'rope': {
          const { headDim } = instruction,
            { rotary, cos, sin, scales } = angles!,
            half = rotary / 2;
          return cells((r, c) => {
            const i = c % headDim,
              by = instruction.scaled ? (scales?.[r] ?? 1) : 1;
            if (i >= rotary) return by * at(r, c);
            const angle = r * half + (i % half);
            return i < half
              ? by * (at(r, c) * cos[angle] - at(r, c + half) * sin[angle])
              : by * (at(r, c) * cos[angle] + at(r, c - half) * sin[angle]);
          });
        }
        case 'gated':
          return cells((r, c) => {
            const gate = at(r, c),
              up = at(r, to + c);
            return active(instruction.activation, gate) * up;
          });
        case 'gatedBy':
          return cells((r, c) => active(instruction.activation, at(r, c)) * values.get(instruction.y.id)![r * to + c]);
        case 'gateRows':
          return cells((r, c) => at(r, c) / (1 + Math.exp(-values.get(instruction.gate.id)![r])));
        case 'experts': {
          const weights = expertWeights(instruction, values.get(instruction.scores.id)!, m),
            one = expert(instruction, numbers);
          return Array.from({ length: m }, (_, r) => {
            const sum = new Array<number>(to).fill(0);
            for (const [e, weight] of weights[r].entries())
              if (weight !== 0)
                for (const [c, y] of one(e, x.slice(r * width, (r + 1) * width)).entries()) sum[c] += weight * y;
            return sum;
          }).flat();
        }
        case 'add':
          return cells((r, c) => at(r, c) + values.get(instruction.y.id)![r * to + c]);
        case 'scale':
          return cells((r, c) => instruction.by * at(r, c));
        case 'softcap':
          return cells((r, c) => instruction.cap * Math.tanh(at(r, c) / instruction.cap));
        case 'heads': {
          const { headDim } = instruction;
          return Array.from({ length: m * to }, (_, i) =>
            at(Math.floor(i / headDim) % m, Math.floor(i / (headDim * m)) * headDim + (i % headDim)),
          );
        }
      }
    };
    values.set(instruction.out.id, compute());
  }
  return program.outputs.map(({ id }) => values.get(id)!);
}

const active = (activation: 'silu' | 'gelu', x: number): number =>
  activation === 'silu'
    ? x / (1 + Math.exp(-x))
    : 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));

type Experts = Extract<Instruction, { readonly op: 'experts' }>;

/** Returns the weight of every expert in every row, 0 of those that the row has not. */
function expertWeights(
  { routing, selectionBias, weightScale, scores }: Experts,
  products: readonly number[],
  m: number,
): number[][] {
  const { active, normalised, scale } = routing;
  return Array.from({ length: m }, (_, r) => {
    const row = products.slice(r * scores.width, (r + 1) * scores.width),
      exponentials = row.map((x) => Math.exp(x)),
      all = exponentials.reduce((sum, x) => sum + x, 0),
      score = row.map((x, e) => (routing.scores === 'sigmoid' ? 1 / (1 + Math.exp(-x)) : exponentials[e] / all)),
      order = [...row.keys()].sort(
        (a, b) => score[b] + (selectionBias?.[b] ?? 0) - score[a] - (selectionBias?.[a] ?? 0) || a - b,
      ),
      chosen = new Set(order.slice(0, active)),
      sum = normalised ? [...chosen].reduce((total, e) => total + score[e], 0) : 1;
    return score.map((s, e) => (chosen.has(e) ? ((scale * s) / sum) * (weightScale?.[e] ?? 1) : 0));
  });
}

/** Returns what an expert makes of a row. */
function expert(
  { gateUp, gateUpBias, down, downBias, activation, scores: { width: count } }: Experts,
  numbers: (weight: Matrix) => Float32Array,
): (e: number, x: readonly number[]) => number[] {
  const [both, back] = [numbers(gateUp), numbers(down)],
    width = down.inputs,
    hidden = down.outputs / count;
  const times = (w: Float32Array, row: number, x: readonly number[], bias: Float32Array | undefined): number =>
    x.reduce((sum, value, i) => sum + value * w[row * x.length + i], bias?.[row] ?? 0);
  return (e, x) => {
    const inner = Array.from({ length: width }, (_, i) => {
      const gate = times(both, e * 2 * width + i, x, gateUpBias),
        up = times(both, (2 * e + 1) * width + i, x, gateUpBias);
      if (activation === 'clamped') {
        const [g, u] = [Math.min(gate, 7), Math.max(-7, Math.min(7, up))];
        return (u + 1) * g * (1 / (1 + Math.exp(-1.702 * g)));
      }
      if (activation === 'silu') return (gate / (1 + Math.exp(-gate))) * up;
      return 0.5 * gate * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (gate + 0.044715 * gate ** 3))) * up;
    });
    return Array.from({ length: hidden }, (_, c) => times(back, e * hidden + c, inner, downBias));
  };
}
