import { KvError } from '@kv/core';
import type { Matrix } from '@kv/checkpoints';
import type { Angles, Engine, Instruction, Program, RowsValue, Runnable } from '@kv/engine';
import { toHeads } from '@kv/engine';
import { BytecodeWriter } from './bytecode-writer.ts';
import { expectKnown, onlyUser, writeProgram } from './compile.ts';
import type { ProgramConstants } from './compile.ts';
import { install, sizesOf } from './install.ts';
import type { LoadedCode } from './install.ts';
import { formNames } from './kernels.ts';
import type { FastModule } from './kernels.ts';
import type { BufferSlice } from './layout.ts';
import { WeightArena } from './weight-arena.ts';
import { cutAtExperts, placeChosen, type ProgramPiece } from './routed-experts.ts';
import { nothing } from './nothing.ts';
import { warmUp } from './warm-up.ts';
import { copyRows, rowsAt } from './rows.ts';
import { ThreadPool } from './thread-pool.ts';

export interface WasmEngineOptions {
  /** @defaultValue 1 */
  readonly threads?: number;
  /**
   * Computes products in f32 from weights as stored. Otherwise weights of at most 8 bits are multiplied with
   * activations rounded to 8 bits. @defaultValue false
   */
  readonly exact?: boolean;
  /** Called with one sentence if there is one thread where more were asked for. @defaultValue console.warn */
  readonly warn?: (sentence: string) => void;
}

/** Rows that go through a program at a time. */
const tile = 256;

/** A program whose weights are packed in panels. */
export interface WasmRunnable extends Runnable {
  readonly program: Program;
  readonly placed: ReadonlyMap<Instruction, ProgramConstants>;
  readonly pool: ThreadPool;
}

/**
 * Returns an engine that runs programs on this package's module, in memory that its threads share.
 * @param fast the compiled module, see `fastModule`
 * @throws UnsupportedModelError, while it prepares a program, for weights that the module cannot hold
 */
export function wasmEngine(
  fast: FastModule,
  { threads = 1, exact = false, warn = console.warn }: WasmEngineOptions = {},
): Engine<WasmRunnable> {
  let pool: Promise<ThreadPool> | undefined,
    users = 0;
  const alone = (why: string): void =>
    warn(new KvError('wasm', `${threads} threads are not available, so one is used: ${why}`).message);
  const start = async (): Promise<ThreadPool> => {
    // other threads take a while to start
    const [started] = await Promise.all([ThreadPool.start(fast, threads, alone), threads > 1 && warmUp()]);
    return started;
  };
  return {
    name: engineName(fast, exact, threads),
    async prepare(program) {
      const pieces = cutAtExperts(program);
      for (const piece of pieces) if (!('op' in piece)) expectKnown(piece);
      pool ??= start();
      users++;
      const own = await pool,
        arena = new WeightArena(own, exact);
      const release = (): void => {
        arena.free();
        if (--users > 0) return;
        own.destroy();
        pool = undefined;
      };
      try {
        return pieces[0] !== program
          ? withExperts(own, program, pieces, arena, release)
          : runnable(own, program, arena, release);
      } catch (error) {
        release();
        throw error;
      }
    },
  };
}

/** Returns an engine's name in reports, for this number of threads. */
export const engineName = ({ form }: FastModule, exact: boolean, threads: number): string =>
  `wasm, ${exact ? 'f32' : 'stored weights'}, ${formNames[form]}, ${threads} thread${threads === 1 ? '' : 's'}`;

/** Returns a program to run piece by piece, some of whose instructions choose experts for every row. */
function withExperts(
  pool: ThreadPool,
  program: Program,
  pieces: readonly ProgramPiece[],
  arena: WeightArena,
  release: () => void,
): WasmRunnable {
  const parts = pieces.map((piece) =>
      'op' in piece ? placeChosen(pool, arena, piece) : runnable(pool, piece, arena, () => {}),
    ),
    runs = parts.flatMap((part) => ('run' in part ? [part] : [])),
    { inputs, outputs } = program;
  let alive = true;
  return {
    program: { ...program, instructions: runs.flatMap((part) => part.program.instructions) },
    placed: new Map(runs.flatMap((part) => [...part.placed])),
    pool,
    async run(given, m, angles) {
      if (!alive) throw new KvError(program.name, 'the program was destroyed');
      const values = new Map(inputs.map(({ id }, i) => [id, given[i]])),
        read = ({ id }: RowsValue): Float32Array => values.get(id)!; // pieces give what later ones read
      for (const part of parts)
        if ('run' in part)
          for (const [i, out] of (await part.run(part.program.inputs.map(read), m, angles)).entries())
            values.set(part.program.outputs[i].id, out);
        else values.set(part.out.id, part.compute(read, m));
      return outputs.map(read);
    },
    stored(name) {
      const part = runs.find(({ program: { instructions } }) =>
        instructions.some((instruction) => instruction.op === 'linear' && instruction.name === name),
      );
      if (part === undefined) throw new KvError(program.name, `expected a product of its own, got ${name}`);
      return part.stored!(name); // every such program has it
    },
    destroy() {
      if (!alive) return;
      alive = false;
      release();
    },
  };
}

/** Code for a number of rows, written when first asked for. */
interface Written extends LoadedCode {
  readonly inputs: readonly BufferSlice[];
  readonly outputs: readonly BufferSlice[];
}

/** Returns a program to run. Its closure holds no weight of the checkpoint, so that the caller may drop those bytes. */
function runnable(pool: ThreadPool, whole: Program, arena: WeightArena, release: () => void): WasmRunnable {
  const { heap, kernels } = pool,
    { program, placed } = place(whole, arena),
    written = new Map<number, Written>();
  const rope = program.instructions.find((instruction) => instruction.op === 'rope'),
    rotary = rope === undefined ? 0 : (rope.rotary ?? rope.headDim),
    half = rotary / 2;
  let alive = true;
  const codeFor = (rows: number): Written => {
    const known = written.get(rows);
    if (known !== undefined) return known;
    const code = new BytecodeWriter(sizesOf(pool), rows),
      inputs = program.inputs.map(({ width }) => code.stream.value(width, true)),
      outputs = writeProgram(code, program, placed, inputs),
      all = { ...install(pool, arena, code), inputs, outputs };
    written.set(rows, all);
    return all;
  };
  /** Runs at most a tile of rows, from row `from` of the inputs to the same rows of the outputs. */
  const pass = (
    inputs: readonly Float32Array[],
    outputs: readonly Float32Array[],
    from: number,
    rows: number,
    angles: Angles | undefined,
  ): void => {
    const code = codeFor(rows === 1 ? 1 : tile),
      rooms = pool.bench.for(code.layout);
    for (const [i, { width }] of program.inputs.entries())
      copyRows(inputs[i].subarray(from * width), width, rowsAt(heap, rooms, code.inputs[i], rows), rows);
    const angleRows = heap.floats(pool.angles.at(8 * half * rows + 64), 2 * half * rows);
    if (angles && half > 0) {
      angleRows.set(angles.cos.subarray(from * half, (from + rows) * half));
      angleRows.set(angles.sin.subarray(from * half, (from + rows) * half), half * rows);
    }
    const cos = angleRows.byteOffset;
    pool.call({ ...nothing, ...code, ...rooms, rows, cos, sin: cos + 4 * half * rows });
    for (const [i, { width }] of program.outputs.entries()) {
      const { data, stride } = rowsAt(heap, rooms, code.outputs[i], rows);
      for (let r = 0; r < rows; r++) outputs[i].set(data.subarray(r * stride, r * stride + width), (from + r) * width);
    }
  };
  return {
    program,
    placed,
    pool,
    async run(inputs, m, angles) {
      if (!alive) throw new KvError(program.name, 'the program was destroyed');
      if (half > 0 && (angles?.rotary !== rotary || angles.cos.length !== m * half))
        throw new KvError(
          program.name,
          angles === undefined
            ? 'expected the angles of its rows, got none'
            : `expected angles of ${m} rows and ${rotary} numbers a head, got ${angles.cos.length} of ${angles.rotary}`,
        );
      const outputs = program.outputs.map(({ width }) => new Float32Array(m * width));
      for (let from = 0; from < m; from += tile) pass(inputs, outputs, from, Math.min(tile, m - from), angles);
      return outputs.map((data, i) => {
        const { id } = program.outputs[i],
          heads = program.instructions.find(({ op, out }) => op === 'heads' && out.id === id);
        return heads?.op === 'heads' ? toHeads(data, m, heads.headDim) : data;
      });
    },
    stored(name) {
      const linear = program.instructions.find(
          (instruction) => instruction.op === 'linear' && instruction.name === name,
        ),
        parts = linear === undefined ? [] : placed.get(linear)!.parts; // every product is placed
      return (from, count) => {
        const inputs = parts[0]?.inputs ?? 0,
          out = new Float32Array(count * inputs),
          at = pool.angles.at(4 * inputs + 64);
        for (let r = 0; r < count; r++) {
          let row = from + r;
          const part = parts.find(({ rows }) => {
            if (row < rows) return true;
            row -= rows;
            return false;
          });
          if (part === undefined) throw new KvError(program.name, `expected a row of ${name}, got ${from + r}`);
          kernels.row(part.kind, part.at + Math.floor(row / 16) * part.size, inputs, row % 16, at);
          out.set(heap.floats(at, inputs), r * inputs);
        }
        return out;
      };
    },
    destroy() {
      if (!alive) return;
      alive = false;
      release();
    },
  };
}

const none: Matrix = { outputs: 0, inputs: 0, parts: [] };

/** Places a program's weights, gains and biases, and returns the program without them. */
function place(program: Program, arena: WeightArena): Pick<WasmRunnable, 'program' | 'placed'> {
  const placed = new Map<Instruction, ProgramConstants>();
  const instructions = program.instructions.map((instruction) => {
    if (instruction.op === 'rmsNorm') placed.set(instruction, { parts: [], array: arena.array(instruction.gain) });
    if (instruction.op !== 'linear') return instruction;
    const { weight, bias, out } = instruction,
      gates = onlyUser(program, out)?.op === 'gated',
      parts = arena.weight(weight, gates ? out.width / 2 : 0),
      array = bias === undefined ? 0 : arena.array(bias),
      bare = { ...instruction, weight: none };
    placed.set(bare, { parts, gate: gates && parts.length === 2, array });
    return bare;
  });
  return { program: { ...program, instructions }, placed };
}
