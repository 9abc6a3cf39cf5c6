import { expect, test } from 'vitest';
import { retain } from '@kv/cpu';
import type { Policy, Rope, Tokens } from '@kv/core';
import { outstandingSentences, parsePolicy } from '../src/index.ts';

const LAYERS = 2,
  HEADS = 2,
  CHANNELS = 6,
  SINKS = 2,
  JITTER = 0.01;

/** Numbers from -1 to 1, by seed (mulberry32). */
function noise(seed: number): () => number {
  let a = seed;
  return () => {
    a = (a + 0x6d2b79f5) | 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return (((t ^ (t >>> 14)) >>> 0) / 2 ** 32) * 2 - 1;
  };
}

const angle = (position: number, pair: number): number => position / 7 ** pair;
const rope: Rope = {
  rotary: CHANNELS,
  angles: (positions) => {
    const all = Array.from(positions).flatMap((p) => [0, 1, 2].map((pair) => angle(p, pair)));
    return { cos: Float32Array.from(all, Math.cos), sin: Float32Array.from(all, Math.sin) };
  },
};

interface Scene {
  readonly sizes: readonly number[];
  /** Before rotation, `[layer][head][slot][channel]`. */
  readonly keys: readonly (readonly (readonly (readonly number[])[])[])[];
}
/** Sentences of 3 to 8 tokens with keys that lie near one plane; those of sentence `odd` lie off it, but for its first token. */
function sceneOf(seed: number, odd?: number): Scene {
  const next = noise(seed),
    sizes = Array.from({ length: 9 }, () => 3 + Math.floor(3 * (next() + 1)) - (next() > 0.99 ? 1 : 0)),
    off = sizes.flatMap((size, s) => Array.from({ length: size }, (_, i) => s === odd && i > 0));
  return {
    sizes,
    keys: Array.from({ length: LAYERS }, () =>
      Array.from({ length: HEADS }, () =>
        off.map((far) => {
          const along = [next(), next()];
          return Array.from({ length: CHANNELS }, (_, c) => along[c % 2] * (1 + c) + (far ? 0.5 : 0.05) * next() + 0.3);
        }),
      ),
    ),
  };
}
const rotated = (key: readonly number[], position: number): number[] =>
  key.map((x, c) => {
    const pair = c % 3,
      [cos, sin] = [Math.cos(angle(position, pair)), Math.sin(angle(position, pair))];
    return c < 3 ? x * cos - key[c + 3] * sin : x * cos + key[c - 3] * sin;
  });
async function keptOf(policy: Policy, { sizes, keys }: Scene, budget: number): Promise<number[][][]> {
  const words = sizes.flatMap((size) => Array.from({ length: size }, (_, i) => (i === size - 1 ? '.' : ' word'))),
    n = words.length;
  let end = 0;
  const tokens: Tokens = {
    ids: words.map((_, i) => i),
    text: words.join(''),
    offsets: words.map((word) => [end, (end += word.length)]),
  };
  const { slots } = await retain(
    policy,
    {
      queryHeads: HEADS,
      tokens,
      layers: keys.map((heads) => ({
        keys: {
          data: Float32Array.from(heads.flat().flatMap((key, i) => rotated(key, i % n))),
          shape: [HEADS, n, CHANNELS],
        },
        signals: { rope },
      })),
    },
    { budget },
  );
  return slots.map((heads) => heads.map((set) => [...set]));
}

/** xᵀ (XᵀX + jitter I)^-1 x of every centred row, by elimination in f64. */
function leverages(rows: readonly (readonly number[])[]): number[] {
  const mean = rows[0].map((_, c) => rows.reduce((sum, row) => sum + row[c], 0) / rows.length),
    x = rows.map((row) => row.map((value, c) => value - mean[c]));
  return x.map((row) => {
    const m = row.map((_, a) => [
      ...row.map((__, b) => x.reduce((sum, r) => sum + r[a] * r[b], a === b ? JITTER : 0)),
      row[a],
    ]);
    for (let a = 0; a < m.length; a++)
      for (let b = 0; b < m.length; b++) {
        if (a === b) continue;
        const share = m[b][a] / m[a][a];
        m[b] = m[b].map((value, c) => value - share * m[a][c]);
      }
    return row.reduce((sum, value, a) => sum + (value * m[a][row.length]) / m[a][a], 0);
  });
}
const mean = (xs: readonly number[]): number => xs.reduce((a, b) => a + b, 0) / xs.length;
/** Best units first, those with a sink before all; the last one's best slots fill the room. */
function oracle({ sizes, keys }: Scene, budget: number, maxSize: number, kind: 'max' | 'mean'): number[] {
  const heads = keys.flat().map((rows) => {
    const h = leverages(rows),
      spread = Math.sqrt(mean(h.map((x) => (x - mean(h)) ** 2)));
    return h.map((x) => (x - mean(h)) / spread);
  });
  const scores = heads[0].map((_, i) => {
    const all = heads.map((h) => h[i]);
    return kind === 'max' ? Math.max(...all) : mean(all);
  });
  let at = 0;
  const units = sizes.flatMap((size) => {
    const parts = Math.ceil(size / maxSize),
      from = at;
    at += size;
    return Array.from({ length: parts }, (_, k) =>
      Array.from({ length: size }, (__, i) => i)
        .filter((i) => Math.floor((i * parts) / size) === k)
        .map((i) => from + i),
    );
  });
  const worth = (unit: readonly number[]): number => (unit[0] < SINKS ? Infinity : mean(unit.map((i) => scores[i])));
  const kept = new Set(Array.from({ length: SINKS }, (_, i) => i));
  for (const unit of [...units].sort((a, b) => worth(b) - worth(a))) {
    const more = unit.filter((i) => !kept.has(i)).sort((a, b) => scores[b] - scores[a]);
    for (const i of more.slice(0, budget - kept.size)) kept.add(i);
    if (kept.size === budget) break;
  }
  return [...kept].sort((a, b) => a - b);
}

test.each(['max', 'mean'] as const)('kind=%s: all keep the sentences that an oracle in f64 chooses', async (kind) => {
  for (let seed = 1; seed <= 25; seed++)
    for (const [budget, maxSize] of [
      [12, 24],
      [20, 24],
      [20, 9],
    ] as const) {
      const scene = sceneOf(seed, seed % 2 === 0 ? seed % 9 : undefined),
        want = oracle(scene, budget, maxSize, kind);
      expect(await keptOf(outstandingSentences({ maxSize, sinks: SINKS, kind }), scene, budget)).toEqual(
        Array.from({ length: LAYERS }, () => Array.from({ length: HEADS }, () => want)),
      );
    }
});

/** Of how many scenes every token of the sentence that lies off the others' plane stays. */
async function staying(policy: Policy): Promise<number> {
  let whole = 0;
  for (let seed = 100; seed < 120; seed++) {
    const odd = 1 + (seed % 8),
      scene = sceneOf(seed, odd),
      from = scene.sizes.slice(0, odd).reduce((a, b) => a + b, 0),
      kept = await keptOf(policy, scene, 20),
      told = Array.from({ length: scene.sizes[odd] }, (_, i) => from + i);
    if (kept.flat().every((set) => told.every((i) => set.includes(i)))) whole++;
  }
  return whole;
}
test('a sentence whose keys lie off those of the rest stays whole, and each piece is needed for that', async () => {
  expect(await staying(outstandingSentences({ sinks: SINKS }))).toBe(20);
  for (const without of [
    'leverage ∘ zScore ∘ perModel ∘ mandatory(sinks=2) ∘ topK',
    'leverage ∘ zScore ∘ mandatory(sinks=2) ∘ topK',
    'knorm ∘ zScore ∘ perModel ∘ mandatory(sinks=2) ∘ sentences(maxSize=24,top=0) ∘ wholeUnits(last=fill)',
    'random ∘ perModel ∘ mandatory(sinks=2) ∘ sentences(maxSize=24,top=0) ∘ wholeUnits(last=fill)',
  ])
    expect(await staying(parsePolicy(without))).toBeLessThan(20);
});
