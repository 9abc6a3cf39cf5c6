import { expect, test } from 'vitest';
import { parsePolicy } from '@kv/policies';
import { Sequence } from '../../src/index.ts';
import type { ObservedRow } from '../../src/index.ts';
import { llamaGolden } from './goldens.ts';

const { model } = await llamaGolden(),
  ids = (count: number): number[] => Array.from({ length: count }, (_, i) => (i * 37) % model.config.vocab);

/** Feeds a prompt, tokens, another prompt and tokens; returns what heads saw of the last. */
async function run(text: string, between: (sequence: Sequence) => Promise<void>, more = 4): Promise<ObservedRow[]> {
  const sequence = new Sequence(model),
    rows: ObservedRow[] = [],
    policy = parsePolicy(text);
  await sequence.prefill(ids(120), { policy });
  for (const token of ids(3)) await sequence.step(token);
  await between(sequence);
  sequence.decodeUnder(policy);
  sequence.memory.caches.observers!.show({ row: (row) => rows.push(row), conclude: () => ({}) });
  for (const token of ids(more)) await sequence.step(token);
  sequence.destroy();
  return rows;
}
const sees = (rows: readonly ObservedRow[], from: number, to: number): boolean[] =>
  rows.map(({ kept, query }) => kept.some((slot) => slot >= from && slot < Math.min(to, query - 7)));
const policies = [
  'cpe(threshold=-1,phi=1,psi=1,sinks=2,local=8,budget=60)',
  'cpe(threshold=-1,phi=1,psi=1,sinks=2,local=8,budget=60,compare=keys)',
  'hshare(query=8,heads=0,layers=0,sinks=2,local=8,slots=60,channels=8)',
  'hshare(query=8,sinks=2,local=8,measure=1,slots=60,channels=8)',
];
test.each(policies)('%s sees a second prompt from its first token on', async (text) => {
  const rows = await run(text, (sequence) => sequence.prefill(ids(80), { policy: parsePolicy(text) }));
  // heads choose for themselves, and some may want none of it
  expect(sees(rows, 123, 203).filter(Boolean).length).toBeGreaterThan(rows.length / 2);
});
test.each(policies)('%s sees what was generated under another policy', async (text) => {
  const rows = await run(text, async (sequence) => {
    sequence.decodeUnder(parsePolicy('full'));
    for (const token of ids(80)) await sequence.step(token);
  });
  expect(sees(rows, 123, 203).filter(Boolean).length).toBeGreaterThan(rows.length / 2);
});
test('hshare that begins late measures over the first tokens that it acts on, and shares then', async () => {
  const text = 'hshare(query=1,layers=0,measure=3,sinks=2,local=8,slots=60,channels=8)',
    sequence = new Sequence(model),
    totals: number[] = [];
  await sequence.prefill(ids(100), { policy: parsePolicy(text) });
  sequence.decodeUnder(parsePolicy('full'));
  for (const token of ids(20)) await sequence.step(token);
  sequence.decodeUnder(parsePolicy(text));
  for (const token of ids(8)) {
    await sequence.step(token);
    totals.push(sequence.memory.caches.observers!.total('state.hshare.retrievals')!);
  }
  const all = model.config.layers * model.config.queryHeads;
  expect(totals.map((total, i) => total - (totals[i - 1] ?? 0))).toEqual([
    ...new Array<number>(3).fill(all),
    ...new Array<number>(5).fill(all / 2),
  ]);
  sequence.destroy();
});
