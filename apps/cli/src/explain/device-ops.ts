import { KvError, sizeOf, takesLengths, withMaths } from '@kv/core';
import type { DType, Kernel, Operand, Ops, Primitives, Tensor } from '@kv/core';

/** What operations cost on a device. */
export interface DeviceCost {
  readonly dispatches: number;
  /** Of the tensors that dispatches bind, each once a dispatch. */
  readonly bytes: number;
  /**
   * Additions, multiplications, comparisons and functions; of a piece's own kernel what it says of itself, else one for
   * each number that it binds.
   */
  readonly operations: number;
}

const sizes = ({
  shape: [rows = 1, slots = 1, channels = 1],
}: Tensor): [rows: number, slots: number, channels: number] => [rows, slots, channels];
const isTensor = (x: Operand): x is Tensor => typeof x !== 'number';
const rowsOf = (...tensors: readonly (Tensor | undefined)[]): number =>
  Math.max(1, ...tensors.flatMap((t) => (t ? [sizes(t)[0]] : [])));

/** A tensor whose numbers are known, of a few at most. */
type Known = Tensor & { readonly data?: ArrayLike<number> };
const KNOWN = 65_536;

/** The rows of `rank`'s sort in the memory of one workgroup, and the passes of `select` over a row's slots. */
const LOCAL = 512,
  PASSES = 7;

/**
 * Operations on shapes alone, which add up their calls and what `@kv/gpu` would dispatch for them: nothing is computed.
 */
export function deviceOps(): {
  readonly ops: Ops;
  readonly cost: DeviceCost;
  readonly calls: ReadonlyMap<string, number>;
} {
  const cost = { dispatches: 0, bytes: 0, operations: 0 };
  const dispatch = (bound: readonly (Tensor | undefined)[], operations: number): void => {
    cost.dispatches++;
    for (const x of bound) if (x) cost.bytes += 4 * sizeOf(x.shape);
    cost.operations += operations;
  };
  const made = (shape: readonly number[], dtype: DType = 'f32', lengths?: Tensor): Tensor => ({
    shape,
    dtype,
    ...(lengths && { lengths }),
  });
  /** Binds inputs, the lengths of those that are ragged, and the output. */
  const run = (
    output: Tensor,
    inputs: readonly (Tensor | undefined)[],
    ragged: readonly Tensor[],
    operations: number,
  ): Tensor => {
    dispatch([...inputs, ...ragged.map(({ lengths }) => lengths), output], operations);
    return output;
  };
  const lengthsFor = (x: Tensor, rows: number): Tensor =>
    x.lengths?.shape[0] === rows ? x.lengths : run(made([rows], 'u32'), [], [x], rows); // of shapes alone
  const raggedAs = (rows: number, ...tensors: readonly (Tensor | undefined)[]): Tensor | undefined => {
    let best: Tensor | undefined;
    for (const t of tensors) if (t?.lengths && (!best || t.lengths.shape[0] > best.lengths!.shape[0])) best = t;
    return best && lengthsFor(best, rows);
  };
  const each = (...operands: readonly Operand[]): Tensor => {
    const tensors = operands.filter(isTensor),
      rows = rowsOf(...tensors),
      space = [rows, ...[1, 2].map((axis) => Math.max(...tensors.map((t) => sizes(t)[axis])))];
    const shape = space.slice(0, Math.max(...tensors.map((t) => t.shape.length)));
    return run(made(shape, 'f32', raggedAs(rows, ...tensors)), tensors, [], sizeOf(shape));
  };
  const numeric = (x: Tensor): Tensor => (x.dtype === 'u32' ? each(x, 1) : x);
  const fill = (shape: readonly number[], lengths?: Tensor): Tensor =>
    run(made(shape, 'f32', lengths), [], [], sizeOf(shape));
  const whole = (x: Tensor, operations: number): Tensor =>
    run(made(x.shape, 'f32', x.lengths), [x], [x], operations * sizeOf(x.shape));
  const vectors = (a: Tensor | undefined, b: Tensor): Tensor => {
    const [, slots] = sizes(b),
      rows = rowsOf(a, b),
      output = made([rows, slots], 'f32', raggedAs(rows, b));
    return run(output, [a, b], [], 2 * rows * slots * sizes(b)[2]);
  };
  const two = (a: Operand, b: Operand): Tensor => each(a, b),
    one = (x: Tensor): Tensor => each(x);
  const ops: Primitives = {
    from: ({ data, shape }, dtype, lengths): Known => ({
      ...made(shape, dtype ?? (data instanceof Uint32Array ? 'u32' : 'f32'), lengths),
      ...(data.length <= KNOWN && { data }),
    }),
    fill: (like) => fill(like.shape, like.lengths),
    map: (_, x) => each(x),
    zip: (_, a, b) => each(a, b),
    add: two,
    sub: two,
    mul: two,
    div: two,
    max: two,
    min: two,
    less: two,
    atLeast: two,
    exp: one,
    log: one,
    odds: one,
    where: (mask, a, b) => each(mask, a, b),
    scale: (x, by) => each(x, by),
    reduce(_, x, axis) {
      const [rows, slots, channels] = sizes(x),
        wide = x.shape.length === 3;
      const output =
        axis === 'rows'
          ? made([1, ...x.shape.slice(1)], 'f32', raggedAs(1, x))
          : axis === 'channels'
            ? made([rows, slots], 'f32', x.lengths)
            : made(wide ? [rows, 1, channels] : [rows, 1]);
      return run(output, [x], [x], sizeOf(x.shape));
    },
    groupRows: (_, x, rows) => run(made([rows, sizes(x)[1]], 'f32', raggedAs(rows, x)), [x], [x], sizeOf(x.shape)),
    simplex: (x) => whole(x, 2),
    softmax: (x) => whole(x, 4),
    pool: (x, { kernel }) => whole(x, kernel),
    matmul(a, b) {
      const [, slots, channels] = sizes(b),
        rows = rowsOf(a, b);
      return run(made([rows, channels]), [a, b], [a, b], 2 * rows * slots * channels);
    },
    dot: vectors,
    distance: vectors,
    norm: (x) => vectors(undefined, x),
    lastSlots: (like) =>
      run(made(like.shape.slice(0, 2), 'f32', like.lengths), [], [like], sizes(like)[0] * sizes(like)[1]),
    rank(given, over) {
      const x = numeric(given),
        [rows, slots] = sizes(x),
        output = made(x.shape, 'f32', x.lengths),
        segments = over === 'all' ? 1 : rows;
      const size = Math.max(LOCAL, 2 ** Math.ceil(Math.log2((rows * slots) / segments))),
        keys = made([segments * size], 'u32'),
        places = made([segments * size], 'u32');
      const step = (exchanges: number): unknown => dispatch([keys, places], (exchanges * segments * size) / 2);
      dispatch([x, x.lengths, keys, places], segments * size);
      step((Math.log2(LOCAL) * (Math.log2(LOCAL) + 1)) / 2);
      for (let block = 2 * LOCAL; block <= size; block *= 2) {
        for (let gap = block / 2; gap >= LOCAL; gap /= 2) step(1);
        step(Math.log2(LOCAL));
      }
      dispatch([keys, places, output], segments * size);
      return output;
    },
    take(table, index) {
      const rows = rowsOf(table, index),
        [, slots] = sizes(index),
        shape = table.shape.length === 3 ? [rows, slots, sizes(table)[2]] : [rows, slots];
      return run(made(shape, table.dtype, raggedAs(rows, index)), [table, index], [index], sizeOf(shape));
    },
    groupSlots(_, x, groups, count) {
      const rows = rowsOf(x, groups);
      return run(made([rows, count]), [x, groups], [x, groups], rows * sizes(groups)[1]);
    },
    select(of, budgets, { forced, banned, active } = {}) {
      const x = numeric(of),
        rows = rowsOf(x, budgets, forced, banned),
        [, slots] = sizes(x),
        lengths = raggedAs(rows, x, forced, banned),
        counts = made([rows], 'u32'),
        kept = made([rows, slots], 'u32', counts);
      dispatch([x, budgets, forced, banned, active, lengths, kept, counts], PASSES * rows * slots);
      return kept;
    },
    mark(kept, like) {
      const rows = rowsOf(kept, like),
        output = fill([rows, sizes(like)[1]], raggedAs(rows, like));
      dispatch([kept, kept.lengths, output], rows * sizes(kept)[1]);
      return output;
    },
    firstBad(of) {
      const x = numeric(of),
        found = run(made([sizes(x)[0]], 'u32'), [x], [x], sizes(x)[0] * sizes(x)[1]);
      return run(made([1], 'u32'), [found], [], sizes(x)[0]);
    },
    reshape: (x, shape) => made(shape, x.dtype),
    kernel(kernel: Kernel, given, params = {}) {
      const names = Object.keys(kernel.inputs),
        inputs = names.map((name) => {
          const x = given[name];
          if (!x) throw new KvError(kernel.id, `expected the input '${name}'`);
          return kernel.inputs[name] === 'u32' ? x : numeric(x);
        });
      const shape = kernel.output.shape(Object.fromEntries(names.map((name, i) => [name, inputs[i].shape])), params),
        like = kernel.ragged === undefined ? undefined : inputs[names.indexOf(kernel.ragged)];
      const lengths = like && lengthsFor(like, sizes(like)[0]),
        output = made(
          shape,
          kernel.output.dtype,
          like?.lengths && takesLengths(kernel.output, shape, sizes(like)[0], sizes(like)[1])
            ? lengthsFor(like, shape[0])
            : undefined,
        ),
        bound = [...inputs, lengths, output];
      const operations =
        kernel.operations?.(Object.fromEntries(names.map((name, i) => [name, inputs[i] as Known])), params) ??
        bound.reduce((sum, x) => sum + (x ? sizeOf(x.shape) : 0), 0);
      if (sizeOf(shape) > 0) dispatch(bound, operations);
      return output;
    },
  };
  const calls = new Map<string, number>(),
    count = (name: string): unknown => calls.set(name, (calls.get(name) ?? 0) + 1);
  const counted = Object.fromEntries(
    (Object.entries(ops) as unknown as [string, (...args: unknown[]) => Tensor][]).map(([name, call]) => [
      name,
      (...args: unknown[]) => {
        if (name !== 'from') count(name === 'kernel' ? `kernel:${(args[0] as Kernel).id}` : name);
        return call(...args);
      },
    ]),
  ) as unknown as Primitives;
  return { ops: withMaths(counted), cost, calls };
}
