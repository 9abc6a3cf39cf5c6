import { KvError } from './errors.ts';
import type { Kernel } from './kernel.ts';
import { primitivesOf, withMaths } from './maths.ts';
import type { Ops } from './maths.ts';
import type { Backend } from './backend.ts';
import type { PoolOptions, Primitives } from './ops.ts';
import { sizeOf } from './tensor.ts';
import type { Tensor } from './tensor.ts';

/**
 * Operations whose handles throw on any host read: a piece that runs here also runs on a GPU. Shapes and element types
 * are public.
 */
export interface Trace {
  readonly ops: Ops;
  readonly calls: readonly string[];
  /** A backend of these operations with the one read of an event, for `applyOn` and engines. */
  readonly backend: Backend;
  /** Returns the tensor of a handle, for the test that made it. */
  reveal(handle: Tensor): Tensor;
}

type Call = (...args: unknown[]) => Tensor;
/** Returns the operations with each primitive replaced. */
const wrapped = (inner: Ops, change: (name: string, call: Call) => Call): Ops =>
  withMaths(
    Object.fromEntries(
      Object.entries(primitivesOf(inner)).map(([name, call]: [string, Call]) => [name, change(name, call)]),
    ) as unknown as Primitives,
  );

/** Returns the operations; `onCall` is given the name of each primitive that runs, a piece's kernel as `kernel:ID`. */
export const namedCalls = (inner: Ops, onCall: (name: string) => void): Ops =>
  wrapped(inner, (name, call) => (...args) => {
    onCall(name === 'kernel' ? `kernel:${(args[0] as Kernel).id}` : name);
    return call(...args);
  });

/** Cost of operations so far. */
export interface OperationCount {
  /** Primitive operations, those inside combined ones included. */
  calls: number;
  /** Numbers in their input and output tensors. */
  numbers: number;
  /** Additions, multiplications, comparisons and functions: as a kernel declares them, else one for each number. */
  operations: number;
}

/** Returns the operations, which add up their cost. */
export function countedOps(inner: Ops): { readonly ops: Ops; readonly work: OperationCount } {
  const work: OperationCount = { calls: 0, numbers: 0, operations: 0 };
  const ops = wrapped(inner, (name, call) => (...args) => {
    const made = call(...args),
      own = sizeOf(made.shape),
      all = own + given(args);
    work.calls++;
    work.numbers += all;
    if (name === 'kernel') {
      const [kernel, inputs, params] = args as Parameters<Primitives['kernel']>;
      work.operations += kernel.operations?.(inputs, params ?? {}) ?? all;
    } else if (name === 'pool') work.operations += own * Math.min((args[1] as PoolOptions).kernel, made.shape[1]);
    else work.operations += all;
    return made;
  });
  return { ops, work };
}
const isTensor = (x: unknown): x is Tensor =>
  typeof x === 'object' && x !== null && 'dtype' in x && 'shape' in x && Array.isArray(x.shape);
/** Counts the numbers of tensors among arguments, by themselves or under a name. */
function given(args: readonly unknown[]): number {
  let sum = 0;
  for (const x of args)
    if (isTensor(x)) sum += sizeOf(x.shape);
    else if (typeof x === 'object' && x !== null)
      sum += Object.values(x)
        .filter(isTensor)
        .reduce((n, y) => n + sizeOf(y.shape), 0);
  return sum;
}

/** Returns operations of a backend on handles that throw when the host reads them. */
export function traceOps(backend: Backend): Trace {
  const calls: string[] = [];
  const real = new WeakMap<object, Tensor>();
  const handle = (tensor: Tensor): Tensor => {
    const visible: Tensor = {
      shape: tensor.shape,
      dtype: tensor.dtype,
      ...(tensor.lengths && { lengths: handle(tensor.lengths) }),
    };
    const proxy = new Proxy(visible, {
      get(target, key) {
        // `then`: await asks every value for it
        if (key in target || key === 'lengths' || key === 'then' || typeof key === 'symbol')
          return Reflect.get(target, key);
        throw new KvError('trace', `'${key}' of a tensor was read on the host, expected device operations only`);
      },
      set: (_t, key) => {
        throw new KvError('trace', `'${String(key)}' of a tensor was written on the host`);
      },
    });
    real.set(proxy, tensor);
    return proxy;
  };
  const reveal = (h: Tensor): Tensor => real.get(h) ?? h;
  const open = (x: unknown): unknown => {
    if (typeof x !== 'object' || x === null) return x;
    if (real.has(x)) return real.get(x);
    const proto: unknown = Object.getPrototypeOf(x);
    return proto === Object.prototype ? Object.fromEntries(Object.entries(x).map(([k, v]) => [k, open(v)])) : x;
  };
  const named = namedCalls(backend.ops, (name) => calls.push(name));
  const ops = wrapped(named, (name, call) => (...args) => {
    if (name === 'kernel') return handle(call(args[0], open(args[1]), args[2]));
    return handle(name === 'from' ? call(args[0], args[1], open(args[2])) : call(...args.map(open)));
  });
  return {
    ops,
    calls,
    reveal,
    backend: { name: 'trace', ops, read: (tensors) => backend.read(tensors.map(reveal)) },
  };
}
