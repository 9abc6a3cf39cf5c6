import type { CoAttention } from './co-attention.ts';

const CHUNK = 1024, WITHIN = { most: 8, above: 0.3 }, ACROSS = { most: 4, above: 0.02 }, HEADS = 3;

interface Best { readonly to: number[]; readonly weight: number[] }
/** Keeps the `most` heaviest, the first of equals. */
function offer({ to, weight }: Best, j: number, w: number, { most, above }: typeof WITHIN): void {
  if (!(w > above) || (weight.length === most && !(w > weight[most - 1]!))) return;
  let at = weight.length;
  while (at > 0 && w > weight[at - 1]!) at--;
  weight.splice(at, 0, w);
  to.splice(at, 0, j);
  if (weight.length > most) { weight.pop(); to.pop(); }
}

/** Takes the attention rows of `length` queries in order, `add(query, rows)` with rows `[H, query + 1]`, and leaves edges and saliency. */
export function collector(length: number, chunk: number = CHUNK): { add(query: number, rows: Float32Array): void; take(): CoAttention } {
  const best: Best[] = Array.from({ length }, () => ({ to: [], weight: [] })), saliency = new Float32Array(length);
  let start = 0, own: Float32Array[] = [], columns: Float64Array[] = [];

  function close(): void {
    const unit = own.map((row) => { const size = Math.sqrt(row.reduce((s, x) => s + x * x, 0)) + 1e-8; return row.map((x) => x / size); });
    for (let i = 0; i < unit.length; i++) for (let j = 0; j < unit.length; j++) {
      if (i === j) continue;
      const [a, b] = [unit[i]!, unit[j]!];
      let cosine = 0;
      for (let c = 0; c <= Math.min(i, j); c++) cosine += a[c]! * b[c]!;
      offer(best[start + i]!, start + j, cosine, WITHIN);
    }
    for (let i = 0; i < own.length; i++) saliency[start + i] = columns.map((column) => column[i]!).sort((a, b) => b - a).slice(0, HEADS).reduce((a, b) => a + b, 0);
    [start, own, columns] = [start + own.length, [], []];
  }

  return {
    add(query: number, rows: Float32Array): void {
      if (own.length === chunk) close();
      const width = query + 1, heads = rows.length / width, across: Best = { to: [], weight: [] };
      if (columns.length === 0) columns = Array.from({ length: heads }, () => new Float64Array(chunk));
      const mean = new Float32Array(width);
      for (let h = 0; h < heads; h++) for (let i = 0; i < width; i++) {
        const weight = rows[h * width + i]!;
        mean[i]! += weight / heads;
        if (i >= start) columns[h]![i - start]! += weight;
      }
      for (let i = 0; i < start; i++) offer(across, i, mean[i]!, ACROSS);
      // an edge runs from the earlier token to the query that reads it
      across.to.forEach((i, k) => { best[i]!.to.push(query); best[i]!.weight.push(across.weight[k]!); });
      own.push(mean.slice(start));
    },
    take(): CoAttention {
      close();
      const counts = best.map(({ to }) => to.length);
      return {
        saliency, from: Uint32Array.from(counts.flatMap((count, i) => new Array<number>(count).fill(i))),
        to: Uint32Array.from(best.flatMap(({ to }) => to)), weight: Float32Array.from(best.flatMap(({ weight }) => weight)),
      };
    },
  };
}
