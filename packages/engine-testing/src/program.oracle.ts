import type { Angles, Program } from '@kv/engine';
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
          const { gain, eps } = instruction,
            run = gain.length;
          return cells((r, c) => {
            const first = c - (c % run);
            let squares = 0;
            for (let i = 0; i < run; i++) squares += at(r, first + i) ** 2;
            return (at(r, c) / Math.sqrt(squares / run + eps)) * gain[c % run];
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
            { rotary, cos, sin } = angles!,
            half = rotary / 2;
          return cells((r, c) => {
            const i = c % headDim;
            if (i >= rotary) return at(r, c);
            const angle = r * half + (i % half);
            return i < half
              ? at(r, c) * cos[angle] - at(r, c + half) * sin[angle]
              : at(r, c) * cos[angle] + at(r, c - half) * sin[angle];
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
