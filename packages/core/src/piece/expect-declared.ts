import { KvError } from '../tensor/errors.ts';
import { didYouMean } from './nearest.ts';
import { misfitOfDefault, showValue } from './option.ts';
import { signalKey } from './signals.ts';
import type { AnySignal } from './signals.ts';

/** Fields that every declaration has. */
const COMMON = ['source', 'says', 'options', 'check'];
/** Fields that are functions where they are given. */
const FUNCTIONS = 'check ends minSlots shares hooks acrossLayers loop copies biases'.split(' ');

/**
 * Checks what somebody without types declares, when it is declared: later nothing names the declaration.
 * @param fields those of this kind, in addition to the common ones; not checked if it is left out
 * @throws KvError for a name that is no text, options whose default does not fit, and unknown fields
 */
export function expectDeclared(name: string, declared: object, fields?: readonly string[]): void {
  if (typeof name !== 'string' || name === '')
    throw new KvError('declaration', `expected a name first, a text, got ${showValue(name)}`);
  if (typeof declared !== 'object' || declared === null || Array.isArray(declared))
    throw new KvError(name, `expected a declaration such as { needs: [values] }, got ${showValue(declared)}`);
  const given = declared as Readonly<Record<string, unknown>>,
    known = [...COMMON, ...(fields ?? [])],
    unknown = fields && Object.keys(given).find((field) => !known.includes(field));
  if (unknown !== undefined)
    throw new KvError(name, `has no field ${unknown}${didYouMean(unknown, known) || `: it has ${known.join(', ')}`}`);
  const none = FUNCTIONS.find((field) => given[field] !== undefined && typeof given[field] !== 'function');
  if (none !== undefined) throw new KvError(name, `expected ${none} as a function, got ${showValue(given[none])}`);
  const { options = {} } = given;
  if (typeof options !== 'object' || options === null)
    throw new KvError(name, `expected options by name, got ${showValue(options)}`);
  for (const [option, of] of Object.entries(options)) {
    const wrong = misfitOfDefault(of);
    if (wrong) throw new KvError(name, `option ${option}: ${wrong}`);
  }
}

/** @throws KvError for anything but a function, the equation of what is declared */
export function expectEquation(name: string, run: unknown): void {
  if (typeof run !== 'function') throw new KvError(name, `expected its equation, a function, got ${showValue(run)}`);
}

/**
 * Returns the signals that one equation reads.
 * @throws KvError for anything but a list of signals, and for two of one name, of which it would see one
 */
export function expectSignals(name: string, all: unknown): readonly AnySignal[] {
  const other = Array.isArray(all) ? all.findIndex((one) => typeof Object(one).id !== 'string') : -1;
  if (!Array.isArray(all) || other >= 0)
    throw new KvError(
      name,
      `expected needs as a list of signals such as [values], got ${Array.isArray(all) ? `${showValue(all[other])} among them` : showValue(all)}`,
    );
  const seen = new Map<string, AnySignal>();
  for (const signal of all as readonly AnySignal[]) {
    const before = seen.get(signal.as);
    if (before && signalKey(before) !== signalKey(signal))
      throw new KvError(
        name,
        `reads ${signalKey(before)} and ${signalKey(signal)} under one name, '${signal.as}': need one of them`,
      );
    seen.set(signal.as, signal);
  }
  return all;
}
