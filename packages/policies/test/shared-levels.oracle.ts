/** A slot of one head. */
export interface Entry {
  readonly score: number;
  readonly forced: boolean;
}

/**
 * Levels, by name, of the kept slots of every layer and head where slots of all heads of a layer, or of all layers,
 * compete for them: each head has as many of a level or a finer one as it has slots among the best of all; which ones is
 * decided in the head, forced slots first.
 * @param kept slots, ascending, `[layer][head]`
 * @param percent of the kept slots of each head, by level, from the finest on
 */
export function sharedLevelsOracle(
  model: readonly (readonly (readonly Entry[])[])[],
  kept: readonly (readonly (readonly number[])[])[],
  percent: readonly (readonly [level: string, of: number])[],
  over: 'layer' | 'model',
): string[][][] {
  const all = kept.flatMap((heads, l) =>
      heads.flatMap((slots, g) => slots.map((slot) => ({ l, g, slot, score: model[l][g][slot].score }))),
    ),
    groups = over === 'model' ? [all] : kept.map((_, l) => all.filter((of) => of.l === l));
  // of equal scores those of the lower slot, then head; over the model of the first layer and head
  const order =
    over === 'model'
      ? (a: (typeof all)[0], b: (typeof all)[0]) => b.score - a.score || a.l - b.l || a.g - b.g || a.slot - b.slot
      : (a: (typeof all)[0], b: (typeof all)[0]) => b.score - a.score || a.slot - b.slot || a.g - b.g;
  const levels = kept.map((heads) => heads.map((slots) => slots.map(() => percent.at(-1)![0])));
  let sum = 0;
  const ends = percent.map(([, of]) => (sum += of));
  for (let i = percent.length - 2; i >= 0; i--)
    for (const group of groups) {
      const heads = [...new Set(group.map(({ l, g }) => `${l} ${g}`))].map((name) => name.split(' ').map(Number)),
        total = heads.reduce((most, [l, g]) => most + Math.floor((kept[l][g].length * ends[i]) / 100), 0),
        best = group.toSorted(order).slice(0, total);
      for (const [l, g] of heads) {
        const count = best.filter((of) => of.l === l && of.g === g).length,
          first = kept[l][g].toSorted(
            (a, b) =>
              Number(model[l][g][b].forced) - Number(model[l][g][a].forced) ||
              model[l][g][b].score - model[l][g][a].score ||
              a - b,
          );
        for (const slot of first.slice(0, count)) levels[l][g][kept[l][g].indexOf(slot)] = percent[i][0];
      }
    }
  return levels;
}
