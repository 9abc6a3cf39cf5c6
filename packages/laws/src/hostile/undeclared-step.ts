import { compose } from '@kv/core';
import type { Atom, DraftSelection, Policy, Scorer, StepInput } from '@kv/core';
import { plain, topK } from './correct-pieces.ts';
import type { FaultContext } from './faulty-values.ts';

/** Returns a policy with a step that core's declarations did not make. */
export function undeclaredStep(change: (draft: DraftSelection, where: FaultContext) => unknown): Policy {
  const atoms = plain.atoms.map((atom): Atom => {
    if (atom.at !== 'event') return atom;
    const run = (cells: readonly StepInput[]): readonly DraftSelection[] =>
      atom.run(cells).map((draft, i) => change(draft, cells[i]) as DraftSelection);
    return { ...atom, name: 'hostile', label: 'hostile', run };
  });
  return compose({ ...plain, name: 'hostile', label: 'hostile', atoms } as Scorer, topK);
}
