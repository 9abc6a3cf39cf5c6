export interface HSettings {
  readonly query: number;
  readonly heads: number;
  readonly layers: number;
  readonly measure: number;
  readonly sinks: number;
  readonly local: number;
  readonly budget: number;
}

const range = (n: number): number[] => Array.from({ length: n }, (_, i) => i);

/**
 * Whom each of `common.length` shares with: the pair of most in common first, j < i, i uses j, then row and column i
 * are struck; chains are followed to their end.
 */
function table(common: readonly (readonly number[])[], share: number): number[] {
  const uses = range(common.length),
    open = common.map((row, a) => row.map((x, b) => (b < a ? x : 0)));
  for (let k = 0; k < Math.floor(share * common.length); k++) {
    const best = open
      .flatMap((row, a) => row.map((x, b) => ({ x, a, b })))
      .filter(({ x }) => x > 0)
      .sort((s, t) => t.x - s.x || s.a - t.a || s.b - t.b)[0];
    if (!best) break;
    uses[best.a] = best.b;
    open[best.a].fill(0);
    for (const row of open) row[best.a] = 0;
  }
  const last = (i: number): number => (uses[i] === i ? i : last(uses[i]));
  return range(common.length).map(last);
}

/**
 * What each head of each layer sees at each step, and how often heads retrieved, by lists and sets;
 * `scores[step][layer][head][position]`, `sizes[step]` slots; where these are not one more than before, sets are chosen
 * again.
 */
export function hshareOracle(
  scores: readonly (readonly (readonly (readonly number[])[])[])[],
  sizes: readonly number[],
  { query, heads, layers, measure, sinks, local, budget }: HSettings,
): { seen: number[][][][]; retrievals: number } {
  const L = scores[0].length,
    H = scores[0][0].length,
    stored = range(L).map(() => range(H).map((): ReadonlySet<number> | undefined => undefined));
  const inHeads = range(L).map(() => range(H).map(() => new Array<number>(H).fill(0))),
    inLayers = range(L).map(() => new Array<number>(L).fill(0));
  const both = (a: ReadonlySet<number>, b: ReadonlySet<number>): number => [...a].filter((p) => b.has(p)).length;
  let retrievals = 0;
  const seen = scores.map((step, i) => {
    const n = sizes[i],
      fixed = range(n).filter((p) => p < sinks || p >= n - local),
      measuring = (heads > 0 || layers > 0) && i < measure;
    const retrieved = (l: number, h: number): ReadonlySet<number> => {
      retrievals++;
      const row = step[l][h];
      return new Set(
        range(n)
          .filter((p) => !fixed.includes(p))
          .sort((a, b) => row[b] - row[a] || a - b)
          .slice(0, Math.max(0, budget - fixed.length)),
      );
    };
    const layerUses = measuring ? range(L) : table(inLayers, layers);
    for (const l of range(L)) {
      if (!(measuring || n % query === 0 || n !== sizes[i - 1] + 1)) continue; // shared with the token before
      if (layerUses[l] !== l) {
        stored[l] = [...stored[layerUses[l]]];
        continue;
      } // shared with a lower layer
      const headUses = measuring ? range(H) : table(inHeads[l], heads),
        own = range(H).map((h) => (headUses[h] === h ? retrieved(l, h) : undefined));
      stored[l] = range(H).map((h) => own[headUses[h]]!);
    }
    if (measuring) {
      for (const l of range(L))
        for (const a of range(H)) for (let b = 0; b < a; b++) inHeads[l][a][b] += both(stored[l][a]!, stored[l][b]!);
      for (const l of range(L))
        for (let m = 0; m < l; m++) for (const h of range(H)) inLayers[l][m] += both(stored[l][h]!, stored[m][h]!);
    }
    return stored.map((sets) => sets.map((set) => [...new Set([...fixed, ...set!])].sort((a, b) => a - b)));
  });
  return { seen, retrievals };
}
