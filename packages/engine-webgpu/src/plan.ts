import { valuesRead, type Instruction, type Program, type RowsValue } from '@kv/engine';

/**
 * An instruction with the one that is fused into it: a rotation into the layout of heads, or the addition of a residual
 * into a product.
 */
export interface PlannedStep {
  readonly instruction: Instruction;
  readonly absorbed: Instruction | undefined;
  /** Values with no reader after this step: their memory may be reused. */
  readonly spent: readonly number[];
}

/**
 * Plans a program's dispatches: fused instructions have none of their own, columns are views, and every value knows its
 * last reader.
 */
export function plan(program: Program): PlannedStep[] {
  const { instructions, outputs, inputs } = program;
  const taken = new Map<Instruction, Instruction>();
  for (const instruction of instructions) {
    const { op } = instruction;
    const found =
      op === 'heads'
        ? only(program, instruction.x, 'rope')
        : op === 'add' && instruction.x.id !== instruction.y.id
          ? (only(program, instruction.y, 'linear') ?? only(program, instruction.x, 'linear'))
          : undefined;
    if (found !== undefined) taken.set(instruction, found);
  }
  const absorbed = new Set(taken.values()),
    kept = instructions.filter((instruction) => !absorbed.has(instruction));
  const source = new Map<number, number>(),
    last = new Map<number, number>();
  const root = (id: number): number => source.get(id) ?? id;
  for (const [index, instruction] of kept.entries()) {
    const inner = taken.get(instruction);
    if (instruction.op === 'columns') source.set(instruction.out.id, root(instruction.x.id));
    for (const { id } of [...valuesRead(instruction), ...(inner ? valuesRead(inner) : []), instruction.out])
      if (id !== inner?.out.id) last.set(root(id), index);
  }
  for (const { id } of [...outputs, ...inputs]) last.delete(root(id));
  return kept.map((instruction, index) => ({
    instruction,
    absorbed: taken.get(instruction),
    spent: [...last].flatMap(([id, at]) => (at === index ? [id] : [])),
  }));
}

/** Returns the instruction that makes a value, if it is of this kind and the value has exactly one reader. */
function only({ instructions, outputs }: Program, { id }: RowsValue, op: Instruction['op']): Instruction | undefined {
  const readers = instructions.filter((other) => valuesRead(other).some((x) => x.id === id));
  const maker = instructions.find(({ out }) => out.id === id);
  return maker?.op === op && readers.length === 1 && outputs.every((output) => output.id !== id) ? maker : undefined;
}
