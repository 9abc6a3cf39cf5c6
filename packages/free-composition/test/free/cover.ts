import { admits, places } from './rows.ts';
import type { Row } from './rows.ts';

/** Returns the subsets of `t` places. */
function subsets(t: number, from = 0): number[][] {
  if (t === 0) return [[]];
  return places.slice(from).flatMap((_, i) => subsets(t - 1, from + i + 1).map((rest) => [from + i, ...rest]));
}
/** Returns a generator of pseudo-random numbers in [0, 1). */
export function random(seed: number): () => number {
  let a = seed;
  return () => {
    a = (Math.imul(a, 1664525) + 1013904223) >>> 0;
    return a / 2 ** 32;
  };
}
/**
 * Returns the rows of a covering array that run this time, with their indices: all of them with KV_FULL=1, else every
 * `of`-th, from the one that KV_TURN chooses (.ci/run takes another one for each commit), and a row for each choice that
 * none of those has.
 */
export function rowsOfTurn(rows: readonly Row[], of = 8): readonly (readonly [index: number, row: Row])[] {
  const all = [...rows.entries()],
    turn = Number(process.env['KV_TURN'] || 0) % of,
    chosen = process.env['KV_FULL'] === '1' ? all : all.filter(([i]) => i % of === turn);
  for (const [place, { choices }] of places.entries())
    for (const choice of choices.keys())
      if (!chosen.some(([, row]) => row[place] === choice)) {
        const found = all.find(([, row]) => row[place] === choice);
        if (found) chosen.push(found);
      }
  return chosen;
}
const open = (): (number | undefined)[] => new Array<number | undefined>(places.length).fill(undefined);

/**
 * Returns a covering array: rows that types admit such that any `t` choices that types admit together occur together in
 * at least one row. Greedy: each row starts from a set that no row has yet, and takes at every other place the choice
 * that covers most new sets.
 */
export function covering(t: number): { readonly rows: readonly Row[]; readonly sets: number } {
  const next = random(7),
    groups = subsets(t),
    size = places.map(({ choices }) => choices.length);
  const index = (group: readonly number[], row: readonly (number | undefined)[]): number =>
    group.reduce((at, p) => at * size[p] + row[p]!, 0);
  const wanted = groups.map((group) => {
    const sets = new Uint8Array(group.reduce((all, p) => all * size[p], 1));
    const walk = (row: (number | undefined)[], at: number): void => {
      if (at === group.length) {
        if (admits(row)) sets[index(group, row)] = 1;
        return;
      }
      for (let c = 0; c < size[group[at]]; c++) {
        row[group[at]] = c;
        walk(row, at + 1);
      }
      row[group[at]] = undefined;
    };
    walk(open(), 0);
    return sets;
  });
  const sets = wanted.reduce((sum, w) => w.reduce((all, one) => all + one, sum), 0),
    rows: Row[] = [];
  for (const [g, group] of groups.entries()) {
    for (let first = wanted[g].indexOf(1); first >= 0; first = wanted[g].indexOf(1, first)) {
      const row = open();
      for (let left = first, i = group.length - 1; i >= 0; left = Math.floor(left / size[group[i]]), i--)
        row[group[i]] = left % size[group[i]];
      const order = places
        .map((_, p) => p)
        .filter((p) => row[p] === undefined)
        .map((p) => [next(), p] as const)
        .sort((a, b) => a[0] - b[0])
        .map(([, p]) => p);
      for (const p of order) row[p] = best(p, row);
      groups.forEach((other, o) => (wanted[o][index(other, row)] = 0));
      rows.push(row as Row);
    }
  }
  return { rows, sets };

  /**
   * Returns the choice at `place` that covers most, among those that can still be completed; the first of equals from a
   * random start.
   */
  function best(place: number, row: (number | undefined)[]): number {
    const touched = groups.flatMap((group, g) =>
      group.includes(place) && group.every((p) => p === place || row[p] !== undefined) ? [g] : [],
    );
    const start = Math.floor(next() * size[place]);
    let choice = -1,
      most = -1;
    for (let i = 0; i < size[place]; i++) {
      const c = (start + i) % size[place];
      row[place] = c;
      const gain = touched.reduce((sum, g) => sum + wanted[g][index(groups[g], row)], 0);
      if (gain > most && admits(row)) {
        choice = c;
        most = gain;
      }
    }
    return choice;
  }
}
