import type { Atom } from '../piece/atoms.ts';
import type { AnySignal } from '../piece/signals.ts';
import { isState } from '../piece/state.ts';
import { KvError } from '../tensor/errors.ts';
import { showValue } from '../piece/option.ts';
import { otherProtocol } from '../piece/piece.ts';
import { areSpans } from '../piece/spans.ts';
import type { Piece } from '../piece/piece.ts';

// Checks of a policy's parts before any of it runs: third-party pieces need not be made by our declarations.

const KINDS: readonly unknown[] = ['scorer', 'transform', 'unit', 'allocator', 'selector', 'demotion'];
const DURING: readonly unknown[] = ['prefill', 'decode', 'both'];
export const REACH = ['head', 'layer', 'model'] as const;

const isFunction = (x: unknown): boolean => typeof x === 'function';
const isMaybeFunction = (x: unknown): boolean => x === undefined || isFunction(x);
const isMaybeCount = (x: unknown): boolean => x === undefined || (Number.isSafeInteger(x) && (x as number) > 0);
type Fields = Readonly<Record<string, readonly [want: string, ok: (x: unknown) => boolean]>>;

const run: Fields = { run: ['a function', isFunction] };
const reach: Fields = { reach: ['head, layer or model', (x) => (REACH as readonly unknown[]).includes(x)] };
/** Required fields of each kind of atom. */
const SORTS: Readonly<Record<Atom['at'], Fields>> = {
  event: {
    ...run,
    ...reach,
    kind: ['a kind of step', (x) => KINDS.includes(x)],
    minSlots: ['a function or nothing', isMaybeFunction],
    ends: ['a function or nothing', isMaybeFunction],
    plan: ['a function or nothing', isMaybeFunction],
  },
  step: { ...run, ...reach },
  view: { ...run, during: ['prefill, decode or both', (x) => DURING.includes(x)] },
  freeze: run,
  compact: run,
  evict: run,
  attend: {
    ...run,
    needs: ['an array of states', (x) => Array.isArray(x) && x.every((s) => isSignal(s) && isState(s as AnySignal))],
  },
  wrapSelect: run,
  cadence: {
    block: ['a positive whole number of tokens or nothing', isMaybeCount],
    every: ['a positive whole number of tokens or nothing', isMaybeCount],
  },
  protect: { spans: ['ranges [from, to) of positions, ordered and disjoint', areSpans] },
};
const COMMON: Fields = {
  name: ['a string', (x) => typeof x === 'string'],
  label: ['a string', (x) => typeof x === 'string'],
  needs: ['an array of signals', (x) => Array.isArray(x) && x.every(isSignal)],
};
const isSignal = (x: unknown): boolean =>
  typeof x === 'object' &&
  x !== null &&
  'id' in x &&
  typeof x.id === 'string' &&
  'as' in x &&
  typeof x.as === 'string' &&
  isMaybeFunction('provide' in x ? x.provide : undefined);

/** Checks the atoms of a policy before any of them runs. @throws KvError naming the first that is not one */
export function expectAtoms(policy: Piece, atoms: readonly unknown[]): asserts atoms is readonly Atom[] {
  const other = otherProtocol(policy, policy.label);
  if (other) throw new KvError('policy', other);
  if (typeof policy.label !== 'string')
    throw new KvError('policy', `expected a label as a string, got ${showValue(policy.label)}`);
  for (const [i, atom] of atoms.entries()) {
    const refuse = (want: string, got: unknown): KvError =>
      new KvError('policy', `expected ${want} in atom ${i + 1} of '${policy.label}', got ${showValue(got)}`);
    if (typeof atom !== 'object' || atom === null) throw refuse('an object', atom);
    const of = atom as Readonly<Record<string, unknown>>,
      fields = Object.hasOwn(SORTS, String(of['at'])) ? SORTS[of['at'] as Atom['at']] : undefined;
    if (!fields) throw refuse(`at as ${Object.keys(SORTS).join(', ')}`, of['at']);
    for (const [name, [want, ok]] of Object.entries({ ...COMMON, ...fields }))
      if (!ok(of[name])) throw refuse(`${name} as ${want}`, of[name]);
  }
}
