import { compose, view } from '@kv/core';
import { compile } from '@kv/core/engine';
import type { AnyPiece, Phase, Piece, Policy } from '@kv/core';
import { inner, outer, VIEWS } from './kinds.ts';
import type { Choice, Place } from './kinds.ts';

/** Every place of a composition: the event's, the view around it, then those outside a view. */
const WITHIN = inner.length;
const VIEWED: readonly Choice[] = VIEWS.map((label) => ({
  label: `view ${label}`,
  from: ['kept'],
  to: 'same',
  once: label !== 'none',
}));
export const places: readonly Place[] = [...inner, { kind: 'view', choices: VIEWED }, ...outer];
/** A choice at every place; `undefined` if it is still open. */
export type Row = readonly number[];
export type Partial = readonly (number | undefined)[];

/** State of a composition: its phase, and whether views no longer accept it. */
const PHASE: readonly Phase[] = ['start', 'scores', 'weights', 'units', 'kept'];
const key = (phase: Phase, once: boolean): number => PHASE.indexOf(phase) * 2 + Number(once);
/** Returns the state after a choice at a place, or -1 if types refuse it. */
function after(at: number, state: number, { from, to, once }: Choice): number {
  const phase = PHASE[state >> 1],
    had = state % 2 === 1;
  if (!from.includes(phase) || (at === WITHIN && once && had)) return -1;
  return key(to === 'same' ? phase : to, at === WITHIN ? had : had || once);
}
/** Choices of one place with the same transitions form one class. */
const classes = places.map(({ choices }, at) => {
  const found = new Map<string, { readonly moves: readonly number[]; readonly members: number[] }>();
  choices.forEach((choice, c) => {
    const moves = Array.from({ length: 10 }, (_, s) => after(at, s, choice)),
      name = moves.join();
    if (!found.has(name)) found.set(name, { moves, members: [] });
    found.get(name)!.members.push(c);
  });
  return [...found.values()];
});
const movesOf = classes.map((of, at) =>
  places[at].choices.map((_, c) => of.find(({ members }) => members.includes(c))!.moves),
);

/**
 * Counts the compositions that types admit, by phase and without building one: over all places, over those up to one,
 * or over some with none at the others.
 */
export function count(of?: string | readonly string[]): number {
  const last = typeof of === 'string' ? places.findIndex(({ kind }) => kind === of) : places.length;
  let ways = new Array<number>(10).fill(0);
  ways[key('start', false)] = 1;
  for (const [at, { kind }] of places.entries()) {
    const next = new Array<number>(10).fill(0),
      open = at <= last && (typeof of !== 'object' || of.includes(kind));
    for (const { moves, members } of open ? classes[at] : [{ moves: movesOf[at][0], members: [0] }])
      moves.forEach((to, state) => {
        if (to >= 0) next[to] += ways[state] * members.length;
      });
    ways = next;
  }
  return ways[key('kept', false)] + ways[key('kept', true)];
}

/**
 * Yields every row with any scorer, any selector and any choice at these places, and the first choice,
 * none, at the others.
 */
export function* product(kinds: readonly string[], at = 0, row: Row = []): Generator<Row> {
  if (at === places.length) {
    yield row;
    return;
  }
  const { kind, choices } = places[at];
  for (let c = 0; c < (['scorer', 'selector', ...kinds].includes(kind) ? choices.length : 1); c++)
    yield* product(kinds, at + 1, [...row, c]);
}
/** Yields every row that types admit up to the selector; the choices after it rotate. */
export function* everyEvent(
  row: Row = [],
  state: number = key('start', false),
  turn: { at: number } = { at: 0 },
): Generator<Row> {
  const at = row.length;
  if (places[at - 1]?.kind === 'selector') {
    const rest = turn.at++,
      tail = places.slice(at).map(({ choices }, i) => Math.floor(rest / 2 ** i) % choices.length),
      full = [...row, ...tail];
    yield admits(full) ? full : [...row, ...tail.map(() => 0)];
    return;
  }
  for (const [c, moves] of movesOf[at].entries())
    if (moves[state] >= 0) yield* everyEvent([...row, c], moves[state], turn);
}

/** For every place the states that it leads to, as bits, from each state as a bit: of each choice, and of all of them. */
const toOf = (moves: readonly number[]): readonly number[] => moves.map((to) => (to < 0 ? 0 : 1 << to));
const bitsOf = movesOf.map((of) => of.map(toOf)),
  openBits = classes.map((of) =>
    of.map(({ moves }) => toOf(moves)).reduce((all, some) => all.map((bits, s) => bits | some[s])),
  );

/** Returns whether the open places can be completed to a row that types admit. */
export function admits(row: Partial): boolean {
  let states = 1 << key('start', false);
  for (const [at, all] of openBits.entries()) {
    const chosen = row[at],
      bits = chosen === undefined ? all : bitsOf[at][chosen];
    let next = 0;
    for (let s = 0; s < bits.length; s++) if ((states >> s) & 1) next |= bits[s];
    if (next === 0) return false;
    states = next;
  }
  return true;
}

const chosen = (row: Row, from: number, to: number): Piece[] =>
  places.slice(from, to).flatMap(({ choices }, i) => choices[row[from + i]].piece ?? []);
/** Returns the pieces of a row, in order. */
export const piecesOf = (row: Row): readonly Piece[] => chosen(row, 0, places.length);
/** Number of slots that a row of a view sees. */
export const VIEW_BUDGET = 6;
/** Returns what a row evicts or hides by; `between` may insert pieces. */
export const eventOf = (row: Row, between: (before: Piece) => readonly Piece[] = () => []): Piece =>
  compose(...chosen(row, 0, WITHIN).flatMap((p): AnyPiece[] => [p, ...between(p)])) as Piece;
/** Returns the policy of a row. @throws KvError with the sentence of `compose` or `view` if types do not admit it */
export function policyOf(row: Row, between?: (before: Piece) => readonly Piece[]): Policy {
  const event = eventOf(row, between) as Piece<'start', 'kept'>,
    rows = VIEWS[row[WITHIN]];
  return compose(
    rows === 'none' ? event : view(event, { budget: VIEW_BUDGET, rows }),
    ...(chosen(row, WITHIN + 1, places.length) as AnyPiece[]),
  ) as Policy;
}
/** Returns the most slots that a row forces in a head, what it protects included. */
export const leastSlots = (row: Row, slots: number, budget: number): number =>
  compile(isView(row) ? eventOf(row) : policyOf(row)).minSlots(slots, budget);
export const isView = (row: Row): boolean => VIEWS[row[WITHIN]] !== 'none';
export const labelOf = (row: Row): string =>
  places
    .map(({ choices }, at) => choices[row[at]].label)
    .filter((label) => !label.endsWith('none'))
    .join(' ∘ ');
