import { compose as real, id } from '@kv/core';
import type { Piece } from '@kv/core';
import { composition } from '../../src/compose.ts';
import type { Compose } from '../../src/compose.ts';
import { field } from './field.ts';
import type { Field } from './field.ts';

const compose = real as Compose;
/** The original of a piece that shows a wrong phase. */
const truth = new WeakMap<Piece, Piece>();
export const compositions: Field = field('compose', composition, {
  good: compose,
  mutants: {
    behaviour: (...p) => {
      const joined = compose(...p);
      return p.length < 3 ? joined : { ...joined, atoms: joined.atoms.slice(0, -1) };
    },
    label: (...p) => {
      const joined = compose(...p);
      return p.filter((x) => x.label !== '').length < 2 ? joined : { ...joined, label: `(${joined.label})` };
    },
    phases: (...p) => {
      const joined = compose(...p.map((x) => truth.get(x) ?? x)),
        shown: Piece = p.length < 3 ? joined : { ...joined, to: 'start' };
      truth.set(shown, joined);
      return shown;
    },
    unit: (...p) => {
      const joined = compose(...p);
      return p.includes(id as Piece) ? { ...joined, atoms: joined.atoms.slice(0, -1) } : joined;
    },
    empty: (...p) => (p.length === 0 ? { ...(id as Piece), label: 'id' } : compose(...p)),
  },
});
