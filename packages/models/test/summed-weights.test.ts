import { referenceEngine } from '@kv/engine';
import { fixture } from '@kv/model-testing/fixture';
import { parsePolicy } from '@kv/policies';
import fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import { cpuRuntime, loadModel, Sequence, slotScores } from '../src/index.ts';

const reference = await loadModel(fixture('llama'), { engine: referenceEngine() }),
  sunk = await loadModel(fixture('granite_swa'), { engine: referenceEngine() }),
  engines = [
    [reference, await loadModel(fixture('llama'), { runtime: cpuRuntime({ exact: true, threads: 2 }) })],
    [sunk, await loadModel(fixture('granite_swa'), { runtime: cpuRuntime({ exact: true, threads: 1 }) })],
  ] as const;
afterAll(() => {
  for (const model of engines.flat()) model.destroy();
});

/** A scorer that sums weights, what may divide slots over heads unevenly, and a view that may hide slots from a token. */
const policies = fc
  .record({
    scorer: fc.constantFrom(
      'h2o(recent=2)',
      'h2o(recent=2,rows=kv)',
      'scissorhands(recent=2)',
      'h2o(recent=2) ∘ caote',
    ),
    uneven: fc.constantFrom('', ' ∘ adaKV', ' ∘ adaKV(safeguard=0)'),
    view: fc.constantFrom(
      ...[
        '',
        '',
        '',
        '',
        '',
        '',
        ' ∘ quest(page=4,slots=8)',
        ' ∘ doubleSparsity(channels=4,window=4,slots=8)',
        ' ∘ psaw(phi=0.5)',
      ],
      ...[' ∘ topKOracle(slots=8)', ' ∘ cpe(budget=16,sinks=2,local=4,block=2)', ' ∘ hshare(slots=12,sinks=2,local=4)'],
    ),
  })
  .map(({ scorer, uneven, view }) => `${scorer}${uneven} ∘ topK${view}`);
const turn = fc.oneof(
    fc.record({ steps: fc.constantFrom(1, 2, 5, 30) }),
    fc.record({ append: fc.integer({ min: 2, max: 9 }) }),
    fc.record({ budget: fc.integer({ min: 14, max: 24 }) }),
    fc.constant({ fork: true } as const),
  ),
  lives = fc.record({
    model: fc.constantFrom(0, 0, 0, 1),
    text: policies,
    prompt: fc.integer({ min: 16, max: 40 }),
    block: fc.constantFrom(7, 16, 64),
    turns: fc.array(turn, { minLength: 1, maxLength: 6 }),
  });

test('sums of weights over what each head holds and sees are the same fused and layer by layer', async () => {
  await fc.assert(
    fc.asyncProperty(lives, async ({ model, text, prompt, block, turns }) => {
      const policy = parsePolicy(text),
        ids = Array.from({ length: 200 }, (_, i) => (i * 37 + 11) % 64);
      let sequences = engines[model].map((one) => new Sequence(one)),
        at = prompt;
      const each = async (run: (sequence: Sequence) => Promise<unknown>): Promise<void> => {
        for (const sequence of sequences) await run(sequence);
      };
      const look = async (): Promise<void> => {
        const [want, got] = sequences;
        expect(got.kept()).toEqual(want.kept());
        for (const [l, heads] of want.kept().entries()) {
          const [ours, theirs] = [await slotScores(got, policy, l), await slotScores(want, policy, l)];
          for (const [g, { length }] of heads.entries())
            for (let i = 0; i < length; i++)
              expect(Math.abs(ours[g][i] - theirs[g][i]), `${text}: layer ${l}, head ${g}, slot ${i}`).toBeLessThan(
                1e-4 * (1 + Math.abs(theirs[g][i])),
              );
        }
      };
      await each((sequence) => sequence.prefill(ids.slice(0, prompt), { policy, budget: 16, block }));
      for (const next of turns) {
        const { layeredPasses } = sequences[1].memory.caches.context.counters;
        if ('steps' in next)
          for (let i = 0; i < next.steps; i++, at++) await each((sequence) => sequence.step(ids[at % 200]));
        if ('steps' in next)
          expect(sequences[1].memory.caches.context.counters.layeredPasses, text).toBe(layeredPasses);
        if ('append' in next) await each((sequence) => sequence.append(ids.slice(at, at + next.append)));
        if ('append' in next) at += next.append;
        if ('budget' in next) await each((sequence) => sequence.step(ids[at % 200], next.budget));
        if ('budget' in next) at++;
        if ('fork' in next) {
          const forks = sequences.map((sequence) => sequence.fork());
          await each(async (sequence) => sequence.destroy());
          sequences = forks;
        }
        await look();
      }
      await each(async (sequence) => sequence.destroy());
    }),
    { numRuns: Math.ceil((40 * (fc.readConfigureGlobal().numRuns ?? 100)) / 100) },
  );
}, 120_000);
