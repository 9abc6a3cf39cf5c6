import type { FoldedQueryRange, ProviderEngine, QueryRange, Tensor } from '@kv/core';
import { ACROSS, attendedMost, CHUNK, flat, WITHIN } from './edges.ts';
import type { Best, CoAttention } from './edges.ts';
import { strongest } from './strongest.ts';

/** Collects co-attention over a sequence, block by block, in memory that does not grow with its length. */
export interface FoldedCollector {
  /** Processes the queries from `from` to the end of the engine's sequence. */
  fold(engine: ProviderEngine, from: number): Promise<void>;
  /** Returns the edges and saliency so far; more queries may be added. */
  take(): CoAttention;
}

/** Returns chunks of the prompt from `from` on, then of generated tokens. */
function stretches(from: number, end: number, prompt: number, chunk: number): readonly QueryRange[] {
  const out: QueryRange[] = [];
  for (let at = from; at < end; ) {
    const base = at < prompt ? 0 : prompt,
      first = base + Math.floor((at - base) / chunk) * chunk,
      last = Math.min(first + chunk, at < prompt ? Math.min(prompt, end) : end);
    out.push({ first, from: at, end: last, inside: at >= prompt });
    at = last;
  }
  return out;
}

/** Cosines of a chunk's mean attention rows: the eight largest of each row. CrystalCache, section 3.2. */
function cosines({ ops, mean }: FoldedQueryRange): readonly Tensor[] {
  if (!mean) return [];
  const [, n = 0] = mean.shape,
    unit = ops.scale(mean, ops.div(1, ops.add(ops.norm(mean), 1e-8)));
  return [ops.kernel(strongest, { x: ops.dot(ops.reshape(unit, [n, n]), unit) }, { above: WITHIN.above })];
}

/**
 * Returns a collector like `collector`, with the same edges and saliency, for an engine that reduces attention on its
 * device: O(n (k + H)) numbers come to the host.
 */
export function foldedCollector({
  prompt,
  chunk = CHUNK,
}: {
  readonly prompt: number;
  readonly chunk?: number;
}): FoldedCollector {
  const best: Best[] = [],
    saliency: number[] = [];
  /** Sums of the last chunk, to which later queries of it add: `[token][head]`. */
  let open: { readonly first: number; readonly sums: number[][] } = { first: 0, sums: [] };

  /** Visits pairs of place and weight, stored alternately, `most` pairs a row. */
  const each = (data: Float32Array, most: number, row: number, visit: (to: number, weight: number) => void): void => {
    for (let k = row * most; k < (row + 1) * most && data[2 * k + 1] > 0; k++) visit(data[2 * k], data[2 * k + 1]);
  };
  return {
    async fold(engine, from) {
      const parts = stretches(from, engine.ids.length, prompt, chunk);
      // `attentionStretches` exists: checked by the caller that makes this collector
      const read = await engine.attentionStretches!(0, parts, ACROSS, (folded) => [
        folded.received,
        folded.strongest,
        ...cosines(folded),
      ]);
      for (const [i, { first, from: start, end }] of parts.entries()) {
        const [received, across, within] = read[i],
          size = end - first,
          heads = received.length / size;
        if (open.first !== first) open = { first, sums: [] };
        for (let t = 0; t < size; t++) {
          const sums = (open.sums[t] ??= new Array<number>(heads).fill(0));
          for (let h = 0; h < heads; h++) sums[h] += received[h * size + t];
          saliency[first + t] = attendedMost([...sums]);
        }
        for (let t = start; t < end; t++) {
          const edges: Best = { to: [], weight: [] };
          if (within)
            each(within, WITHIN.most, t - first, (j, w) => {
              edges.to.push(first + j);
              edges.weight.push(w);
            });
          best.push(edges);
        }
        // an edge runs from the earlier token to the query that reads it
        for (let t = start; t < end; t++)
          each(across, ACROSS.most, t - start, (j, w) => {
            best[j].to.push(t);
            best[j].weight.push(w);
          });
      }
    },
    take: () => flat(best, saliency),
  };
}
