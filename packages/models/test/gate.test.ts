import { mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { hostRuntime, joinedHeads, referenceEngine, slotScores, stepTogether, watchLayers } from '@kv/engine';
import { reference, referenceJson } from '@kv/model-testing/reference';
import { GATE_FILE, gateFile } from '@kv/scorers-gate';
import type { RegressionGate } from '@kv/scorers-gate';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { generate, loadCache, loadModel, saveCache, Sequence } from '../src/index.ts';
import type { HostModel, Model, PrefillOptions } from '../src/index.ts';

const { ids: all } = referenceJson<{ ids: number[] }>('data/goldens/llama/golden.json'),
  ids = all.slice(0, 90),
  folders: string[] = [];
let model: HostModel, bare: HostModel, plain: Model, file: Uint8Array;
/** Scores of every token in f64, `[layer][kvHead][position]`. */
let scores: number[][][];

/** Returns a copy of the golden Llama's folder, with this gate next to it. */
function folderWith(gate: Uint8Array | undefined): string {
  const from = reference('data/goldens/llama'),
    path = mkdtempSync(join(tmpdir(), 'kv-gate-'));
  folders.push(path);
  for (const name of readdirSync(from)) symlinkSync(join(from, name), join(path, name));
  if (gate) writeFileSync(join(path, GATE_FILE), gate);
  return path;
}
const sines = (count: number, by: number): Float32Array =>
  Float32Array.from({ length: count }, (_, i) => Math.sin(by * (i + 1)));

beforeAll(async () => {
  bare = await loadModel(folderWith(undefined));
  const { config, fingerprint } = bare,
    D = config.hidden,
    gates = joinedHeads(config).map(
      ({ kvHeads }, l): RegressionGate => ({
        width: D,
        kvHeads,
        output: { weight: sines(kvHeads * D, 1.3 + l), bias: sines(kvHeads, 0.7) },
      }),
    );
  file = gateFile(gates, { fingerprint });
  const folder = folderWith(file);
  model = await loadModel(folder);
  plain = await loadModel(folder, { runtime: hostRuntime({ engine: referenceEngine() }) });
  scores = gates.map(({ kvHeads }) => Array.from({ length: kvHeads }, () => []));
  await watchLayers(model, ids, {
    input: (l, rows) => {
      const { weight, bias } = gates[l].output;
      for (let r = 0; r < rows.length; r += D)
        for (const [g, row] of scores[l].entries()) {
          let sum = bias[g];
          for (let c = 0; c < D; c++) sum += weight[g * D + c] * rows[r + c];
          row.push(sum);
        }
    },
  });
});
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true });
});

/** Returns a sequence of the prompt. */
async function read(options: PrefillOptions, of: Model = model, prompt = ids): Promise<Sequence> {
  const sequence = new Sequence(of);
  await sequence.prefill(prompt, options);
  return sequence;
}
/** Checks that the slots have the scores of their tokens, as far as these are known. */
async function expectScores(sequence: Sequence, tolerance = 1e-4, layers = scores.length): Promise<void> {
  const kept = sequence.kept();
  for (const [l, heads] of scores.slice(0, layers).entries())
    for (const [g, row] of (await slotScores(sequence, 'gate', l)).entries())
      kept[l][g].forEach((position, i) => {
        if (position < ids.length)
          expect(Math.abs(row[i] - heads[g][position]), `layer ${l}, head ${g}, position ${position}`).toBeLessThan(
            tolerance * (1 + Math.abs(heads[g][position])),
          );
      });
}
/** Returns the sinks and the best others. */
const best = (row: readonly number[], budget: number): number[] =>
  [...row.keys()]
    .sort((a, b) => Number(b < 4) - Number(a < 4) || row[b] - row[a] || a - b)
    .slice(0, budget)
    .sort((a, b) => a - b);

describe('slots have what the gate makes of their inputs', () => {
  test('the sinks and the best stay, of each head, as in f64', async () => {
    const sequence = await read({ policy: 'gate | topK', budget: 20 });
    expect(sequence.kept()).toEqual(scores.map((heads) => heads.map((row) => best(row, 20))));
    await expectScores(sequence);
    sequence.destroy();
  });

  test.each([
    'gate | topK',
    'gate | adaKV | topK',
    'sum(gate(sinks=2), gate) | topK',
    'gate | threshold(at=0, window=8) | topK',
  ])('%s in blocks keeps what the best of the whole prompt are', async (policy) => {
    const [whole, parts, blocks] = [
      await read({ policy, budget: 24 }),
      new Sequence(model),
      await read({ policy: `${policy} | cadence(block=30)`, budget: 24 }),
    ];
    for await (const _ of parts.prefillParts(ids, { policy, budget: 24, part: 16 }));
    expect(parts.kept()).toEqual(whole.kept());
    for (const sequence of [whole, parts]) await expectScores(sequence);
    // the inputs of the first layer do not depend on what was evicted: the best of all are the best of their blocks
    await expectScores(blocks, undefined, 1);
    if (policy === 'gate | topK') expect(blocks.kept()[0]).toEqual(whole.kept()[0]);
    for (const sequence of [whole, parts, blocks]) sequence.destroy();
  });

  test('the plain engine gives the same', async () => {
    const sequence = await read({ policy: 'gate | topK', budget: 20 }, plain);
    await expectScores(sequence, 0.05); // the default engine rounds weights
    sequence.destroy();
  });

  test('a higher bar keeps a subset', async () => {
    let before: number[][][] | undefined;
    for (const at of [-1, 0, 0.5, 2]) {
      const sequence = await read({ policy: `gate | threshold(at=${at}, window=4) | topK` }),
        kept = sequence.kept();
      kept.forEach((heads, l) =>
        heads.forEach((slots, g) => {
          expect(slots).toEqual([...ids.keys()].filter((p) => p < 4 || p >= ids.length - 4 || scores[l][g][p] >= at));
          if (before) expect(before[l][g]).toEqual(expect.arrayContaining(slots));
        }),
      );
      before = kept;
      sequence.destroy();
    }
  });
});

describe('they go where their slots go', () => {
  test('while tokens are generated, in copies, and in saved caches', async () => {
    const policy = 'gate | topK | cadence(every=5)',
      sequence = await read({ policy, budget: 20 }),
      goOn = async (of: Sequence): Promise<number[][][]> => {
        for (const token of all.slice(90, 103)) await of.step(token, 5);
        await expectScores(of);
        return of.kept();
      };
    const copy = sequence.fork(),
      loaded = await loadCache(model, await saveCache(sequence), { policy }),
      own = await goOn(sequence);
    expect(own[0][0].some((position) => position >= 90)).toBe(true);
    expect(await goOn(copy)).toEqual(own);
    expect(await goOn(loaded)).toEqual(own);
    const [a, b] = [await read({ policy, budget: 20 }), await read({ policy, budget: 20 }, model, ids.slice(5))];
    for (const token of all.slice(90, 103))
      await stepTogether([a, b].map((one) => ({ sequence: one, token, every: 5 })));
    expect(a.kept()).toEqual(own);
    for (const each of [sequence, copy, loaded, a, b]) each.destroy();
  });

  test('a view chooses by them', async () => {
    const policy = 'view(gate | topK, budget=8)',
      { text } = await generate(model, { prompt: 'The key is', policy, maxNewTokens: 6 });
    expect(typeof text).toBe('string');
    const sequence = await read({ policy });
    await sequence.step(all[90]);
    await expectScores(sequence);
    sequence.destroy();
  });
});

describe('what cannot be is one sentence', () => {
  test('a model without a gate, before anything is read', async () => {
    const sequence = new Sequence(bare);
    await expect(sequence.prefill(ids, { policy: 'gate | topK', budget: 20 })).rejects.toThrow(
      "gate: expected gate.safetensors next to the model, got none: make it with 'kv gate --model MODEL --text FILES'",
    );
    expect(sequence.progress.length).toBe(0);
    await sequence.prefill(ids, { policy: 'knorm | topK', budget: 20 }); // it is still usable
    sequence.destroy();
  });

  test.each([
    [
      'of another fingerprint',
      () => gateFile([], { fingerprint: 'f'.repeat(64) }),
      /of another model \(ffffffffffff\)/,
    ],
    [
      'of too few layers',
      () => gateFile([{ width: 64, kvHeads: 2, output: { weight: sines(128, 1), bias: sines(2, 1) } }]),
      /expected gates of layer 1, got 1 layers: they are of another model/,
    ],
    [
      'of other widths',
      () =>
        gateFile(
          joinedHeads(bare.config).map(({ kvHeads }) => ({
            width: 3,
            kvHeads,
            output: { weight: sines(3 * kvHeads, 1), bias: sines(kvHeads, 1) },
          })),
        ),
      /got 3 and 2: it is of another model/,
    ],
  ])('a gate %s', async (_, gate, says) => {
    const other = await loadModel(folderWith(gate())),
      sequence = new Sequence(other);
    await expect(sequence.prefill(ids, { policy: 'gate | topK', budget: 20 })).rejects.toThrow(says);
    sequence.destroy();
    other.destroy();
  });

  test('a prompt that passed without it', async () => {
    const sequence = await read({});
    await expect(sequence.evict('gate | topK', 20)).rejects.toThrow(
      "the signal input.gateScores was not remembered while the prompt passed: name the policy in prefill's `policies`",
    );
    const bytes = await saveCache(sequence);
    await expect(loadCache(model, bytes, { policy: 'gate | topK' })).rejects.toThrow(
      'input.gateScores was not remembered',
    );
    const named = await read({ policies: ['gate | topK'] });
    await named.evict('gate | topK', 20);
    expect(named.kept()).toEqual(scores.map((heads) => heads.map((row) => best(row, 20))));
    // tokens that pass another sequence unrecorded leave slots without numbers
    const loaded = await loadCache(model, await saveCache(named), { policy: 'knorm | topK', budget: 20 });
    await loaded.step(all[90]);
    await expect(loaded.evict('gate | topK', 10)).rejects.toThrow('input.gateScores was not remembered');
    for (const each of [sequence, named, loaded]) each.destroy();
  });
});
