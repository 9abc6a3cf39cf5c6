import type { LayerContext } from '../piece/atoms.ts';
import { KvError } from '../tensor/errors.ts';
import type { AnySignal } from '../piece/signals.ts';
import { isInputSignal } from '../piece/input-signal.ts';
import { isState } from '../piece/state.ts';

/** An array that a piece is given, under the caller's name for it. */
export interface Input {
  readonly name: string;
  readonly shape: readonly number[];
  /** Meaning of its axes; absent where only the signal's author knows it. */
  readonly axes: readonly string[] | undefined;
}

const ROWS = ['rows', 'slots'] as const,
  CACHED = ['KV heads', 'slots', 'channels'] as const,
  AXES: Readonly<Record<string, readonly string[]>> = {
    keys: CACHED,
    values: CACHED,
    positions: ['KV heads', 'slots'],
    biases: ['KV heads', 'slots'],
    queries: ['rows', 'queries', 'channels'],
    'values.output': ROWS,
  };
/**
 * Returns the meaning of the axes of an input, if core knows it: for scores, and for signals that core declares.
 *
 * @param signal that it is read as, if any piece reads it.
 */
export function axesOf(name: string, signal: AnySignal | undefined): readonly string[] | undefined {
  if (signal && isInputSignal(signal)) return ROWS;
  if (signal && isState(signal)) {
    const { kind, rows } = signal.state;
    return kind === 'slot' ? ROWS : rows === 'kv' ? ['KV heads', 'numbers'] : undefined;
  }
  const id = signal?.id ?? name;
  return AXES[id] ?? (id === 'scores' || id.startsWith('attention') || signal?.as === 'attention' ? ROWS : undefined);
}

/** Returns the size of an input along an axis, if it has that axis. */
const along = ({ axes, shape }: Input, axis: string): number | undefined => {
  const i = axes?.indexOf(axis) ?? -1;
  return i < 0 ? undefined : shape[i];
};

/**
 * Returns the number of slots, if an input has it, and of KV heads.
 *
 * @throws KvError naming the inputs whose sizes disagree, before any operation reads them.
 */
export function sizesOf(
  label: string,
  inputs: readonly Input[],
  at: Partial<LayerContext>,
): { readonly slots: number | undefined; readonly kvHeads: number } {
  for (const { name, shape, axes } of inputs)
    if (axes && shape.length !== axes.length)
      throw new KvError(label, `expected '${name}' as [${axes.join(', ')}], got the shape [${shape.join(', ')}]`);
  /** Returns the one size along an axis that all inputs agree on. */
  const agreed = (axis: string, what: string, said: number | undefined, of = inputs): number | undefined => {
    const sizes = [
      ...(said === undefined ? [] : [['at', said] as const]),
      ...of.flatMap((input) => {
        const size = along(input, axis);
        return size === undefined ? [] : [[input.name, size] as const];
      }),
    ];
    const [first] = sizes,
      other = sizes.find(([, size]) => size !== first[1]);
    if (other)
      throw new KvError(
        label,
        `expected the same number of ${what} in every input, got ${first[1]} in '${first[0]}' and ${other[1]} in '${other[0]}'`,
      );
    return first?.[1];
  };
  const slots = agreed('slots', 'slots', at.slots),
    kvHeads = agreed('KV heads', 'KV heads', at.kvHeads);
  agreed(
    'channels',
    'channels',
    undefined,
    inputs.filter(({ name }) => name !== 'values'),
  );
  const heads = kvHeads ?? Math.max(1, ...inputs.map((input) => along(input, 'rows') ?? 1)),
    more = inputs.filter((input) => ![undefined, 1, heads].includes(along(input, 'rows')));
  for (const input of more)
    if (along(input, 'rows')! % heads !== 0)
      throw new KvError(
        label,
        `expected 1 row in '${input.name}', or one for each of ${heads} KV heads or of their query heads, got ${along(input, 'rows')}`,
      );
  agreed('rows', 'query heads', at.queryHeads === heads ? undefined : at.queryHeads, more);
  return { slots, kvHeads: heads };
}
