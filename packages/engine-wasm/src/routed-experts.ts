import { matrixRows } from '@kv/checkpoints';
import { gateRows, gatherRows, routeRows, rowsByExpert, valuesRead } from '@kv/engine';
import type { Instruction, Program, RowsValue } from '@kv/engine';
import { BytecodeWriter } from './bytecode-writer.ts';
import { activations } from './compile.ts';
import { install, sizesOf, type LoadedCode } from './install.ts';
import type { WeightPanels } from './instructions.ts';
import type { BufferSlice } from './layout.ts';
import { nothing } from './nothing.ts';
import { copyRows, rowsAt } from './rows.ts';
import type { ThreadPool } from './thread-pool.ts';
import type { WeightArena } from './weight-arena.ts';

/** An instruction of which the host decides, row by row, what the module computes. */
type Chosen = Extract<Instruction, { readonly op: 'experts' | 'gateRows' }>;

/** A program that the module runs as it is, or an instruction between two of these. */
export type ProgramPiece = Program | Chosen;

/** Cuts a program before and after the instructions that choose; one without them is its only piece. */
export function cutAtExperts(program: Program): readonly ProgramPiece[] {
  const chosen = (instruction: Instruction): instruction is Chosen =>
      instruction.op === 'experts' || instruction.op === 'gateRows',
    order: (Instruction[] | Chosen)[] = [[]];
  if (!program.instructions.some(chosen)) return [program];
  for (const instruction of program.instructions)
    if (chosen(instruction)) order.push(instruction, []);
    else (order[order.length - 1] as Instruction[]).push(instruction); // a list is the last after any other
  const pieces = order.filter((piece) => 'op' in piece || piece.length > 0);
  return pieces.map((piece, at) => {
    if ('op' in piece) return piece;
    const made = new Set(piece.map(({ out }) => out.id)),
      once = (values: readonly RowsValue[]): RowsValue[] => [
        ...new Map(values.map((value) => [value.id, value])).values(),
      ],
      later = new Set(
        [
          ...pieces.slice(at + 1).flatMap((other) => ('op' in other ? [other] : other).flatMap(valuesRead)),
          ...program.outputs,
        ].map(({ id }) => id),
      );
    return {
      name: program.name,
      inputs: once(piece.flatMap(valuesRead).filter(({ id }) => !made.has(id))),
      instructions: piece,
      outputs: piece.flatMap(({ out }) => (later.has(out.id) ? [out] : [])),
    };
  });
}

/** What computes the value of an instruction that chooses. */
interface ChosenPart {
  readonly out: RowsValue;
  compute(read: (value: RowsValue) => Float32Array, m: number): Float32Array;
}

/** Places the weights of an instruction that chooses, and returns what computes it. */
export async function placeChosen(pool: ThreadPool, arena: WeightArena, instruction: Chosen): Promise<ChosenPart> {
  if (instruction.op === 'experts') return placeExperts(pool, arena, instruction);
  const { x, gate, out } = instruction;
  return { out, compute: (read) => gateRows(read(x), read(gate)) };
}

/** Rows that go through an expert at a time. */
const tile = 256;

/** An expert's matrices and biases in the module's memory, and its code by rows. */
interface PlacedExpert {
  readonly gate: WeightPanels;
  readonly up: WeightPanels;
  readonly bias: number;
  readonly down: WeightPanels;
  readonly downBias: number;
  readonly codes: Map<number, ExpertCode>;
}

/** An expert's code for one row, or for a tile. */
interface ExpertCode extends LoadedCode {
  readonly x: BufferSlice;
  readonly y: BufferSlice;
}

/**
 * Places every expert's matrices by themselves, as they are stored. Rows of a block are grouped by expert, and the matrices
 * of an expert are read once for its rows, those of the others not at all.
 */
async function placeExperts(
  pool: ThreadPool,
  arena: WeightArena,
  instruction: Extract<Instruction, { readonly op: 'experts' }>,
): Promise<ChosenPart> {
  const { x, scores, out, routing, activation, ...weights } = instruction;
  const { width: count } = scores,
    width = weights.down.inputs,
    { heap } = pool;
  /** Places one part of a matrix, which is of one type. */
  const part = async (matrix: typeof weights.down, from: number, rows: number): Promise<WeightPanels> =>
      (await arena.weight(matrixRows(matrix, from, rows)))[0],
    bias = (all: Float32Array | undefined, expert: number): number =>
      all === undefined
        ? 0
        : arena.array(all.subarray((expert * all.length) / count, ((expert + 1) * all.length) / count));
  const placed: PlacedExpert[] = [];
  for (let e = 0; e < count; e++)
    placed.push({
      gate: await part(weights.gateUp, 2 * e * width, width),
      up: await part(weights.gateUp, (2 * e + 1) * width, width),
      bias: bias(weights.gateUpBias, e),
      down: await part(weights.down, e * out.width, out.width),
      downBias: bias(weights.downBias, e),
      codes: new Map(),
    });
  const codeOf = (expert: number, rows: number): ExpertCode => {
    const { codes, gate, up, down, ...biases } = placed[expert],
      known = codes.get(rows);
    if (known) return known;
    const code = new BytecodeWriter(sizesOf(pool), rows),
      from = code.stream.value(x.width, true),
      gated = code.gated(from, gate, up, biases.bias, activations[activation]),
      y = code.product(gated, [down], biases.downBias),
      all = { ...install(pool, arena, code), x: from, y };
    codes.set(rows, all);
    return all;
  };
  /** Adds an expert's result of rows, times their weights, to the sums of these rows. */
  const add = (
    expert: number,
    rows: readonly number[],
    by: readonly number[],
    given: Float32Array,
    sums: Float64Array,
    m: number,
  ): void => {
    const code = codeOf(expert, m === 1 ? 1 : tile),
      rooms = pool.bench.for(code.layout),
      // a row of a block has the result that it has among several
      held = m > 1 && rows.length === 1 ? [rows[0], rows[0]] : rows;
    copyRows(gatherRows(given, x.width, held), x.width, rowsAt(heap, rooms, code.x, held.length), held.length);
    pool.call({ ...nothing, ...code, ...rooms, rows: held.length, cos: 0, sin: 0 });
    const { data, stride } = rowsAt(heap, rooms, code.y, rows.length);
    for (const [i, row] of rows.entries())
      for (let c = 0; c < out.width; c++) sums[row * out.width + c] += by[i] * data[i * stride + c];
  };
  return {
    out,
    compute(read, m) {
      const given = read(x),
        sums = new Float64Array(m * out.width),
        groups = rowsByExpert(routeRows(read(scores), m, routing, weights), routing.active, count);
      for (const { expert, rows, weights: by } of groups)
        for (let from = 0; from < rows.length; from += tile)
          add(expert, rows.slice(from, from + tile), by.slice(from, from + tile), given, sums, m);
      return Float32Array.from(sums);
    },
  };
}
