import { kv } from './terminal.ts';
import { fileURLToPath } from 'node:url';
import { compile } from '@kv/core/engine';
import { sumOf } from '@kv/core/shared';
import { slotBytes, slotHeads, slotSizes, tokenBytes, commonHeads } from '@kv/engine';
import { generate, loadModel, Sequence } from '@kv/models';
import { parsePolicy, policy as named } from '@kv/policies';
import { expect, test } from 'vitest';
import { deviceRows } from '../src/explain/device-table.ts';
import { predict } from '../src/explain/predict.ts';
import { SHAPES } from '../src/explain/shapes.ts';

const fixture = (name: string): string =>
  fileURLToPath(new URL(`../../../packages/model-testing/fixtures/${name}`, import.meta.url));
const ids = Array.from({ length: 40 }, (_, i) => 3 + ((7 * i * i + 11 * i) % 61));

test.each([
  ['gemma3', 'q8', '6 of 7 layers have a sliding window of 8 and never hold more slots than that'],
  ['mistral', 'f16', '2 of 2 layers have a sliding window of 6 and never hold more slots than that'],
  ['llama', 'f32', undefined],
  ['llama', 'q8', undefined],
  ['qwen3_5', 'q8', undefined],
  ['gemma4', 'q8', '2 of 3 layers have a sliding window of 7 and never hold more slots than that'],
] as const)(
  'slots and bytes of %s in %s are those of a run: a window holds no more than it sees',
  async (name, form, note) => {
    const model = await loadModel(fixture(name), { cache: form });
    for (const [policy, budget] of [
      [named('snapkv', { window: 4 }), 12],
      [named('h2o', { recent: 2 }), 5],
      [named('keydiff'), 9],
      [named('snapkvCaote', { window: 4 }), 12],
      [named('full'), 40],
    ] as const) {
      const { evicts } = compile(policy),
        said = await predict(compile(policy), model.config, ids.length, budget, form);
      const sequence = new Sequence(model);
      await sequence.prefill(ids, { policy, ...(evicts && { budget }), forget: true });
      const { cache, ledger } = sequence.memory,
        kept = sequence.kept().map((heads) => heads.map((positions) => positions.length)),
        { bytes } = said;
      expect([said.budgets, said.cache]).toEqual([kept, { form, bytesPerToken: cache.bytesPerToken }]);
      expect([bytes.layerStates, bytes.after, bytes.peak, bytes.decoded]).toEqual([
        ledger.entry('layer states').live,
        cache.liveBytes,
        cache.peakBytes,
        ledger.entry('decoded').peak,
      ]);
      const heads = slotHeads(model.config);
      expect(cache.liveBytes).toBe(sumOf(kept.map((of, l) => sumOf(of) * slotBytes(form, heads[l].headDim))));
      sequence.destroy();
      expect(said.notes.filter((line) => line.includes('sliding'))).toEqual(note === undefined ? [] : [note]);
    }
    model.destroy();
  },
);

test.each([
  ['llama', 'kvcompose', 'once more'],
  ['llama', 'kvzip | topK', 'with an instruction'],
  ['llama', 'crystalcache(recent=8)', 'layer by layer'],
  ['gemma4', 'kvcompose', 'once more'],
] as const)('the peak counts the copy that a second pass fills: %s, %s', async (name, text, fed) => {
  const model = await loadModel(fixture(name), { cache: 'q8' }),
    policy = parsePolicy(text),
    { bytes, cache } = await predict(compile(policy), model.config, ids.length, '40%', 'q8'),
    sequence = new Sequence(model);
  await sequence.prefill(ids, { policy, budget: '40%' });
  const { ledger, cache: used } = sequence.memory;
  expect(used.peakBytes).toBeGreaterThan(bytes.before);
  expect(ledger.peak).toBeGreaterThanOrEqual(used.peakBytes);
  expect(ledger.peakAllocated).toBeGreaterThanOrEqual(ledger.peak);
  if (fed === 'once more') expect(bytes.peak).toBe(used.peakBytes);
  // an instruction has about as many tokens as foreseen; a copy of the first layer may be made before the last one is full
  else expect(Math.abs(bytes.peak - used.peakBytes)).toBeLessThan(ids.length * cache.bytesPerToken);
  expect([ledger.entry('copies').live, ledger.entry('cache').live]).toEqual([0, used.liveBytes]);
  sequence.destroy();
  expect(ledger.allocated).toBe(0);
  model.destroy();
});

test.each([12, 64])('a ring of %s queries holds no more than a shorter prompt has', async (window) => {
  const model = await loadModel(fixture('llama')),
    policy = parsePolicy(`snapkv(window=${window}) | topK`),
    { bytes } = await predict(compile(policy), model.config, ids.length, '100%', 'f32'),
    sequence = new Sequence(model);
  await sequence.prefill(ids, { policy, budget: '100%' });
  expect(bytes.rings).toBe(sequence.memory.ledger.entry('rings').live);
  sequence.destroy();
  model.destroy();
});

test('layers that read the slots of another are named, and what a score counts', async () => {
  const model = fixture('gemma4'),
    said = await kv(['explain', 'tova', '--model', model, '--length', '60', '--budget', '25%'], { columns: 1000 }),
    traced = await kv([
      'trace',
      '--model',
      model,
      '--prompt',
      'the cat, a thing',
      '--policy',
      'tova',
      '--budget',
      '50%',
    ]);
  expect(said.stdout).toContain(
    '3 of 8 layers keep slots, and the policy sees these alone: layers 3-4 and 6 read the slots of layer 1; layers 5 and 7 read the slots of layer 2; a score counts the queries of all that read a slot',
  );
  expect(traced.stdout).toContain(
    'The layers counted here are the 3 of 8 that keep slots; layers 3-4 and 6 read the slots of layer 1; layers 5 and 7 read the slots of layer 2.',
  );
});

test.each([
  ['llama', 'f32', 'levels(f16=0.25,q8=0.75)'],
  ['llama', 'q8', 'levels(f16=0.25,q8=0.75)'],
  ['gemma3', 'f16', 'levels(f32=0.5,q8=0.5)'],
  ['mistral', 'f32', 'levels(f16=1)|levels(f32=0.4,q8=0.6)'],
] as const)('bytes of slots at levels are those of a run, rounded up: %s in %s', async (name, form, demoted) => {
  const model = await loadModel(fixture(name), { cache: form }),
    policy = parsePolicy(`snapkv(window=4)|topK|${demoted}`),
    compiled = compile(policy);
  for (const budget of ['100%', '50%', 12, { bytes: 9000 }] as const) {
    const { bytes, budgets, otherForms, operations, ...said } = await predict(
        compiled,
        model.config,
        ids.length,
        budget,
        form,
      ),
      sequence = new Sequence(model);
    await sequence.prefill(ids, { policy, budget, forget: true });
    const { liveBytes, peakBytes } = sequence.memory.cache,
      heads = model.config.layers * commonHeads(model.config).kvHeads;
    expect(budgets).toEqual(sequence.kept().map((of) => of.map((positions) => positions.length)));
    // a slot a head may be at the coarser level
    const slack = heads * slotBytes('f32', commonHeads(model.config).headDim);
    for (const [predicted, run] of [
      [bytes.after, liveBytes],
      [bytes.peak, peakBytes],
    ] as const) {
      expect(predicted).toBeGreaterThanOrEqual(run);
      expect(predicted).toBeLessThanOrEqual(run + slack);
    }
    expect(Object.keys(operations).length).toBeGreaterThan(0);
    expect(said.device === undefined).toBe(said.onDevice !== undefined);
    for (const { form: other, before, after } of otherForms) {
      const own = await predict(compiled, model.config, ids.length, budget, other);
      expect([before, after]).toEqual([own.bytes.before, own.bytes.after]);
    }
    sequence.destroy();
  }
  // four slots, which the window forces, fit in 8 bits only
  const plain = compile(parsePolicy('snapkv(window=4)|topK')),
    bytes = 4 * tokenBytes('q8', model.config),
    { otherForms } = await predict(plain, model.config, ids.length, { bytes }, 'q8');
  expect(otherForms.find((other) => other.form === 'f32')?.after).toBeNull();
  model.destroy();
});

test('of Qwen3.5-0.8B, 6 layers of 24 keep slots and the others carry states: columns and memories', async () => {
  const { bytes, budgets, device } = await predict(compile(named('full')), SHAPES['qwen3.5-0.8b'], 1000, '100%', 'f16');
  expect(budgets).toHaveLength(6);
  expect(device).toBeDefined();
  expect(bytes.layerStates).toBe(18 * 4 * (3 * (2 * 16 * 128 + 16 * 128) + 16 * 128 * 128));
});

test('a prompt may fill the context, whatever the policy reads', async () => {
  const model = await loadModel(fixture('llama')),
    { maxPositions } = model.config;
  model.destroy();
  for (const name of ['h2o', 'snapkv', 'knorm', 'fullTa'] as const)
    for (const length of [1, maxPositions - 4, maxPositions - 1, maxPositions])
      await expect(predict(compile(named(name)), model.config, length, '100%', 'f32')).resolves.toMatchObject({
        evicts: true,
      });
});

test.each([
  'psaw(phi=0.5)',
  'quest(slots=16,page=4,dense=1)',
  'doubleSparsity(slots=7,channels=3)',
  'quest(slots=16,page=4) ∘ psaw(phi=0.3)',
])('what a token reads under %s is what a run counts', async (text) => {
  const model = await loadModel(fixture('llama')),
    policy = parsePolicy(text),
    { views } = await predict(compile(policy), model.config, ids.length, '100%', model.cacheForm),
    { counts } = (await generate(model, { ids, policy, maxNewTokens: 2 })).report,
    heads = model.config.layers * model.config.queryHeads;
  // a head always sees its own slot, whether it was chosen or not, and what one view hides another may have chosen
  expect(counts.shownSlots! - views!.slots).toBeLessThanOrEqual(heads);
  if (!text.includes('∘')) expect(counts.shownSlots! - views!.slots).toBeGreaterThanOrEqual(0);
  if (text.startsWith('psaw')) expect(counts.shownSlots).toBe(views!.slots);
  expect(counts.viewReads).toBe(views!.numbers);
  model.destroy();
});

test.each(['psaw(phi=0.5)', 'psaw(phi=0.2,sinks=2)', 'cpe(budget=60,phi=0.4,threshold=2)'])(
  'in layers with sliding windows a token reads under %s what a run counts',
  async (text) => {
    const model = await loadModel(fixture('gemma2')),
      { layers, queryHeads, vocab, attention, maxPositions } = model.config,
      long = Array.from({ length: Math.min(200, maxPositions - 4) }, (_, i) => (i * 37) % vocab),
      policy = parsePolicy(text),
      { views } = await predict(compile(policy), model.config, long.length, '100%', model.cacheForm),
      { counts } = (await generate(model, { ids: long, policy, maxNewTokens: 2 })).report;
    expect(attention.windows.some((window) => window < long.length / 2)).toBe(true);
    if (text.startsWith('psaw')) expect(counts.shownSlots).toBe(views!.slots);
    // what a bound hides may have been chosen, and a head always sees its own slot
    else expect(Math.abs(counts.shownSlots! - views!.slots)).toBeLessThan(views!.slots / 2 + layers * queryHeads);
    model.destroy();
  },
);

test('without --length a short context is enough, and of levels the shares and the most bytes are told', async () => {
  const args = [
      'explain',
      'streaming | topK | levels(f16=0.25,q8=0.75)',
      '--model',
      fixture('llama'),
      '--cache',
      'f32',
    ],
    { code, stdout } = await kv(args),
    model = await loadModel(fixture('llama')),
    { maxPositions } = model.config;
  model.destroy();
  expect(code).toBe(0);
  expect(stdout).toMatch(/^levels +25 % f16, 75 % q8$/m);
  expect(stdout).toContain(`of ${maxPositions} in every layer and KV head`);
  expect(stdout).toMatch(/ before, at most [\d.]+ KiB after /);
  expect((await kv([...args, '--length', '512'])).stderr).toMatch(/^--length: expected at most/m);
});

test.each([20, 57, 300])('a pass that reads %i tokens once more is counted, each by itself', async (length) => {
  const { config } = await loadModel('embedded'),
    work = async (text: string) =>
      (await predict(compile(parsePolicy(text)), config, length, '100%', 'q8')).multiplyAdds,
    [plain, kvzip, refitted, attended] = await Promise.all(
      ['knorm | topK', 'kvzip | topK', 'kvzip | topK | fit(from=repeat)', 'crystalcache'].map(work),
    );
  expect(plain!.passes).toBe(0);
  // as much as the prompt, and its attention over it
  expect(kvzip!.passes).toBeGreaterThan(plain!.prefill);
  expect(kvzip!.passes).toBeLessThan(3 * plain!.prefill + (kvzip!.passes / length) * 40);
  expect(refitted!.passes).toBe(2 * kvzip!.passes);
  expect(attended!.passes).toBe(plain!.prefill);
});

test('a table of all policies counts the slots that the bytes of a budget hold under each', async () => {
  const { config } = await loadModel(fixture('llama')),
    { bytesPerSlot } = slotSizes(config, 'f32'),
    rows = await deviceRows(config, 32, `${4 * bytesPerSlot}B`),
    names = rows.map(({ name }) => name);
  // both force 4 slots, and those that are moved take more
  expect(names).toContain('streaming');
  expect(names).not.toContain('streamingRerotated');
  await expect(deviceRows(config, 32, '1B')).rejects.toThrow(/1B hold no slot/);
}, 60_000);
