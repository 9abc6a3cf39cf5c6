import ndarray from 'ndarray';
import type { NdArray } from 'ndarray';
import ops from 'ndarray-ops';

type Array2 = NdArray<Float64Array>;
export interface Edge {
  readonly i: number;
  readonly j: number;
  readonly w: number;
}
const zeros = (...shape: number[]): Array2 => ndarray(new Float64Array(shape.reduce((a, b) => a * b, 1)), shape);
const upTo = (n: number): number[] => Array.from({ length: n }, (_, i) => i);

/**
 * Section 3.2 with whole matrices: `attention [H, n, n]`. Saliency (not clipped) and edges, an edge from another chunk
 * as (earlier token, query).
 */
export function edgesOracle(attention: Array2, chunk: number): { saliency: number[]; edges: Edge[] } {
  const [H = 0, n = 0] = attention.shape,
    mean = zeros(n, n),
    edges: Edge[] = [],
    same = (i: number, j: number): boolean => Math.floor(i / chunk) === Math.floor(j / chunk);
  for (let h = 0; h < H; h++) ops.addeq(mean, attention.pick(h, null, null));
  ops.divseq(mean, H);
  const rows = zeros(n, n);
  for (const i of upTo(n)) {
    for (const j of upTo(n)) rows.set(i, j, same(i, j) ? mean.get(i, j) : 0);
    ops.divseq(rows.pick(i, null), ops.norm2(rows.pick(i, null)) + 1e-8);
  }
  const top = (k: number, above: number, candidates: Edge[]): Edge[] =>
    candidates
      .sort((a, b) => b.w - a.w)
      .slice(0, k)
      .filter(({ w }) => w > above);
  const product = zeros(n);
  for (const i of upTo(n)) {
    edges.push(
      ...top(
        8,
        0.3,
        upTo(n)
          .filter((j) => j !== i && same(i, j))
          .map((j) => {
            ops.mul(product, rows.pick(i, null), rows.pick(j, null));
            return { i, j, w: ops.sum(product) };
          }),
      ),
    );
    edges.push(
      ...top(
        4,
        0.02,
        upTo(n)
          .filter((j) => j < i && !same(i, j))
          .map((j) => ({ i: j, j: i, w: mean.get(i, j) })),
      ),
    );
  }
  const saliency = upTo(n).map((i) =>
    upTo(H)
      .map((h) =>
        upTo(n)
          .filter((q) => same(q, i))
          .reduce((s, q) => s + attention.get(h, q, i), 0),
      )
      .sort((a, b) => b - a)
      .slice(0, 3)
      .reduce((a, b) => a + b, 0),
  );
  return { saliency, edges };
}

/** Section 3.3: sentences as lists of tokens, merged and split, over a list of all edges. */
export function trunksOracle(
  sentences: readonly (readonly number[])[],
  edges: readonly Edge[],
  maxSize: number,
  merge: number,
  either: boolean,
): number[][] {
  const cas = (a: readonly number[], b: readonly number[]): number => {
    const left = a.slice(-5),
      right = b.slice(0, 5),
      crossing = edges.filter(
        ({ i, j }) => (left.includes(i) && right.includes(j)) || (either && left.includes(j) && right.includes(i)),
      );
    return crossing.length === 0 ? 0 : crossing.reduce((s, { w }) => s + w, 0) / crossing.length;
  };
  const trunks: number[][] = [];
  let current = [...sentences[0]];
  for (const next of sentences.slice(1)) {
    if (cas(current, next) > merge && current.length + next.length <= maxSize) current.push(...next);
    else {
      trunks.push(current);
      current = [...next];
    }
  }
  trunks.push(current);
  return trunks;
}

/** Eq. 24 to 27 with a dense matrix over the trunks. */
export function centralityOracle(
  trunks: readonly (readonly number[])[],
  edges: readonly Edge[],
  steepness = 5,
): number[] {
  const m = trunks.length,
    W = zeros(m, m);
  for (const a of upTo(m))
    for (const b of upTo(m)) {
      if (a === b) continue;
      const ws = edges
        .filter(
          ({ i, j }) =>
            (trunks[a].includes(i) && trunks[b].includes(j)) || (trunks[b].includes(i) && trunks[a].includes(j)),
        )
        .map(({ w }) => w);
      const weight =
        ws.length === 0
          ? 0
          : (ws.reduce((s, w) => s + w, 0) / ws.length) * Math.sqrt(ws.length / (trunks[a].length * trunks[b].length));
      W.set(a, b, weight > 0.05 ? weight : 0);
    }
  const degree = upTo(m).map((a) => ops.sum(W.pick(a, null))),
    mean = degree.reduce((s, x) => s + x, 0) / m,
    std = Math.sqrt(degree.reduce((s, x) => s + (x - mean) ** 2, 0) / m);
  return degree.map((x) => 1 / (1 + Math.exp(-steepness * ((x - mean) / (std < 1e-8 ? 1 : std)))));
}
