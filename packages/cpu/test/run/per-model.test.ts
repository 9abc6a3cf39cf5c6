import fc from 'fast-check';
import { expect, test } from 'vitest';
import { attentionLast, compose, perModel, scorer } from '@kv/core';
import { cpu, readCpu } from '@kv/cpu';
import { compile, emptyDraft, runSteps } from '@kv/core/engine';
import { numbers } from '../ops/arrays.ts';
import { layer } from './engine.ts';

const { ops } = cpu;
const scored = scorer('scored', { needs: [attentionLast] }, ({ attention }) => attention);
const cases = fc.record({
  layers: fc.integer({ min: 1, max: 4 }),
  heads: fc.integer({ min: 1, max: 3 }),
  group: fc.integer({ min: 1, max: 3 }),
  slots: fc.integer({ min: 1, max: 8 }),
  aligned: fc.boolean(),
  windows: fc.boolean(),
  seed: fc.nat(2 ** 30),
});

test.each(['max', 'mean'] as const)(
  'perModel(kind=%s): of every token, over the rows that hold all tokens, else over those that hold it, in float64',
  (kind) =>
    fc.assert(
      fc.property(cases, ({ layers, heads, group, slots, aligned, windows, seed }) => {
        const next = numbers(seed),
          length = slots + 3;
        const positionsOf = (n: number): number[] =>
          Array.from({ length }, (_, p) => [next(), p] as const)
            .sort((a, b) => a[0] - b[0])
            .slice(0, n)
            .map(([, p]) => p)
            .sort((a, b) => a - b);
        const model = Array.from({ length: layers }, () => {
          const some = (): number => 1 + Math.floor(((next() + 1) / 2) * slots * 0.999),
            all = Array.from({ length: slots }, (_, p) => p),
            window = all.slice(next() < 0 ? 0 : -some()),
            one = windows ? window : positionsOf(slots),
            held = Array.from({ length: heads }, () =>
              aligned ? one : windows && next() < 0 ? window : positionsOf(some()),
            ),
            wide = Math.max(...held.map(({ length: n }) => n)),
            scores = Array.from({ length: heads * group }, () => Array.from({ length: wide }, () => next()));
          return { held, scores, wide };
        });
        const places = model.map(({ held, scores, wide }, l) => {
          const lengths = held.map((p) => p.length);
          const ragged = (each: number) =>
            aligned
              ? undefined
              : ops.from(
                  {
                    data: Uint32Array.from(lengths.flatMap((n) => new Array<number>(each).fill(n))),
                    shape: [heads * each],
                  },
                  'u32',
                );
          return layer(
            {
              'attention.last': ops.from(
                { data: Float32Array.from(scores.flat()), shape: [heads * group, wide] },
                'f32',
                ragged(group),
              ),
              positions: ops.from(
                {
                  data: Uint32Array.from(held.flatMap((p) => [...p, ...new Array<number>(wide - p.length).fill(0)])),
                  shape: [heads, wide],
                },
                'u32',
                ragged(1),
              ),
            },
            {
              layer: l,
              layers,
              kvHeads: heads,
              queryHeads: heads * group,
              slots: wide,
              length,
              aligned,
              selectRows: heads,
            },
          );
        });
        const drafts = runSteps(
          compile(compose(scored(), perModel({ kind }))).steps,
          places,
          ops,
          places.map((place) => emptyDraft(place, ops)),
        );
        const rows = model.flatMap(({ held, scores }) =>
            scores.map((row, h) => new Map(held[Math.floor(h / group)].map((p, i) => [p, row[i]]))),
          ),
          somewhere = new Set(rows.flatMap((row) => [...row.keys()])),
          complete = rows.filter((row) => row.size === somewhere.size),
          scoring = complete.length > 0 ? complete : rows;
        for (const [l, { held }] of model.entries()) {
          const { data, shape } = readCpu(drafts[l].scores!); // steps score
          expect(shape[0]).toBe(aligned ? 1 : heads);
          for (let r = 0; r < shape[0]; r++)
            for (const [i, p] of held[r].entries()) {
              const all = scoring.flatMap((row) => row.get(p) ?? []),
                want = kind === 'max' ? Math.max(...all) : all.reduce((a, b) => a + b, 0) / all.length;
              expect(Math.abs(data[r * shape[1] + i] - want)).toBeLessThan(1e-6);
            }
        }
      }),
    ),
);
