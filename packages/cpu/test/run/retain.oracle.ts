import type { HostArray } from '@kv/core';

/**
 * Slots that mean attention of the last w queries keeps in each KV head, the window's own first: float64, plain loops.
 */
export function keptByWindow(
  { keys, queries }: { readonly keys: HostArray; readonly queries: HostArray },
  window: number,
  budget: number,
): number[][] {
  const [G, n, d] = keys.shape;
  const [H, have] = queries.shape;
  const w = Math.min(window, have);
  return Array.from({ length: G }, (_, g) => {
    const scores = new Array<number>(n).fill(0);
    for (let h = (g * H) / G; h < ((g + 1) * H) / G; h++)
      for (let q = 0; q < w; q++) {
        const last = n - w + q;
        const logits = Array.from({ length: n }, (_, i) => {
          let x = 0;
          for (let c = 0; c < d; c++)
            x += queries.data[(h * have + have - w + q) * d + c] * keys.data[(g * n + i) * d + c];
          return i > last ? -Infinity : x / Math.sqrt(d);
        });
        const top = Math.max(...logits);
        const e = logits.map((x) => Math.exp(x - top));
        const total = e.reduce((a, b) => a + b, 0);
        for (let i = 0; i < n; i++) scores[i] += e[i] / total;
      }
    const order = scores.map((s, i) => [i >= n - window ? Infinity : s, i]).sort(([a, i], [b, j]) => b - a || i - j);
    return order
      .slice(0, Math.min(budget, n))
      .map(([, i]) => i)
      .sort((a, b) => a - b);
  });
}
