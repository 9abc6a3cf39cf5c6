import { KvError } from '../errors.ts';
import { withMaths } from '../maths.ts';
import type { Ops } from '../maths.ts';
import type { Backend } from '../ops.ts';
import { sizeOf, takesLengths } from '../tensor.ts';
import type { Tensor } from '../tensor.ts';
import { cpuTensor, dense, dims, fromHost, raggedAs, zeros } from './dense.ts';
import type { CpuTensor } from './dense.ts';
import { BINARY, elementwise, odds, UNARY, where } from './elementwise.ts';
import { alongChannels, groupRows, LOWEST, matmul, normaliseRows, reduce } from './reduce.ts';
import { firstBad, groupSlots, lastSlots, mark, pool, rank, select, take } from './slots.ts';

const c = (x: Tensor): CpuTensor => {
  if (!('data' in x))
    throw new KvError('cpu', 'a tensor of another backend came in, expected one made by these operations');
  return x as CpuTensor;
};
const maybe = (x: Tensor | undefined): CpuTensor | undefined => (x ? c(x) : undefined);

/** Plain strided operations on the host: f32 storage, f64 arithmetic, executed at once. */
export const cpuOps: Ops = withMaths({
  from: (array, dtype, lengths) => fromHost(array, dtype, maybe(lengths)),
  fill: (like, value) => {
    const out = zeros(like.shape, 'f32', maybe(like.lengths));
    out.data.fill(value);
    return out;
  },
  map: (kind, x) => elementwise(`ops.${kind}`, [x], UNARY[kind]),
  zip: (kind, a, b) => elementwise(`ops.${kind}`, [a, b], BINARY[kind]),
  add: (a, b) => elementwise('ops.add', [a, b], BINARY.add),
  sub: (a, b) => elementwise('ops.sub', [a, b], BINARY.sub),
  mul: (a, b) => elementwise('ops.mul', [a, b], BINARY.mul),
  div: (a, b) => elementwise('ops.div', [a, b], BINARY.div),
  max: (a, b) => elementwise('ops.max', [a, b], BINARY.max),
  min: (a, b) => elementwise('ops.min', [a, b], BINARY.min),
  exp: (x) => elementwise('ops.exp', [x], UNARY.exp),
  log: (x) => elementwise('ops.log', [x], UNARY.log),
  less: (a, b) => elementwise('ops.less', [a, b], BINARY.less),
  atLeast: (a, b) => elementwise('ops.atLeast', [a, b], BINARY.atLeast),
  where: (mask, a, b) => elementwise('ops.where', [mask, a, b], where),
  reduce: (kind, x, axis) => reduce(kind, c(x), axis),
  groupRows: (kind, x, rows) => groupRows(kind, c(x), rows),
  simplex: (x) => normaliseRows(c(x), false),
  softmax: (x) => normaliseRows(c(x), true),
  odds: (h) => elementwise('ops.odds', [h], odds),
  matmul: (a, b) => matmul(c(a), c(b)),
  dot: (q, k) => alongChannels('ops.dot', 'dot', c(k), c(q)),
  distance: (o, v) => alongChannels('ops.distance', 'distance', c(v), c(o)),
  norm: (x, p = 2) => alongChannels('ops.norm', p === 1 ? 'l1' : 'l2', c(x)),
  scale: (x, by) => elementwise('ops.scale', [x, by], BINARY.mul),
  pool: (x, options) => pool(c(x), options),
  rank: (x, over) => rank(c(x), over),
  lastSlots: (like, w) => lastSlots(c(like), w),
  take: (table, index) => take(c(table), c(index)),
  groupSlots: (kind, x, groups, count) => groupSlots(kind, c(x), c(groups), count),
  select: (scores, budgets, masks = {}) =>
    select(c(scores), c(budgets), {
      forced: maybe(masks.forced),
      banned: maybe(masks.banned),
      active: maybe(masks.active),
    }),
  mark: (kept, like) => mark(c(kept), c(like)),
  firstBad: (x, atLeast = LOWEST) => firstBad(c(x), atLeast),
  reshape: (x, shape) => {
    if (sizeOf(shape) !== sizeOf(x.shape))
      throw new KvError('ops.reshape', `[${x.shape}] has ${sizeOf(x.shape)} elements, [${shape}] ${sizeOf(shape)}`);
    return cpuTensor(dense(c(x)).data, shape);
  },
  kernel(kernel, inputs, params = {}) {
    const shapes: Record<string, readonly number[]> = {},
      host: Record<string, { data: Float32Array | Uint32Array; shape: readonly number[] }> = {};
    for (const name of Object.keys(kernel.inputs)) {
      const x = inputs[name];
      if (!x)
        throw new KvError(kernel.id, `expected the input '${name}', got ${Object.keys(inputs).join(', ') || 'none'}`);
      shapes[name] = x.shape;
      host[name] = { data: dense(c(x)).data, shape: x.shape };
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
    kernel.ref(host, params, out.data, lengths);
    return out;
  },
});

/** The backend of the host: reading is immediate. */
export const cpu: Backend = {
  name: 'cpu',
  ops: cpuOps,
  read: async (tensors) => tensors.map((t) => readCpu(t)),
};

/** Numbers of a CPU tensor, row-major; entries beyond a row's length are whatever they are. */
export function readCpu(t: Tensor): {
  readonly data: Float32Array | Uint32Array;
  readonly shape: readonly number[];
  readonly lengths?: Uint32Array | undefined;
} {
  const x = dense(c(t));
  return { data: x.data, shape: x.shape, lengths: x.lengths && (dense(x.lengths).data as Uint32Array) };
}
