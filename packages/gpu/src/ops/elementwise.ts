import { KvError } from '@kv/core';
import type { Tensor, Binary, Operand, Primitives } from '@kv/core';
import { BINARY, elementwise, FUNCTIONS, ODDS, UNARY, WHERE } from '../kernels/elementwise.wgsl.ts';
import { run } from './run.ts';
import type { Commands } from '../commands.ts';
import { aboveSubnormals, belowSubnormals, down, isF32, up } from '../threshold.ts';
import { sharedRows, sizes } from '../tensor.ts';
import { raggedAs } from './ragged.ts';

type Elementwise = Pick<
  Primitives,
  | 'map'
  | 'zip'
  | 'add'
  | 'sub'
  | 'mul'
  | 'div'
  | 'max'
  | 'min'
  | 'exp'
  | 'log'
  | 'less'
  | 'atLeast'
  | 'where'
  | 'odds'
  | 'scale'
  | 'fill'
>;
/** Converts a tensor to f32 numbers, for operations that order by bits. */
export type Numeric = (x: Tensor) => Tensor;
const NAMES = ['a', 'b', 'c'] as const;

/**
 * Returns operations that compute one number for each element of the broadcast shape; the result has the larger rank.
 */
export function elementwiseOps(g: Commands): Elementwise {
  const each = (at: string, operands: readonly Operand[], expression: string, functions?: string): Tensor => {
    const tensors = operands.filter((x) => typeof x !== 'number');
    if (tensors.length === 0) throw new KvError(at, 'expected at least one tensor, got numbers only');
    const rows = sharedRows(at, ...tensors);
    const space = [rows, ...[1, 2].map((axis) => Math.max(...tensors.map((t) => sizes(t)[axis])))] as [
      number,
      number,
      number,
    ];
    for (const t of tensors)
      for (const axis of [1, 2])
        if (sizes(t)[axis] !== 1 && sizes(t)[axis] !== space[axis])
          throw new KvError(at, `shapes ${tensors.map((x) => `[${x.shape}]`).join(' and ')} do not broadcast`);
    const output = g.make(
      space.slice(0, Math.max(...tensors.map((t) => t.shape.length))),
      'f32',
      raggedAs(g, rows, ...tensors),
    );
    const named = <V extends Tensor | number>(
      keep: (x: Tensor | number) => x is V,
      suffix: string,
    ): Record<string, V> =>
      Object.fromEntries(operands.flatMap((x, i) => (keep(x) ? [[`${NAMES[i]}${suffix}`, x]] : [])));
    const kinds = operands.map((x) =>
      typeof x === 'number' ? 'number' : sizes(x).every((n, axis) => n === space[axis]) ? 'whole' : 'broadcast',
    );
    run(g, elementwise(at, kinds, expression, functions), {
      space,
      buffers: { ...named((x): x is Tensor => typeof x !== 'number', ''), output },
      scalars: named((x): x is number => typeof x === 'number', '_number'),
    });
    return output;
  };
  const zip = (kind: Binary, a: Operand, b: Operand): Tensor => each(`ops.${kind}`, compared(kind, a, b), BINARY[kind]);
  const map: Primitives['map'] = (kind, x) => each(`ops.${kind}`, [x], UNARY[kind], FUNCTIONS[kind]);
  return {
    map,
    zip,
    add: (a, b) => zip('add', a, b),
    sub: (a, b) => zip('sub', a, b),
    mul: (a, b) => zip('mul', a, b),
    div: (a, b) => zip('div', a, b),
    max: (a, b) => zip('max', a, b),
    min: (a, b) => zip('min', a, b),
    less: (a, b) => zip('less', a, b),
    atLeast: (a, b) => zip('atLeast', a, b),
    exp: (x) => map('exp', x),
    log: (x) => map('log', x),
    where: (mask, a, b) => each('ops.where', [mask, a, b], WHERE),
    odds: (h) => each('ops.odds', [h], ODDS),
    scale: (x, by) => each('ops.scale', [x, by], BINARY.mul),
    fill: (like, value) => fill(g, like.shape, value, like.lengths),
  };
}

/** Returns a tensor filled with one number. */
export function fill(g: Commands, shape: readonly number[], value: number, lengths?: Tensor): Tensor {
  const output = g.make(shape, 'f32', lengths);
  run(g, elementwise('ops.fill', ['number'], 'a_'), {
    space: sizes(output),
    buffers: { output },
    scalars: { a_number: value },
  });
  return output;
}

/** Replaces a compared number that f32 does not hold by the neighbour that gives the same answer for every f32. */
function compared(kind: Binary, a: Operand, b: Operand): readonly [Operand, Operand] {
  if (kind === 'less' || kind === 'atLeast')
    return [typeof a === 'number' ? belowSubnormals(down(a)) : a, typeof b === 'number' ? aboveSubnormals(up(b)) : b];
  if (kind !== 'equal') return [a, b];
  const never = (x: Operand): Operand => (typeof x === 'number' && !isF32(x) ? NaN : x);
  return [never(a), never(b)];
}
