import { compose, scorer } from '@kv/core';
import type { LayerContext, Policy, Signal } from '@kv/core';
import { even, inner, topK } from './correct-pieces.ts';
import type { FaultPoint, FaultSupplier } from './fault-point.ts';
import type { FaultContext } from './faulty-values.ts';
import { NOTHING, optional } from './harmless.ts';
import { undeclaredStep } from './undeclared-step.ts';

/** Returns a policy with one atom changed. */
function malformed(field: string, supply: FaultSupplier): Policy {
  const [atom, ...rest] = inner.atoms;
  return {
    ...inner,
    atoms: [{ ...atom, [field]: supply(atom[field as 'name'], {} as FaultContext) }, ...rest],
  } as Policy;
}

/** Points where providers, undeclared steps and malformed policies give something. */
export const policyFaults: readonly FaultPoint[] = [
  {
    name: 'provider, a value',
    when: 'provider',
    takes: 'anything',
    harmless: {
      'a number': 'a provider may give anything: the piece that reads it checks it',
      'a string': 'the same',
      true: 'the same',
      'an empty array': 'the same',
      'an empty object': 'the same',
      'a function': 'the same',
      'a typed array': 'the same',
      'a promise': 'engines wait for providers',
    },
    policy: (supply) => {
      const signal: Signal<'given'> = {
        id: 'hostile',
        as: 'given',
        cost: 'pass',
        provide: async (_, layer) => supply(5, { at: { layer, layers: 2 } as LayerContext } as FaultContext),
      };
      return compose(scorer('plain', { needs: [signal] }, (ctx) => even(ctx))(), topK);
    },
  },
  {
    name: 'undeclared step, a draft',
    when: 'event',
    takes: 'anything',
    policy: (supply) => undeclaredStep((draft, where) => supply(draft, where)),
  },
  {
    name: 'undeclared step, checks of its own',
    when: 'event',
    takes: 'anything',
    harmless: { 'an empty array': NOTHING },
    policy: (supply) => undeclaredStep(({ checks, ...draft }, where) => ({ ...draft, checks: supply(checks, where) })),
  },
  {
    name: 'undeclared step, states',
    when: 'event',
    takes: 'anything',
    policy: (supply) => undeclaredStep(({ state: all, ...draft }, where) => ({ ...draft, state: supply(all, where) })),
  },
  ...['at', 'name', 'label', 'needs', 'kind', 'reach', 'minSlots', 'run'].map(
    (field): FaultPoint => ({
      name: `an atom, its ${field}`,
      when: 'policy',
      takes: 'anything',
      harmless: {
        ...(field === 'name' || field === 'label' ? { 'a string': 'it is a valid value' } : {}),
        ...(field === 'needs' ? { 'an empty array': 'it reads nothing' } : {}),
        ...(field === 'minSlots' ? optional : {}),
      },
      policy: (supply) => malformed(field, supply),
    }),
  ),
  {
    name: 'a policy, its atoms',
    when: 'policy',
    takes: 'anything',
    policy: (supply) => ({ ...inner, atoms: supply(inner.atoms, {} as FaultContext) }) as Policy,
  },
  {
    name: 'a policy',
    when: 'policy',
    takes: 'anything',
    policy: (supply) => supply(inner, {} as FaultContext) as Policy,
  },
];
