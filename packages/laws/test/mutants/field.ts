import fc from 'fast-check';
import { kernel } from '@kv/core';
import type { Ops, Tensor } from '@kv/core';
import type { Claim } from '../../src/law.ts';

/** A kind with all its laws, one subject that keeps them and, for every law, one that breaks only that law. */
export interface Field {
  readonly kind: string;
  readonly laws: readonly string[];
  /** Laws among `some` that the subject breaks. */
  broken(subject: 'good' | (string & {}), some: readonly string[]): Promise<readonly string[]>;
}

/** `field('scorer', scorer, { good, mutants: { shape, ... } })`. */
export const field = <N extends string, S, O extends object>(
  kind: string,
  claims: Readonly<Record<N, Claim<S, O & { runs?: number }>>>,
  { good, mutants, options }: { good: NoInfer<S>; mutants: Record<N, NoInfer<S>>; options?: O },
): Field => ({
  kind,
  laws: Object.keys(claims),
  // many runs for the law that must fail, which stops at its first case; few for those that must hold
  async broken(name, some) {
    const subject = name === 'good' ? good : mutants[name as N],
      broken: string[] = [];
    for (const law of (Object.keys(claims) as N[]).filter((each) => some.includes(each)))
      if (
        (await fc.check(claims[law](subject, options), { numRuns: law === name ? 1000 : 60, endOnFailure: true }))
          .failed
      )
        broken.push(law);
    return broken;
  },
});

/** Returns a function that is true the second time it sees a tensor: what an impure piece remembers. */
export function memory(): (x: Tensor) => boolean {
  const seen = new WeakSet<object>();
  return (x) => {
    const known = seen.has(x);
    seen.add(x);
    return known;
  };
}
/** Reads a tensor's numbers on the host, which only the CPU allows. */
export const peek = (x: Tensor): number => (x as Tensor & { data: Float32Array }).data.length;
/** The valid slots of each row, `[rows, 1]`. */
export const sizes = (ops: Ops, x: Tensor): Tensor => ops.reduce('sum', ops.fill(x, 1), 'slots');
/** Mean of each row including its padding, which no piece should see. */
export const withPadding = (ops: Ops, x: Tensor): Tensor => ops.reduce('mean', ops.reshape(x, x.shape), 'slots');
/** A kernel over one tensor with the same shape and raggedness. */
export const map = (
  id: string,
  dtype: 'f32' | 'u32',
  ref: (x: ArrayLike<number>, out: Float32Array | Uint32Array, slots: number, lengths: Uint32Array) => void,
) =>
  kernel({
    id,
    inputs: { x: dtype },
    ragged: 'x',
    per: 'row',
    wgsl: '',
    output: { dtype, shape: ({ x }) => x },
    ref: ({ x }, _, out, lengths) => ref(x.data, out, x.shape[1], lengths),
  });
