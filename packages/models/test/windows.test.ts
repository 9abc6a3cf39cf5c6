import { commonHeads } from '@kv/engine';
import {
  as,
  attentionAccumulated,
  attentionAccumulatedKv,
  attentionBlock,
  attentionLast,
  attentionMax,
  attentionWindow,
  compose,
  type Policy,
  type Signal,
  type WindowStatistic,
  scorer,
} from '@kv/core';
import { signalKey } from '@kv/core/engine';
import { h2o, meanAttention } from '@kv/scorers-attention';
import { topK } from '@kv/selectors-top-k';
import ndarray from 'ndarray';
import { expect, test } from 'vitest';
import { loadModel, Sequence, slotScores } from '../src/index.ts';
import { probabilities, windowOracle } from '@kv/engine-testing/attention-oracle';
import { fixture, goldenOutputs } from '@kv/model-testing/fixture';
import { emptyCaches, relative, run } from '@kv/engine-testing/run';

/** Returns a scorer whose scores are a signal's values. */
const probe = (signal: Signal): Policy =>
  compose(scorer('probe', { needs: [as('attention', signal)] }, ({ attention }) => attention)(), topK());

type Of = (rows: readonly (readonly number[])[], slot: number, seen: readonly number[]) => number;
const statistic = (w: number, of: WindowStatistic): readonly [Signal, Of] => [
  attentionWindow(w, of),
  (rows, j, seen) => windowOracle[of](rows.slice(-w), j, seen.slice(-w)),
];
/**
 * Expected value of each signal, from rows of probabilities, `[m][n]`, and the number of slots each query sees; the
 * mean or the sum over the heads of a group.
 */
const signals: readonly (readonly [Signal, Of, 'sum'?])[] = [
  [attentionLast, (rows, j) => rows.at(-1)![j]],
  [attentionWindow(4), (rows, j) => rows.slice(-4).reduce((sum, row) => sum + row[j] / 4, 0)],
  [attentionMax(4), (rows, j) => Math.max(...rows.slice(-4).map((row) => row[j]))],
  ...[4, 1, 1000].flatMap((w) =>
    (['squares', 'votes', 'normalized', 'entropy'] as const).map((of) => statistic(w, of)),
  ), // more queries than there are
  [attentionAccumulated, (rows, j) => rows.reduce((sum, row) => sum + row[j], 0)],
  [attentionBlock, (rows, j) => rows.slice(-10).reduce((sum, row) => sum + row[j], 0)],
  [attentionAccumulatedKv, (rows, j) => rows.reduce((sum, row) => sum + row[j], 0), 'sum'],
];

test.each(['mistral', 'gemma2', 'qwen2'])(
  'signals of %s are those of its own attention: windows, scale and soft cap',
  async (name) => {
    const model = await loadModel(fixture(name)),
      { ids } = goldenOutputs(name, '.')[0],
      { attention } = model.config,
      { queryHeads: H, kvHeads: G, headDim: d } = commonHeads(model.config);
    const caches = emptyCaches(model.decoder),
      queries: Float32Array[] = [];
    await run(model.decoder, caches, ids, { watch: (l, { q }) => void (queries[l] = q) });
    const policies = signals.map(([signal]) => probe(signal)),
      kv = signals.length - 1,
      block = kv - 1;
    /** All signals; sums that no policy reads by query head, together with those of a block; and the former alone. */
    const runs = [[...signals.keys()], [block, kv], [kv]].map((read) => ({ read, sequence: new Sequence(model) }));
    for (const { read, sequence } of runs)
      await sequence.prefill(ids, { policies: read.map((i) => policies[i]), block: 10 });
    /** Number of slots: a windowed layer holds what the newest token sees. */
    const slots = attention.windows.map((window) => Math.min(window, ids.length)),
      all = slots.reduce((a, b) => a + b);
    expect(runs.map(({ sequence }) => sequence.memory.ledger.entry('statistics').live / (4 * all))).toEqual([
      2 * H,
      H + G,
      G,
    ]);
    await expect(slotScores(runs[2].sequence, probe(attentionAccumulated), 0)).rejects.toThrow(
      'sequence: the signal attention.accumulated was not remembered',
    );
    await expect(slotScores(runs[0].sequence, probe(attentionWindow(4, 'cubes' as never)), 0)).rejects.toThrow(
      "sequence: no signal attention.window(of=cubes,w=4): expected 'of' to be one of squares, votes, normalized, entropy, got 'cubes'",
    );
    for (const [l, cache] of caches.entries()) {
      const heads = Array.from({ length: G }, (_, g) => ({
        positions: [...ids.keys()],
        values: [],
        keys: ids.map((_, j) => [...cache.read('keys', g).subarray(j * d, (j + 1) * d)]),
      }));
      const window = attention.windows[l],
        first = ids.length - slots[l],
        rows = probabilities(
          ndarray(Float64Array.from(queries[l]), [H, ids.length, d]),
          [...ids.keys()],
          heads,
          (_, position, query) => position > query - window,
          attention,
        );
      /** Queries of a window look at the slots that are left; sums have what each query saw at its time. */
      const left = probabilities(
        ndarray(Float64Array.from(queries[l]), [H, ids.length, d]),
        [...ids.keys()],
        heads,
        (_, position, query) => position >= first && position > query - window,
        attention,
      );
      const seen = ids.map((_, i) => Math.max(0, i + 1 - Math.max(first, i + 1 - window)));
      for (const { read, sequence } of runs)
        for (const i of read) {
          const [signal, of, together] = signals[i],
            looked = signal.id === 'attention.accumulated' || signal.id === 'attention.block' ? rows : left;
          const want = Array.from({ length: G }, (_, g) =>
            Array.from({ length: slots[l] }, (_, i) => first + i).map((j) =>
              looked.slice((g * H) / G, ((g + 1) * H) / G).reduce(
                (sum, each) =>
                  sum +
                  of(
                    each.map((row) => [...row.data]),
                    j,
                    seen,
                  ) /
                    (together ? 1 : H / G),
                0,
              ),
            ),
          );
          const got = await slotScores(sequence, policies[i], l);
          for (const [g, row] of want.entries())
            expect(relative(got[g], row), `${signalKey(signal)}, layer ${l}`).toBeLessThan(1e-5);
        }
    }
    for (const { sequence } of runs) sequence.destroy();
  },
);

test.each(['mistral', 'gemma2', 'qwen2'])(
  '%s keeps by sums of KV heads what it keeps by those of query heads, at their share of the memory',
  async (name) => {
    const model = await loadModel(fixture(name)),
      { ids } = goldenOutputs(name, '.')[0],
      { queryHeads: H, kvHeads: G } = commonHeads(model.config);
    for (const make of [h2o, meanAttention]) {
      const ran = await Promise.all(
          (['query', 'kv'] as const).map(async (rows) => {
            const policy = compose(make({ rows }), topK()),
              sequence = new Sequence(model),
              kept: unknown[] = [];
            await sequence.prefill(ids, { policy, budget: 9, block: 7 });
            for (let i = 0; i < 8; i++) {
              await sequence.step(ids[i], 3);
              kept.push(sequence.kept());
            }
            const fork = sequence.fork(),
              scores = await slotScores(fork, policy, 1),
              [statistics] = [sequence.memory.ledger.entry('statistics').live];
            for (const each of [sequence, fork]) {
              each.destroy();
              expect([each.memory.ledger.live, each.memory.ledger.allocated]).toEqual([0, 0]);
            }
            return { kept, scores, statistics };
          }),
        ),
        [query, kv] = ran as [(typeof ran)[0], (typeof ran)[0]];
      expect(kv.kept).toEqual(query.kept);
      for (const [g, row] of query.scores.entries()) expect(relative(kv.scores[g], row)).toBeLessThan(1e-6);
      expect(query.statistics / kv.statistics).toBe(H / G);
    }
  },
);

test.each(['snapkv(window=4)', 'h2o', 'h2o(rows=kv)', 'tova', 'keydiff'])(
  'what %s reads is remembered where it is named without a budget',
  async (text) => {
    const model = await loadModel(fixture('qwen2')),
      { ids } = goldenOutputs('qwen2', '.')[0],
      kept = await Promise.all(
        [{ policy: text }, { policies: [text] }].map(async (options) => {
          const sequence = new Sequence(model);
          await sequence.prefill(ids, options);
          await sequence.evict(text, 7);
          return sequence.kept();
        }),
      );
    expect(kept[0]).toEqual(kept[1]);
  },
);
