import { KvError } from '@kv/core';
import { valuesRead, type Instruction, type Program, type RowsValue } from '@kv/engine';
import type { BytecodeWriter } from './bytecode-writer.ts';
import type { WeightPanels } from './instructions.ts';
import type { BufferSlice } from './layout.ts';
import { UnsupportedModelError } from './unsupported-model.ts';

/** Addresses of a program's constants, by instruction: weights in parts, separately for gates and ups, and arrays. */
export interface ProgramConstants {
  readonly parts: readonly WeightPanels[];
  /** Whether `parts` are the gates and the ups, one part each, of a product that only a gated activation reads. */
  readonly gate?: boolean;
  /** Where the bias or the gain lies; 0 for none. */
  readonly array: number;
}

/** Activations of kernel/rows.ts. */
export const activations = { silu: 0, gelu: 1, clamped: 3 } as const;

/** Returns the only reader of a value, if there is exactly one. */
export function onlyUser(program: Program, { id }: RowsValue): Instruction | undefined {
  const users = program.instructions.filter((other) => valuesRead(other).some((read) => read.id === id));
  return users.length === 1 && program.outputs.every((output) => output.id !== id) ? users[0] : undefined;
}

/**
 * Writes a program's code, from its inputs' addresses to its outputs', rows `[m, H * d]` where the program says heads.
 * Buffers of other values are freed, those of inputs are not.
 */
export function writeProgram(
  code: BytecodeWriter,
  program: Program,
  placed: ReadonlyMap<Instruction, ProgramConstants>,
  inputs: readonly BufferSlice[],
): readonly BufferSlice[] {
  const places = new Map<number, BufferSlice>(program.inputs.map(({ id }, i) => [id, inputs[i]]));
  const place = ({ id }: RowsValue): BufferSlice => {
    const found = places.get(id);
    if (found === undefined) throw new KvError(program.name, `expected a value ${id} before it is used, got none`);
    return found;
  };
  /** Buffers whose values are still needed. */
  const held = new Set([...inputs.map(({ room }) => room)]);
  const done = (index: number): void => {
    const later = program.instructions.slice(index + 1),
      alive = new Set(
        [...later.flatMap(valuesRead), ...program.outputs.map((output) => output)].flatMap(
          ({ id }) => places.get(id)?.room ?? [],
        ),
      );
    for (const [id, there] of places)
      if (!alive.has(there.room) && !held.has(there.room)) {
        const twins = [...places].filter(([, { room }]) => room === there.room);
        for (const [twin] of twins) places.delete(twin);
        places.delete(id);
        code.free(there);
      }
  };
  for (const [index, instruction] of program.instructions.entries()) {
    const { out } = instruction;
    const fused = placed.get(instruction)?.gate === true;
    if (fused) {
      // the instruction that gates it comes later; nothing reads it in between
      places.set(out.id, place(instruction.x));
      continue;
    }
    places.set(out.id, write(code, program, instruction, placed, place));
    done(index);
  }
  return program.outputs.map(place);
}

function write(
  code: BytecodeWriter,
  program: Program,
  instruction: Instruction,
  placed: ReadonlyMap<Instruction, ProgramConstants>,
  place: (rows: RowsValue) => BufferSlice,
): BufferSlice {
  const { out } = instruction,
    x = place(instruction.x),
    { width } = instruction.x;
  switch (instruction.op) {
    case 'rmsNorm': {
      const { gain, run = gain.length, eps } = instruction;
      return code.norm(x, width, placed.get(instruction)!.array, gain.length, run, eps); // every norm is placed
    }
    case 'linear': {
      const { parts, array } = placed.get(instruction)!; // every product is placed
      return code.product(x, parts, array);
    }
    case 'columns':
      return code.columns(x, instruction.from);
    case 'rope':
      return code.rope(
        x,
        width / instruction.headDim,
        instruction.headDim,
        instruction.rotary ?? instruction.headDim,
        instruction.scaled === true,
      );
    case 'gated': {
      const how = activations[instruction.activation],
        product = program.instructions.find((other) => other.out.id === instruction.x.id),
        weights = product && placed.get(product);
      if (weights?.gate !== true) return code.gate(x, out.width, how);
      const [gate, up] = weights.parts;
      return code.gated(x, gate, up, weights.array, how);
    }
    case 'gatedBy':
      return code.gatedBy(x, place(instruction.y), out.width, activations[instruction.activation]);
    case 'add':
      return code.add(x, place(instruction.y), width);
    case 'softcap':
      return code.softcap(x, width, instruction.cap);
    case 'scale':
      return code.scale(x, width, instruction.by);
    case 'heads':
      return x;
    default:
      throw strange(program, instruction);
  }
}

const known: ReadonlySet<string> = new Set<Instruction['op']>([
  'rmsNorm',
  'linear',
  'columns',
  'rope',
  'gated',
  'gatedBy',
  'add',
  'softcap',
  'scale',
  'heads',
]);

/**
 * Checks that a program can be compiled. @throws UnsupportedModelError for an instruction, or an activation, that there
 * is no code for
 */
export function expectKnown(program: Program): void {
  for (const instruction of program.instructions)
    if (!known.has(instruction.op) || ('activation' in instruction && !(instruction.activation in activations)))
      throw strange(program, instruction);
}

const strange = (
  { name }: Program,
  instruction: { readonly op: string; readonly activation?: string },
): UnsupportedModelError =>
  new UnsupportedModelError(
    `instructions that the module runs, got ${[instruction.op, instruction.activation].join(' ').trim()} in ${name}`,
  );
