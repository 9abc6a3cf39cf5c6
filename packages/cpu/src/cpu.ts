import { KvError, LOWEST } from '@kv/core';
import { dims, hostTensor, sizeOf, showValue, takesLengths, withMaths } from '@kv/core/engine';
import type { Backend, Axis, Operand, Kernel, Products, Ops, Tensor } from '@kv/core';
import type { HostTensor } from '@kv/core/engine';
import { commonRows, cpuTensor, dense, expectExtent, raggedAs, rowsInPlace, zeros } from './dense.ts';
import { elementsOf } from './elementwise.ts';
import type { ElementwiseKind } from './elementwise.ts';
import { lastSlots, mark } from './slots.ts';
import { vectors } from './fastest.ts';
import { matmul, near, norms, totals } from './vector-ops.ts';
import type { Vectors } from './vectors.ts';

const c = (x: Tensor): HostTensor => {
  if (typeof x !== 'object' || x === null) throw new KvError('ops', `expected a tensor, got ${showValue(x)}`);
  if (!('data' in x))
    throw new KvError('cpu', 'a tensor of another backend came in, expected one made by these operations');
  return x as HostTensor;
};
const maybe = (x: Tensor | undefined): HostTensor | undefined => (x ? c(x) : undefined);

/**
 * Returns strided operations on the host: f32 storage, f64 arithmetic except for softmax's exponentials, executed at
 * once.
 */
export function hostOps(by: () => Vectors): Ops {
  const each = (kind: ElementwiseKind, ...operands: readonly Operand[]): HostTensor =>
    by().elementwise(kind, elementsOf(`ops.${kind}`, operands));
  return withMaths({
    from(array, dtype, lengths) {
      const { data, shape, stride, offset } = hostTensor(array, dtype);
      return cpuTensor(data, shape, maybe(lengths), stride, offset);
    },
    fill: (like, value) => {
      const out = zeros(like.shape, 'f32', maybe(like.lengths));
      out.data.fill(value);
      return out;
    },
    map: (kind, x) => each(kind, x),
    zip: (kind, a, b) => each(kind, a, b),
    add: (a, b) => each('add', a, b),
    sub: (a, b) => each('sub', a, b),
    mul: (a, b) => each('mul', a, b),
    div: (a, b) => each('div', a, b),
    max: (a, b) => each('max', a, b),
    min: (a, b) => each('min', a, b),
    exp: (x) => each('exp', x),
    log: (x) => each('log', x),
    less: (a, b) => each('less', a, b),
    atLeast: (a, b) => each('atLeast', a, b),
    where: (mask, a, b) => each('where', mask, a, b),
    reduce: (kind, x, axis) => {
      if (axis === 'rows') return by().grouped(kind, c(x), 1);
      if (axis === 'slots' && x.shape.length === 3 && (kind === 'sum' || kind === 'mean'))
        return totals(by().products, kind, c(x));
      return by().reduce(kind, channelled(c(x), axis), axis);
    },
    groupRows: (kind, x, rows) => {
      const all = x.shape[0];
      if (rows < 1 || all % rows !== 0)
        throw new KvError('ops.groupRows', `${all} rows cannot be grouped into ${rows}: expected a divisor`);
      return by().grouped(kind, c(x), rows);
    },
    simplex: (x) => by().normaliseRows(c(x), false),
    softmax: (x) => by().normaliseRows(c(x), true),
    odds: (h) => each('odds', h),
    matmul: (a, b) => matmul(by().products, c(a), c(b)),
    dot: (q, k) => near(by().products, 'dots', alike('ops.dot', c(q), c(k)), c(k)),
    distance: (o, v) => near(by().products, 'distances', alike('ops.distance', c(o), c(v)), c(v)),
    norm: (x, p = 2) => {
      if (p === 2) return norms(by().products, c(x));
      const sizes = each('abs', x);
      return x.shape.length < 3 ? sizes : by().reduce('sum', sizes, 'channels');
    },
    scale: (x, factors) => each('mul', x, factors),
    pool: (x, options) => {
      const { kernel } = options;
      if (!Number.isInteger(kernel) || kernel < 1 || kernel % 2 === 0)
        throw new KvError('ops.pool', `kernel must be an odd whole number, got ${kernel}`);
      return by().pool(c(x), options);
    },
    rank: (x, over) => by().rank(c(x), over),
    lastSlots: (like, w) => lastSlots(c(like), w),
    take: (table, index) => by().take(c(table), c(index)),
    groupSlots: (kind, x, groups, count) => by().groupSlots(kind, c(x), c(groups), count),
    select: (scores, budgets, masks = {}) =>
      by().select(c(scores), c(budgets), {
        forced: maybe(masks.forced),
        banned: maybe(masks.banned),
        active: maybe(masks.active),
      }),
    mark: (kept, like) => mark(c(kept), c(like)),
    firstBad: (x, atLeast = LOWEST) => by().firstBad(c(x), atLeast),
    reshape: (x, shape) => {
      if (sizeOf(shape) !== sizeOf(x.shape))
        throw new KvError('ops.reshape', `[${x.shape}] has ${sizeOf(x.shape)} elements, [${shape}] ${sizeOf(shape)}`);
      return cpuTensor(dense(c(x)).data, shape);
    },
    own: (x) => {
      maybe(x.lengths);
      expectExtent(c(x));
      return x;
    },
    kernel(kernel, inputs, params = {}) {
      const shapes: Record<string, readonly number[]> = {},
        host: Record<string, { data: Float32Array | Uint32Array; shape: readonly number[]; apart?: number }> = {};
      for (const name of Object.keys(kernel.inputs)) {
        const x = inputs[name];
        if (!x)
          throw new KvError(kernel.id, `expected the input '${name}', got ${Object.keys(inputs).join(', ') || 'none'}`);
        shapes[name] = x.shape;
        host[name] = kernel.inPlace?.includes(name) ? rowsInPlace(c(x)) : { data: dense(c(x)).data, shape: x.shape };
      }
      const shape = kernel.output.shape(shapes, params);
      const like = kernel.ragged === undefined ? undefined : c(inputs[kernel.ragged]);
      const [rows, slots] = like ? dims(like) : [shape[0] ?? 1, shape[1] ?? 1];
      const lengths = like?.lengths ? (dense(like.lengths).data as Uint32Array) : new Uint32Array(rows).fill(slots);
      const out = zeros(
        shape,
        kernel.output.dtype,
        like && takesLengths(kernel.output, shape, rows, slots) ? raggedAs(shape[0], like) : undefined,
      );
      by().reference(kernel)(host, params, out.data, lengths, by().products);
      return out;
    },
  });
}

/** Adds a channel axis if channels are reduced. */
function channelled(x: HostTensor, axis: Axis): HostTensor {
  if (axis === 'channels' && x.shape.length < 3)
    throw new KvError('ops.reduce', `channels exist in tensors of rank 3, got shape [${x.shape}]`);
  return x;
}

/** Returns the vectors a `[r, d]`. @throws KvError unless b has as many channels. */
function alike(at: string, a: HostTensor, b: HostTensor): HostTensor {
  const [, , channels] = dims(b);
  if ((a.shape[1] ?? 1) !== channels)
    throw new KvError(at, `expected ${channels} channels, got shapes [${a.shape}] and [${b.shape}]`);
  commonRows(at, a, b);
  return a;
}

export const cpuOps: Ops = hostOps(vectors);

const backendOf = (ops: Ops): Backend => ({
  name: 'cpu',
  lasting: true,
  ops,
  read: async (tensors) => tensors.map((t) => readCpu(t)),
});

/** The backend on the host: reading is immediate. */
export const cpu: Backend = backendOf(cpuOps);

/**
 * Returns the CPU backend with an engine's own products of vectors (the same bits where sums are in f64), and with its
 * own references of kernels instead of the default ones.
 */
export function cpuWith(
  products: (apart: Products) => Products,
  references: (kernel: Kernel, apart: Kernel['ref']) => Kernel['ref'] = (_, apart) => apart,
): Backend {
  const common = vectors(),
    reference = (kernel: Kernel): Kernel['ref'] => references(kernel, common.reference(kernel)),
    own = { ...common, products: products(common.products), reference };
  return backendOf(hostOps(() => own));
}

/** Returns the numbers of a CPU tensor, row-major; entries beyond a row's length are undefined. */
export function readCpu(t: Tensor): {
  readonly data: Float32Array | Uint32Array;
  readonly shape: readonly number[];
  readonly lengths?: Uint32Array | undefined;
} {
  const x = dense(c(t));
  return { data: x.data, shape: x.shape, lengths: x.lengths && (dense(x.lengths).data as Uint32Array) };
}
