import { KvError } from '@kv/core';
import type { Matrix } from '../checkpoint/matrix.ts';
import type { Angles, Engine, Instruction, Program, Runnable } from '../decoder/program.ts';
import { toHeads } from '../decoder/heads.ts';
import { Code } from './code.ts';
import { onlyUser, writeProgram, type Placed } from './compile.ts';
import { activationBytes, formNames, type FastModule } from './kernels.ts';
import type { Place } from './layout.ts';
import { Placing } from './placing.ts';
import { Team } from './team.ts';

export interface WasmEngineOptions {
  /** @defaultValue 1 */
  readonly threads?: number;
  /** Products in f32 of weights as stored; otherwise weights of at most 8 bits meet activations in 8 bits. */
  readonly exact?: boolean;
  /** Told in one sentence why there is one thread where more were asked for. @defaultValue console.warn */
  readonly warn?: (sentence: string) => void;
}

/** Rows that go through a program at a time. */
const tile = 256;

/** A program whose weights lie in panels. */
export interface WasmRunnable extends Runnable {
  readonly program: Program;
  readonly placed: ReadonlyMap<Instruction, Placed>;
  readonly team: Team;
}

/** Runs programs on this package's module, in memory that its threads share. */
export function wasmEngine(
  fast: FastModule,
  { threads = 1, exact = false, warn = console.warn }: WasmEngineOptions = {},
): Engine & { prepare(program: Program): Promise<WasmRunnable> } {
  let team: Promise<Team> | undefined,
    users = 0;
  const alone = (why: string): void =>
    warn(new KvError('wasm', `expected ${threads} threads, goes on with one: ${why}`).message);
  return {
    name: `wasm, ${exact ? 'f32' : 'stored weights'}, ${formNames[fast.form]}, ${threads} thread${threads === 1 ? '' : 's'}`,
    async prepare(program) {
      team ??= Team.start(fast, threads, alone);
      users++;
      const own = await team,
        placing = new Placing(own, exact);
      const release = (): void => {
        placing.free();
        if (--users > 0) return;
        own.destroy();
        team = undefined;
      };
      try {
        return runnable(own, program, placing, release);
      } catch (error) {
        release();
        throw error;
      }
    },
  };
}

/** Code for so many rows, written when first asked for. */
interface Written {
  readonly code: number;
  readonly end: number;
  readonly shared: number;
  readonly own: number;
  readonly ownBytes: number;
  readonly inputs: readonly Place[];
  readonly outputs: readonly Place[];
}

function runnable(team: Team, program: Program, placing: Placing, release: () => void): WasmRunnable {
  const { heap } = team,
    { program: bare, placed } = place(program, placing),
    written = new Map<number, Written>();
  const rope = program.instructions.find((instruction) => instruction.op === 'rope'),
    rotary = rope === undefined ? 0 : (rope.rotary ?? rope.headDim),
    half = rotary / 2,
    angleRoom = placing.take(8 * half * tile + 64);
  let alive = true;
  const codeFor = (rows: number): Written => {
    const known = written.get(rows);
    if (known !== undefined) return known;
    const code = new Code(sizesOf(team), rows),
      inputs = bare.inputs.map(({ width }) => code.value(width, true)),
      outputs = writeProgram(code, bare, placed, inputs);
    const made = install(team, placing, code);
    const all = { ...made, inputs, outputs };
    written.set(rows, all);
    return all;
  };
  const view = ({ shared, own }: Written, { base, at, stride }: Place, rows: number): Float32Array =>
    heap.floats((base === 1 ? shared : own) + at, (rows * stride) / 4);
  /** At most a tile of rows, from row `from` of the inputs to the same rows of the outputs. */
  const pass = (
    inputs: readonly Float32Array[],
    outputs: readonly Float32Array[],
    from: number,
    rows: number,
    angles: Angles | undefined,
  ): void => {
    const code = codeFor(rows === 1 ? 1 : tile);
    for (const [i, { width }] of bare.inputs.entries()) {
      const to = view(code, code.inputs[i], rows),
        stride = code.inputs[i].stride / 4;
      for (let r = 0; r < rows; r++) to.set(inputs[i].subarray((from + r) * width, (from + r + 1) * width), r * stride);
    }
    const turns = heap.floats(angleRoom, 2 * half * rows);
    if (angles && half > 0) {
      turns.set(angles.cos.subarray(from * half, (from + rows) * half));
      turns.set(angles.sin.subarray(from * half, (from + rows) * half), half * rows);
    }
    const none = { caches: 0, position: 0, packed: 0 };
    team.call({ ...code, ...none, rows, cos: angleRoom, sin: angleRoom + 4 * half * rows });
    for (const [i, { width }] of bare.outputs.entries()) {
      const { stride } = code.outputs[i],
        data = view(code, code.outputs[i], rows);
      for (let r = 0; r < rows; r++)
        outputs[i].set(data.subarray((r * stride) / 4, (r * stride) / 4 + width), (from + r) * width);
    }
  };
  return {
    program: bare,
    placed,
    team,
    async run(inputs, m, angles) {
      if (!alive) throw new KvError(program.name, 'expected a program that is not destroyed, got one that is');
      if (half > 0 && (angles?.rotary !== rotary || angles.cos.length !== m * half))
        throw new KvError(
          program.name,
          angles === undefined
            ? 'expected the angles of its rows, got none'
            : `expected angles of ${m} rows and ${rotary} numbers a head, got ${angles.cos.length} of ${angles.rotary}`,
        );
      const outputs = bare.outputs.map(({ width }) => new Float32Array(m * width));
      for (let from = 0; from < m; from += tile) pass(inputs, outputs, from, Math.min(tile, m - from), angles);
      return outputs.map((data, i) => {
        const { id, width } = bare.outputs[i],
          heads = bare.instructions.find(({ op, out }) => op === 'heads' && out.id === id);
        return heads?.op === 'heads' ? toHeads({ data, at: 0, stride: width, width }, m, heads.headDim) : data;
      });
    },
    destroy() {
      if (!alive) return;
      alive = false;
      release();
    },
  };
}

/** What code needs to know of a team. */
export const sizesOf = ({ kernels, threads, fast }: Team): ConstructorParameters<typeof Code>[0] => ({
  threads,
  activation: activationBytes(fast.form),
  ownBytes: kernels.ownBytes(),
  partBytes: kernels.partBytes,
  tokenScratch: kernels.tokenScratch,
  rowsScratch: kernels.rowsScratch,
});

/** Puts code, and room for what it works on, into a team's memory. */
export function install(
  { heap, threads }: Team,
  placing: Placing,
  { words, length, layout }: Code,
): Pick<Written, 'code' | 'end' | 'shared' | 'own' | 'ownBytes'> {
  const code = placing.take(length + 64);
  heap.words(code, words.length).set(words);
  const shared = placing.take(layout.shared + 64),
    own = placing.take(layout.own * threads + 64);
  // rows beyond those of a tile are multiplied too: nothing there may be slow, as subnormal numbers are
  heap.bytes(shared, layout.shared + 64).fill(0);
  heap.bytes(own, layout.own * threads + 64).fill(0);
  return { code, end: code + length, shared, own, ownBytes: layout.own };
}

const none: Matrix = { outputs: 0, inputs: 0, parts: [] };

/** A program without its weights, gains and biases, which are placed. */
function place(program: Program, placing: Placing): Pick<WasmRunnable, 'program' | 'placed'> {
  const placed = new Map<Instruction, Placed>();
  const instructions = program.instructions.map((instruction) => {
    if (instruction.op === 'rmsNorm') placed.set(instruction, { parts: [], array: placing.array(instruction.gain) });
    if (instruction.op !== 'linear') return instruction;
    const { weight, bias, out } = instruction,
      gates = onlyUser(program, out)?.op === 'gated',
      parts = placing.weight(weight, gates ? out.width / 2 : 0),
      array = bias === undefined ? 0 : placing.array(bias),
      bare = { ...instruction, weight: none };
    placed.set(bare, { parts, gate: gates && parts.length === 2, array });
    return bare;
  });
  return { program: { ...program, instructions }, placed };
}
