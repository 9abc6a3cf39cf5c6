export interface HSettings { readonly query: number; readonly heads: number; readonly measure: number; readonly sinks: number; readonly local: number; readonly budget: number }

/** What each head sees at each step, by lists and sets; `scores[step][head][position]`, `sizes[step]` slots, the first step being generated token 1. */
export function hshareOracle(scores: readonly (readonly (readonly number[])[])[], sizes: readonly number[], { query, heads, measure, sinks, local, budget }: HSettings): number[][][] {
  const H = scores[0]!.length, stored = Array.from({ length: H }, (): Set<number> | undefined => undefined), common = Array.from({ length: H }, () => new Array<number>(H).fill(0));
  return scores.map((rows, i) => {
    const n = sizes[i]!, fixed = Array.from({ length: n }, (_, p) => p).filter((p) => p < sinks || p >= n - local), measuring = heads > 0 && i + 1 <= measure, uses = Array.from({ length: H }, (_, h) => h);
    if (heads > 0 && !measuring) {
      const open = common.map((row, a) => row.map((x, b) => (b < a ? x : 0)));
      for (let k = 0; k < Math.floor(heads * H); k++) {
        const pairs = open.flatMap((row, a) => row.map((x, b) => ({ x, a, b }))).filter(({ x }) => x > 0).sort((s, t) => t.x - s.x || s.a - t.a || s.b - t.b), best = pairs[0];
        if (!best) break;
        uses[best.a] = best.b;
        open[best.a]!.fill(0);
        for (const row of open) row[best.a] = 0;
      }
    }
    const last = (h: number): number => (uses[h] === h ? h : last(uses[h]!));
    const out: number[][] = [];
    const middles = rows.map((row, h) => {
      if (last(h) !== h || !(measuring || n % query === 0 || stored[h] === undefined)) return undefined;
      const rest = Array.from({ length: n }, (_, p) => p).filter((p) => !fixed.includes(p)).sort((a, b) => row[b]! - row[a]! || a - b);
      return new Set(rest.slice(0, Math.max(0, budget - fixed.length)));
    });
    middles.forEach((set, h) => { if (set) stored[h] = set; });
    for (let h = 0; h < H; h++) out.push([...new Set([...fixed, ...(middles[h] ?? stored[last(h)] ?? [])])].sort((a, b) => a - b));
    if (measuring) for (let a = 0; a < H; a++) for (let b = 0; b < a; b++) common[a]![b]! += [...middles[a]!].filter((p) => middles[b]!.has(p)).length;
    return out;
  });
}
