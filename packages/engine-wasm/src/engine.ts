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
import { panelBytes, WeightArena } from './weight-arena.ts';
import { cutAtExperts, placeChosen, type ProgramPiece } from './routed-experts.ts';
import { nothing } from './nothing.ts';
import { warmUp } from './warm-up.ts';
import { angleRows, copyRows, rowsAt } from './rows.ts';
import { ThreadPool } from './thread-pool.ts';

export interface WasmEngineOptions {
  /** @defaultValue 1 */
  readonly threads?: number;
  /**
   * Computes products in f32 from weights as stored. Otherwise weights of at most 8 bits are multiplied with
   * activations rounded to 8 bits. @defaultValue false
   */
  readonly exact?: boolean;
  /**
   * Most bytes of weights in one memory of the module; others go to further memories, each with threads of its own.
   * @defaultValue seven eighths of what a memory can grow to, 4 GiB as a rule
   */
  readonly memoryBytes?: number;
  /** Called with one sentence if there is one thread where more were asked for. @defaultValue console.warn */
  readonly warn?: (sentence: string) => void;
}

/** Rows that go through a program at a time. */
const tile = 256;

/** A program without its weights, and where these are. */
type PlacedProgram = Pick<WasmRunnable, 'program' | 'placed'>;

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
  { threads = 1, exact = false, memoryBytes, warn = console.warn }: WasmEngineOptions = {},
): Engine<WasmRunnable> {
  const pools: HeldPool[] = [];
  const alone = (why: string): void =>
    warn(new KvError('wasm', `${threads} threads are not available, so one is used: ${why}`).message);
  const start = async (): Promise<ThreadPool> => {
    // other threads take a while to start
    const [started] = await Promise.all([ThreadPool.start(fast, threads, alone), threads > 1 && warmUp()]);
    return started;
  };
  /** Returns the newest memory, or a further one if that has no room for a program's weights, and takes this room. */
  const roomFor = async (program: Program): Promise<{ own: ThreadPool; held: HeldPool; bytes: number }> => {
    for (;;) {
      let held = pools.at(-1);
      if (held === undefined) pools.push((held = { pool: start(), users: 0, bytes: 0 }));
      const own = await held.pool,
        bytes = weightBytes(own, program);
      if (held !== pools.at(-1)) continue;
      if (held.users > 0 && held.bytes + bytes > (memoryBytes ?? (7 / 8) * own.heap.most))
        pools.push((held = { pool: start(), users: 0, bytes: 0 }));
      held.users++;
      held.bytes += bytes;
      return { own: await held.pool, held, bytes };
    }
  };
  return {
    name: engineName(fast, exact, threads),
    takesRows: true,
    async prepare(program) {
      const pieces = cutAtExperts(program);
      for (const piece of pieces) if (!('op' in piece)) expectKnown(piece);
      const { own, held, bytes } = await roomFor(program),
        arena = new WeightArena(own, exact);
      const release = (): void => {
        arena.free();
        held.bytes -= bytes;
        if (--held.users > 0) return;
        own.destroy();
        pools.splice(pools.indexOf(held), 1);
      };
      try {
        return pieces[0] !== program
          ? await withExperts(own, program, pieces, arena, release)
          : runnable(own, await place(program, arena), arena, release);
      } catch (error) {
        release();
        throw error;
      }
    },
  };
}

/** A pool, the programs whose weights are in its memory, and their bytes. */
interface HeldPool {
  readonly pool: Promise<ThreadPool>;
  users: number;
  bytes: number;
}

/** Returns the bytes of a program's weights in a pool's memory. */
const weightBytes = (pool: ThreadPool, { instructions }: Program): number =>
  instructions.flatMap(weightsOf).reduce((sum, weight) => sum + panelBytes(pool, weight), 0);

function weightsOf(instruction: Instruction): readonly Matrix[] {
  if (instruction.op === 'experts') return [instruction.gateUp, instruction.down];
  return instruction.op === 'linear' ? [instruction.weight] : [];
}

/** Returns an engine's name in reports, for this number of threads. */
export const engineName = ({ form }: FastModule, exact: boolean, threads: number): string =>
  `wasm, ${exact ? 'f32' : 'stored weights'}, ${formNames[form]}, ${threads} thread${threads === 1 ? '' : 's'}`;

/** Returns a program to run piece by piece, some of whose instructions choose experts for every row. */
async function withExperts(
  pool: ThreadPool,
  program: Program,
  pieces: readonly ProgramPiece[],
  arena: WeightArena,
  release: () => void,
): Promise<WasmRunnable> {
  const parts: (Awaited<ReturnType<typeof placeChosen>> | WasmRunnable)[] = [];
  for (const piece of pieces)
    parts.push(
      'op' in piece
        ? await placeChosen(pool, arena, piece)
        : runnable(pool, await place(piece, arena), arena, () => {}),
    );
  const runs = parts.flatMap((part) => ('run' in part ? [part] : [])),
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
function runnable(
  pool: ThreadPool,
  { program, placed }: PlacedProgram,
  arena: WeightArena,
  release: () => void,
): WasmRunnable {
  const { heap, kernels } = pool,
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
    const numbers = heap.floats(pool.angles.at(8 * half * rows + 4 * rows + 64), 2 * half * rows + rows),
      own = angles && half > 0 ? angleRows(angles, from, rows) : undefined;
    if (own) {
      numbers.set(own.cos);
      numbers.set(own.sin, half * rows);
      numbers.set(own.scales ?? [], 2 * half * rows);
    }
    const cos = numbers.byteOffset,
      sin = cos + 4 * half * rows;
    pool.call({ ...nothing, ...code, ...rooms, rows, cos, sin, scales: own?.scales ? sin + 4 * half * rows : 0 });
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
async function place(program: Program, arena: WeightArena): Promise<PlacedProgram> {
  const placed = new Map<Instruction, ProgramConstants>(),
    instructions: Instruction[] = [];
  for (const instruction of program.instructions) {
    if (instruction.op === 'rmsNorm') placed.set(instruction, { parts: [], array: arena.array(instruction.gain) });
    if (instruction.op !== 'linear') {
      instructions.push(instruction);
      continue;
    }
    const { weight, bias, out } = instruction,
      gates = onlyUser(program, out)?.op === 'gated',
      parts = await arena.weight(weight, gates ? out.width / 2 : 0),
      array = bias === undefined ? 0 : arena.array(bias),
      bare = { ...instruction, weight: none };
    placed.set(bare, { parts, gate: gates && parts.length === 2, array });
    instructions.push(bare);
  }
  return { program: { ...program, instructions }, placed };
}
