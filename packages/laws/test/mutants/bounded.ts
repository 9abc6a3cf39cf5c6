import { count, keys, odd, weightScorer } from '@kv/core';
import type { AnyFactory, Piece } from '@kv/core';
import { boundedClaims } from '../../src/bounded.ts';
import type { OptionSubject } from '../../src/bounded.ts';
import { field } from './field.ts';
import type { Field } from './field.ts';

const of = (factory: AnyFactory): OptionSubject => ({
  options: factory.description.options,
  make: (chosen) => factory(chosen) as Piece,
});
/** Largest array that is made; larger ones, which no machine has room for, are refused before. */
const MOST = 2 ** 22;

export const boundedOptions: Field = field('bounded options', boundedClaims, {
  good: of(
    weightScorer('smooth', { options: { kernel: odd(5, 'Width.') }, needs: [keys] }, ({ ops, keys: k }, { kernel }) =>
      ops.pool(ops.norm(k), { kernel, kind: 'mean' }),
    ),
  ),
  mutants: {
    work: of(
      weightScorer(
        'padded',
        { options: { width: count(3, 'slots', 'Width.') }, needs: [keys] },
        ({ ops, keys: k }, { width }) => {
          // as many numbers as the option says, regardless of the slots
          const pad = ops.from({ data: new Float32Array(Math.min(width, MOST)), shape: [1, Math.min(width, MOST)] });
          return ops.add(ops.norm(k), ops.sum(pad));
        },
      ),
    ),
  },
});
