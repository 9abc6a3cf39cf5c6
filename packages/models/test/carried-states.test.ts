import { certificates } from '@kv/certificates';
import { referenceEngine, longestPrefix, slotModel, snapshotsOfPrefix, stateBytes, commonHeads } from '@kv/engine';
import { fixture } from '@kv/model-testing/fixture';
import { relative } from '@kv/engine-testing/run';
import { describe, expect, test } from 'vitest';
import { cpuRuntime, generate, loadCache, loadModel, saveCache, Sequence, type Model } from '../src/index.ts';

/**
 * Numbers of each state, by model. Two layers keep slots, the others a state: 2 columns of 32 channels of a short
 * convolution, 3 columns of 160 channels and 6 memories of 16 x 16 of a gated delta rule, or 3 columns of 88 channels and 4
 * memories of 12 x 16 of a state space.
 */
const sizes = {
  lfm2: [64, 64, 64],
  qwen3_5: [2016, 2016, 2016],
  granitemoehybrid: [1032, 1032, 1032],
} as const;
const models = new Map<string, Model>(
  await Promise.all(Object.keys(sizes).map(async (name) => [name, await loadModel(fixture(name))] as const)),
);
const ids = (n: number, seed = 0): number[] =>
  Array.from({ length: n }, (_, i) => 3 + ((7 * i * i + 11 * i + seed) % 61));
const carriedOf = async ({ memory }: Sequence): Promise<readonly Float32Array[]> =>
  (await memory.snapshot()).carried!.map((state) => state.slice());

describe.each(Object.entries(sizes))('%s', (NAME, numbers) => {
  const STATES = 4 * numbers.reduce<number>((sum, size) => sum + size, 0),
    model = models.get(NAME)!; // of the list above

  /** Returns a sequence that was fed these tokens in parts. */
  async function fed(tokens: readonly number[], part: number, snapshots = 0): Promise<Sequence> {
    const sequence = new Sequence(model, undefined, { snapshots });
    for await (const _ of sequence.prefillParts(tokens, { part }));
    return sequence;
  }

  test('blocks of several tokens give the same to the bit, on two threads too, and one by one to rounding', async () => {
    const tokens = ids(300), // more than a tile of rows
      results: { logits: Float32Array; states: readonly Float32Array[] }[] = [];
    for (const [threads, parts] of [
      [1, [300, 7, 2, 1]],
      [2, [300, 40]],
    ] as const) {
      const own = await loadModel(fixture(NAME), { runtime: cpuRuntime({ threads }) });
      for (const part of parts) {
        const sequence = new Sequence(own, undefined, { window: 512 });
        for (let at = 0; at < tokens.length; at += part) await sequence.append(tokens.slice(at, at + part));
        results.push({ logits: (await sequence.logits())[0], states: await carriedOf(sequence) });
      }
      own.destroy();
    }
    const [whole, seven, two, one, ...threaded] = results;
    for (const same of [seven, two, ...threaded]) expect(same).toEqual(whole);
    expect(relative(one.logits, whole.logits)).toBeLessThan(1e-5);
    for (const [i, state] of one.states.entries()) expect(relative(state, whole.states[i])).toBeLessThan(1e-5);
  });

  test.each([
    ['full', {}],
    ['snapkv(window=4)', { budget: 12, every: 5 }],
    ['tova', { budget: 12, every: 5, block: 8 }],
    ['h2o(recent=4)', { budget: 14, every: 3 }],
    ['etf(psi=0.5,sinks=2)', {}],
    ['psaw', {}],
    ['quest(page=4,slots=8,dense=0)', {}],
    ['view(snapkv(window=2) | topK,budget=8)', {}],
    ['outstandingSentences', { budget: 16, every: 4 }],
    ['pyramidal(window=4)', { budget: 14 }],
  ] as const)('%s: the module keeps and says what plain loops do, layer by layer', async (policy, options) => {
    const plain = await loadModel(fixture(NAME), { engine: referenceEngine() }),
      all = { ids: ids(34, 5), policy, maxNewTokens: 12, logits: 20, ...options };
    const [ours, theirs] = [await generate(model, all), await generate(plain, all)];
    expect(ours.report.kept).toEqual(theirs.report.kept);
    expect(ours.report.kept).toHaveLength(2);
    expect(ours.tokens).toEqual(theirs.tokens);
    for (const [i, row] of ours.logits!.entries()) expect(relative(row, theirs.logits![i])).toBeLessThan(2e-5);
    expect(ours.report.counts['layeredPasses'] ?? 0).toBeLessThanOrEqual(policy.includes('view') ? 12 : 0);
    plain.destroy();
  });

  test('a report counts states apart from slots, and certificates and budgets are of layers that keep slots', async () => {
    const { kvHeads, headDim } = commonHeads(model.config),
      slot = 2 * kvHeads * 4 * (2 * headDim + 1);
    const { report } = await generate(model, {
      ids: ids(40),
      policy: 'pyramidal(window=4)',
      budget: 16,
      maxNewTokens: 0,
      certify: certificates(),
    });
    expect(stateBytes(model.config)).toBe(STATES);
    expect(report.cache).toMatchObject({ bytesPerToken: slot, stateBytes: STATES });
    expect(report.budgetBytes).toBe(16 * slot);
    expect(report.bytes.live).toBeGreaterThanOrEqual(report.cache.liveBytes + STATES);
    expect(report.budgets.map(([first]) => first)).toEqual(
      [...report.budgets.map(([first]) => first)].sort((a, b) => b - a),
    );
    expect(report.budgets[0][0]).toBeGreaterThan(report.budgets[1][0]);
    expect(report.budgets.flat().reduce((sum, n) => sum + n, 0)).toBe(16 * 2 * kvHeads);
    expect(slotModel(model.config)).toMatchObject({ layers: 2, queryHeads: 4 });
  });

  test('passes of providers leave the states as they were', async () => {
    for (const policy of ['kvzipModelWide', 'crystalcache(sinks=2,recent=4)']) {
      const sequence = new Sequence(model);
      await sequence.prefill(ids(30), { policies: [policy] });
      const before = await carriedOf(sequence);
      await sequence.evict(policy, 12);
      expect(sequence.stats.counts.providerPasses).toBeGreaterThan(0);
      expect(await carriedOf(sequence)).toEqual(before);
      expect(sequence.kept().flat(2).length).toBeLessThan(30 * 2 * 2);
      sequence.destroy();
    }
  });

  describe('copies', () => {
    test('have states of their own', async () => {
      const [one, control] = [await fed(ids(20), 20), await fed(ids(20), 20)],
        copy = one.fork();
      for (const token of ids(6, 3)) await copy.step(token);
      for (const token of ids(4, 8)) for (const each of [one, control]) await each.step(token);
      expect(await carriedOf(one)).toEqual(await carriedOf(control));
      expect(await one.logits()).toEqual(await control.logits());
      expect(await carriedOf(copy)).not.toEqual(await carriedOf(one));
      for (const each of [one, control, copy]) {
        each.destroy();
        expect([each.memory.ledger.allocated, each.memory.ledger.live]).toEqual([0, 0]);
      }
    });

    test('of fewer tokens start at a snapshot, to the bit, and nowhere else; snapshots are few and counted', async () => {
      const one = await fed(ids(42), 5, 4),
        { snapshots } = one.memory.caches.states!;
      expect(snapshots).toHaveLength(4);
      expect(snapshots.at(-1)).toBe(42);
      expect(Math.max(...snapshots.map((at, i) => at - (snapshots[i - 1] ?? 0)))).toBeLessThan(20);
      expect(one.memory.ledger.entry('snapshots').allocated).toBe(4 * STATES);
      expect(one.memory.cache).toMatchObject({ stateBytes: STATES, recordedBytes: 0 });
      for (const at of snapshots) {
        const copy = one.fork(at),
          control = await fed(ids(42).slice(0, at), 5);
        expect(await carriedOf(copy)).toEqual(await carriedOf(control));
        for (const each of [copy, control]) await each.append(ids(9, 4));
        expect(await copy.logits()).toEqual(await control.logits());
        expect(copy.memory.ledger.entry('snapshots').allocated).toBe(Math.min(4, 2 + snapshots.indexOf(at)) * STATES);
        for (const each of [copy, control]) each.destroy();
      }
      expect(() => one.fork(snapshots[0] + 1)).toThrow(
        `fork: this model's layers carry states, which are known after ${snapshots.join(', ')} tokens: expected one of these lengths, got ${snapshots[0] + 1}; a sequence with \`snapshots\` knows them at the ends of a prompt's parts`,
      );
      const none = new Sequence(model);
      expect(() => none.fork(5)).toThrow(
        'fork: expected a sequence with tokens, of which 5 are copied, got one with none',
      );
      none.destroy();
      await one.evict('streaming', 12);
      expect(() => one.fork(snapshots[0])).toThrow('fork: expected a sequence that has evicted nothing');
      one.destroy();
      expect(one.memory.ledger.allocated).toBe(0);
    });
  });

  test('a prefix is restored exactly or is none: prompts read in parts give the same, to the bit, as without the store', async () => {
    const part = 4,
      shared = ids(30, 1),
      kept: { sequence: Sequence; inParts: number }[] = [];
    const begin = (prompt: readonly number[]): { begun: Sequence; taken: number } => {
      const found = longestPrefix(kept, prompt, part);
      return found
        ? { begun: found.of.sequence.fork(found.shared), taken: found.shared }
        : { begun: new Sequence(model, undefined, { snapshots: snapshotsOfPrefix }), taken: 0 };
    };
    const keep = (sequence: Sequence): void => void kept.push({ sequence, inParts: sequence.progress.promptLength });
    const read = async (sequence: Sequence, prompt: readonly number[]): Promise<Sequence> => {
      for await (const _ of sequence.prefillParts(prompt.slice(sequence.progress.length), { part }));
      return sequence;
    };
    keep(await read(begin(shared).begun, shared));
    let reused = 0;
    for (const prompt of [[...shared, ...ids(7, 2)], [...shared.slice(0, 19), 9, 8, 7, 6], shared, ids(12, 40)]) {
      const { begun, taken } = begin(prompt),
        control = await read(new Sequence(model), prompt);
      reused += taken;
      expect(taken % part).toBe(0);
      expect(begun.progress.length).toBe(taken);
      await read(begun, prompt);
      expect(await begun.logits()).toEqual(await control.logits());
      expect(await carriedOf(begun)).toEqual(await carriedOf(control));
      control.destroy();
      keep(begun);
    }
    expect(reused).toBe(28 + 16 + 28 + 0);
    for (const { sequence } of kept) sequence.destroy();
  });

  describe('a saved cache', () => {
    const saved = async (): Promise<Uint8Array> => {
      const sequence = await fed(ids(12), 12),
        bytes = await saveCache(sequence);
      sequence.destroy();
      return bytes;
    };

    test('holds the states, and goes on with them', async () => {
      const sequence = await fed(ids(20), 7),
        loaded = await loadCache(model, await saveCache(sequence));
      expect(await carriedOf(loaded)).toEqual(await carriedOf(sequence));
      for (const token of ids(3, 6)) for (const each of [sequence, loaded]) await each.step(token);
      expect(await loaded.logits()).toEqual(await sequence.logits());
      for (const each of [sequence, loaded]) each.destroy();
    });

    const all = numbers.join(),
      fewer = numbers.slice(1).join(),
      other = [...numbers.slice(1), numbers[0] + 1].join(),
      negative = [...numbers.slice(1), '-1'.padStart(`${numbers[0]}`.length)].join(),
      expected = `expected states of ${numbers.length} layers, of [${all}] numbers, got`;
    test.each([
      [`\\"carried\\":[${all}]`, `\\"carried\\":[${other}]`, `${expected} ${numbers.length}, of [${other}]`],
      [
        `\\"carried\\":[${all}]`,
        `\\"carried\\":[${fewer.padEnd(all.length)}]`,
        `${expected} ${numbers.length - 1}, of [${fewer}]`,
      ],
      [`\\"carried\\":[${all}]`, `\\"carries\\":[${all}]`, `${expected} 0, of []`],
      [`\\"carried\\":[${all}]`, `\\"carried\\":[${negative}]`, 'carried must hold whole numbers'],
      ['"carried.1":', '"carried.7":', 'expected the header of a saved cache as kv writes it'],
    ])('with %s as %s is refused', async (from, to, message) => {
      const bytes = Buffer.from(await saved()),
        at = bytes.indexOf(from);
      expect([at > 0, to.length]).toEqual([true, from.length]);
      bytes.write(to, at);
      await expect(loadCache(model, bytes)).rejects.toThrow(`saved cache: ${message}`);
    });

    test('with a state that is no number is refused', async () => {
      const bytes = await saved();
      new DataView(bytes.buffer).setUint32(bytes.length - 4, 0x7fc00000, true); // states are the last numbers of the file
      await expect(loadCache(model, bytes)).rejects.toThrow(
        `saved cache: carried.${numbers.length - 1} must hold finite numbers, got NaN at ${numbers[0] - 1}`,
      );
    });
  });
});
