import { KvError } from '@kv/core';
import type { Matrix } from '@kv/checkpoints';
import type { Linear, LinearFactory } from '../linear/linear.ts';
import { defaultSwiglu, geglu } from './gated.ts';
import { toHeads, turnHeads, turnRows } from './heads.ts';
import type { Angles, Engine, Instruction, Program, Rows } from './program.ts';
import { addBias, addInto, compact, rmsNorm, rowsOf, type RowView } from './rows.ts';

/** A run's values by id; columns are views, so that nothing is copied before it must be. */
interface Run {
  readonly m: number;
  readonly angles: Angles | undefined;
  readonly values: RowView[];
}

/** Computes one value. */
type Step = (run: Run) => Float32Array | RowView | Promise<Float32Array>;

/** Runs programs instruction by instruction: products by `linear`, the rest in JavaScript and this package's kernel. */
export function linearEngine(linear: LinearFactory, name = 'wasm'): Engine {
  const gates = { silu: defaultSwiglu(), gelu: geglu };
  return {
    name,
    async prepare(whole) {
      const products: Linear[] = [],
        program = withoutWeights(whole, (weight) => void products.push(linear(weight)));
      let next = 0;
      const step = (instruction: Instruction, index: number): Step | undefined => {
        const { x, out } = instruction;
        switch (instruction.op) {
          case 'rmsNorm':
            return ({ values, m }) => rmsNorm(values[x.id], m, instruction.gain, instruction.eps);
          case 'linear': {
            const product = products[next++],
              { bias } = instruction;
            return async ({ values, m }) => {
              const y = await product.apply(compact(values[x.id], m), m);
              return bias === undefined ? y : addBias(y, bias);
            };
          }
          case 'columns':
            return ({ values }) => ({ ...values[x.id], at: values[x.id].at + instruction.from, width: out.width });
          case 'rope':
            if (onlyForHeads(program, out)) return undefined;
            return ({ values, m, angles }) =>
              turnRows(values[x.id], m, instruction.headDim, expectAngles(angles, program));
          case 'heads': {
            const rope = program.instructions.find((other) => other.op === 'rope' && other.out.id === x.id);
            if (rope === undefined || !onlyForHeads(program, x))
              return ({ values, m }) => toHeads(values[x.id], m, instruction.headDim);
            return ({ values, m, angles }) =>
              turnHeads(values[rope.x.id], m, instruction.headDim, expectAngles(angles, program));
          }
          case 'gated':
            return ({ values, m }) => gates[instruction.activation](compact(values[x.id], m), out.width);
          case 'add': {
            const { y } = instruction,
              inX = spent(program, x, index),
              [into, other] = inX || !spent(program, y, index) ? [x, y] : [y, x];
            const copy = into === x && !inX;
            return ({ values, m }) => {
              const sum = compact(values[into.id], m);
              return addInto(copy ? sum.slice() : sum, compact(values[other.id], m));
            };
          }
          case 'scale':
            return ({ values, m }) => compact(values[x.id], m).map((value) => value * instruction.by);
          case 'softcap':
            return ({ values, m }) =>
              compact(values[x.id], m).map((value) => instruction.cap * Math.tanh(value / instruction.cap));
        }
      };
      const steps = program.instructions.flatMap((instruction, index) => {
        const compute = step(instruction, index);
        return compute === undefined ? [] : [{ out: instruction.out, compute }];
      });
      return {
        rowwise: products.every(({ rowwise }) => rowwise === true),
        async run(inputs, m, angles) {
          const run: Run = { m, angles, values: [] };
          for (const [i, { id, width }] of program.inputs.entries()) run.values[id] = rowsOf(inputs[i], width);
          for (const { out, compute } of steps) {
            const value = await compute(run);
            run.values[out.id] = value instanceof Float32Array ? rowsOf(value, out.width) : value;
          }
          return program.outputs.map(({ id }) => compact(run.values[id], m));
        },
        destroy() {
          for (const product of products) product.destroy();
        },
      };
    },
  };
}

const none: Matrix = { outputs: 0, inputs: 0, parts: [] };

/**
 * The program after `take` had every weight in turn: closures over it would keep the checkpoint's bytes beside what the
 * products hold.
 */
function withoutWeights(program: Program, take: (weight: Matrix) => void): Program {
  return {
    ...program,
    instructions: program.instructions.map((instruction) => {
      if (instruction.op !== 'linear') return instruction;
      take(instruction.weight);
      return { ...instruction, weight: none };
    }),
  };
}

const usersOf = (program: Program, { id }: Rows): Instruction[] =>
  program.instructions.filter((other) => other.x.id === id || (other.op === 'add' && other.y.id === id));
const isOutput = (program: Program, { id }: Rows): boolean => program.outputs.some((output) => output.id === id);

/** Whether a value is the engine's own and instruction `index` the last to read it: then it may be written over. */
function spent(program: Program, x: Rows, index: number): boolean {
  const users = usersOf(program, x),
    producer = program.instructions.find(({ out }) => out.id === x.id);
  if (producer === undefined || producer.op === 'columns' || isOutput(program, x)) return false;
  return users.at(-1) === program.instructions[index] && users.every(({ op }) => op !== 'columns');
}

/** Whether turned rows go into the layout of heads and nowhere else: then they are written there at once. */
function onlyForHeads(program: Program, turned: Rows): boolean {
  const users = usersOf(program, turned);
  return users.length === 1 && users[0].op === 'heads' && !isOutput(program, turned);
}

function expectAngles(angles: Angles | undefined, { name }: Program): Angles {
  if (angles === undefined) throw new KvError(name, 'expected the angles of its rows, got none');
  return angles;
}
