import type { Instruction, Program, RowsValue } from '@kv/engine';
import { graphWriter, type Dimension, type GraphWriter } from './graph.ts';
import { product, type WeightForm } from './product.ts';

/**
 * Builds a program as an ONNX model: inputs `x0`, `x1`, ... `[m, width]`, and `cos` and `sin` `[m, rotary / 2]` if it
 * rotates heads; outputs `y0`, `y1`, ...
 */
export function programGraph(program: Program, form: WeightForm): Uint8Array {
  const graph = graphWriter(program.name);
  angleInputs(graph, program);
  const outputs = body(
    graph,
    program,
    program.inputs.map(({ width }, i) => graph.input(`x${i}`, ['m', width])),
    form,
  );
  outputs.forEach(({ value, shape }, i) => graph.output(`y${i}`, value, shape));
  return graph.model();
}

/** Returns how many numbers of a head a program rotates, if any. */
export function rotaryOf({ instructions }: Program): number | undefined {
  const rope = instructions.find(({ op }) => op === 'rope');
  return rope?.op === 'rope' ? (rope.rotary ?? rope.headDim) : undefined;
}

/** Declares the angles of rows, if the program rotates heads. */
export function angleInputs(graph: GraphWriter, program: Program): void {
  const rotary = rotaryOf(program);
  if (rotary !== undefined) for (const name of ['cos', 'sin']) graph.input(name, ['t', rotary / 2]);
}

/** The values that hold the angles of rows, `[m, rotary / 2]`. */
export interface AngleNames {
  readonly cos: string;
  readonly sin: string;
}
const INPUTS: AngleNames = { cos: 'cos', sin: 'sin' };

/** Writes a program's instructions and returns its outputs. */
export function body(
  graph: GraphWriter,
  program: Program,
  inputs: readonly string[],
  form: WeightForm,
  angles: AngleNames = INPUTS,
): { readonly value: string; readonly shape: readonly Dimension[] }[] {
  const names = new Map(program.inputs.map(({ id }, i) => [id, inputs[i]]));
  const nameOf = ({ id }: RowsValue): string => names.get(id)!; // an instruction reads what an earlier one wrote
  for (const instruction of program.instructions)
    names.set(instruction.out.id, write(graph, instruction, nameOf, form, program, angles));
  return program.outputs.map((rows) => {
    const heads = program.instructions.find(({ op, out }) => op === 'heads' && out.id === rows.id);
    return {
      value: nameOf(rows),
      shape: heads?.op === 'heads' ? [rows.width / heads.headDim, 'r', heads.headDim] : ['r', rows.width],
    };
  });
}

function write(
  graph: GraphWriter,
  instruction: Instruction,
  nameOf: (rows: RowsValue) => string,
  form: WeightForm,
  program: Program,
  { cos, sin }: AngleNames,
): string {
  const { op, out } = instruction,
    x = nameOf(instruction.x),
    { width } = instruction.x;
  const shaped = (value: string, ...shape: readonly number[]): string =>
    graph.op('Reshape', [value, graph.ints(...shape)]);
  const scalar = (value: number): string => graph.floats(Float32Array.of(value), []);
  switch (op) {
    case 'rmsNorm': {
      const { gain, eps } = instruction,
        run = gain.length;
      const norm = (value: string): string =>
        graph.op('SimplifiedLayerNormalization', [value, graph.floats(gain, [run])], {
          axis: -1,
          epsilon: { float: eps },
          stash_type: 1,
        });
      return run === width ? norm(x) : shaped(norm(shaped(x, -1, run)), -1, width);
    }
    case 'linear':
      return product(graph, x, instruction.weight, instruction.bias, form);
    case 'columns':
      return graph.op('Slice', [
        x,
        graph.ints(instruction.from),
        graph.ints(instruction.from + out.width),
        graph.ints(1),
      ]);
    case 'rope': {
      // The angles of a row are looked up by its number, counted from position 0.
      const rows = graph.op('Unsqueeze', [x, graph.ints(0)]);
      const turned = graph.contrib('RotaryEmbedding', [rows, graph.ints(0), cos, sin], {
        num_heads: width / instruction.headDim,
        rotary_embedding_dim: instruction.rotary ?? instruction.headDim,
      });
      return onlyForHeads(program, out) ? turned : graph.op('Squeeze', [turned, graph.ints(0)]);
    }
    case 'gated': {
      const half = (from: number): string =>
        graph.op('Slice', [x, graph.ints(from), graph.ints(from + out.width), graph.ints(1)]);
      return graph.op('Mul', [activated(graph, instruction.activation, half(0)), half(out.width)]);
    }
    case 'gatedBy':
      return graph.op('Mul', [activated(graph, instruction.activation, x), nameOf(instruction.y)]);
    case 'add':
      return graph.op('Add', [x, nameOf(instruction.y)]);
    case 'scale':
      return graph.op('Mul', [x, scalar(instruction.by)]);
    case 'softcap':
      return graph.op('Mul', [
        graph.op('Tanh', [graph.op('Div', [x, scalar(instruction.cap)])]),
        scalar(instruction.cap),
      ]);
    case 'heads':
      return graph.op('Transpose', [shaped(x, -1, width / instruction.headDim, instruction.headDim)], {
        perm: [1, 0, 2],
      });
  }
}

/** Returns whether rotated rows are read only by `heads`: then their third dimension may stay. */
function onlyForHeads({ instructions, outputs }: Program, { id }: RowsValue): boolean {
  const users = instructions.filter((other) => other.x.id === id || ('y' in other && other.y.id === id));
  return users.length > 0 && users.every(({ op }) => op === 'heads') && !outputs.some((output) => output.id === id);
}

/** Writes a gate's activation; gelu is the tanh form. */
const activated = (graph: GraphWriter, activation: 'silu' | 'gelu', x: string): string =>
  activation === 'gelu' ? graph.contrib('FastGelu', [x]) : graph.op('Mul', [x, graph.op('Sigmoid', [x])]);
