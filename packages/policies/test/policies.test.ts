import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compile, traceOps } from '@kv/core/engine';
import { cpu } from '@kv/cpu';
import type { Policy } from '@kv/core';
import { scene, sceneSpecs } from '@kv/laws';
import { policy as policyOf } from '../src/index.ts';
import { POLICIES } from './names.ts';
import { keptOn } from './on-scene.ts';

/** Options that let a policy run on a cache of at most 12 slots. */
const SMALL: Readonly<Record<string, Readonly<Record<string, number | string>>>> = {
  snapkv: { window: 2, kernel: 3 },
  snapkvCaote: { window: 2, kernel: 3 },
  snapkvFastCaote: { window: 2, kernel: 3 },
  pyramidkv: { window: 2, kernel: 3 },
  pyramidal: { window: 2, kernel: 3 },
  chunkkv: { size: 1, window: 2, kernel: 3 },
  criticalkv: { window: 2, kernel: 3 },
  adakv: { window: 2, kernel: 3, safeguard: 1 },
  lagkv: { sinks: 1, lag: 2 },
  cake: { window: 2 },
  dynamickv: { window: 2, kernel: 3 },
  rkv: { window: 2, kernel: 3 },
  defensivekv: { window: 2, kernel: 3 },
  layerDefensivekv: { window: 2, kernel: 3 },
  scissorhands: { window: 2, recent: 1 },
  snapkvMerge: { window: 2, kernel: 3 },
  expectedAttention: { window: 4, future: 2, sinks: 1 },
  expectedAttentionStats: { future: 2, sinks: 1 },
  cap: { window: 4, future: 2, sinks: 1 },
  finch: { question: 2 },
  dropkv: { window: 2 },
  entropyChunkkv: { size: 3, low: 1, window: 2, kernel: 3 },
  compactor: { chunk: 4, window: 16, sinks: 1, recent: 1 },
  alpha: { window: 2, kernel: 3 },
  h2oJoint: { recent: 2 },
  crystalcache: { sinks: 1, recent: 1, maxSize: 4 },
  crystalcacheBreath: { sinks: 1, recent: 1, maxSize: 4 },
  streaming: { sinks: 2 },
  streamingRerotated: { sinks: 2 },
  h2o: { recent: 2 },
  h2oCaote: { recent: 2 },
  h2oFastCaote: { recent: 2, over: 'block' },
  taFast: { slots: 2, reach: 2 },
  fullTa: { slots: 2, reach: 2 },
};
const evicting = POLICIES.map((name) => [name, policyOf(name, SMALL[name])] as const).filter(
  ([, policy]) => compile(policy).evicts,
);

describe.each(evicting)('%s', (name, policy) => {
  // heads share the slots of a layer, or layers those of the model: rows shorter than their share leave some over
  const shares = ['defensivekv', 'layerDefensivekv', 'kvzipModelWide', 'kvcompose', 'cake', 'dynamickv'].includes(name);
  const fewer = name.startsWith('crystalcache') ? 2 : 0; // a unit that would keep less than three slots goes whole
  const onLayers = (check: (layer: ReturnType<typeof scene>['layers'][number], kept: number[][]) => void): void =>
    fc.assert(
      fc.property(sceneSpecs(), (spec) => {
        for (const layer of scene(spec).layers) {
          const roomy = {
            ...layer,
            at: {
              ...layer.at,
              budget: Math.max(layer.at.budget, compile(policy).minSlots(layer.at.slots, layer.at.budget)),
            },
          };
          check(roomy, keptOn(policy, roomy));
        }
      }),
      { numRuns: 40 },
    );

  test('keeps min(B, n) slots of every head, ascending', () => {
    onLayers(({ at, lengths }, kept) =>
      kept.forEach((set, g) => {
        if (!shares) {
          const most = Math.min(at.budget, lengths[g]);
          expect(set.length).toBeLessThanOrEqual(most);
          expect(set.length).toBeGreaterThanOrEqual(most - fewer);
        }
        expect(set).toEqual([...new Set(set)].sort((a, b) => a - b).filter((i) => i < lengths[g]));
      }),
    );
  });

  test('runs where every host read throws, with the same slots', () => {
    onLayers((layer, kept) => {
      const { ops, reveal } = traceOps(cpu);
      expect(keptOn(policy, layer, ops, reveal)).toEqual(kept);
    });
  });
});

const reading = (policy: Policy): string[] =>
  compile(policy)
    .needs.filter((s) => s.cost !== 'free')
    .map((s) => s.id);
test('what costs a pass is what reads attention', () => {
  const free = POLICIES.filter((name) => reading(policyOf(name)).length === 0);
  expect(free.sort()).toEqual(
    [
      'full',
      'streaming',
      'streamingRerotated',
      'random',
      'knorm',
      'keydiff',
      'lagkv',
      'cur',
      'expectedAttention',
      'capkv',
      'dropkv',
      'compactor',
      'outstandingSentences',
      'phases',
      'leverage',
      'rkv',
      'quest',
      'doubleSparsity',
      'topKOracle',
      'hshare',
      'cpe',
      'rarity',
      'taFast',
    ].sort(),
  );
});

test('full evicts nothing', () => {
  const full = policyOf('full');
  expect([compile(full).evicts, compile(full).steps, full.label]).toEqual([false, [], 'full']);
});
