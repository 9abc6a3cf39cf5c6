import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import type { Backend } from '@kv/core';
import { allSlotScores, Sequence, watchLayers } from '@kv/engine';
import { CONTEXT, writeTinyModel } from '@kv/model-testing';
import { excerpt } from '@kv/model-testing/reference';
import { loadModel } from '@kv/models';
import type { HostModel } from '@kv/models';
import { readGate } from '@kv/scorers-gate';
import { fitGate } from '../src/gate.ts';
import { NormalEquations } from '../src/gate/normal-equations.ts';
import { cutStretches } from '../src/gate/stretches.ts';

let model: HostModel, backend: Backend;
beforeAll(async () => {
  model = await loadModel('embedded');
  const memory = model.memory();
  ({ backend } = memory.caches.context);
  memory.destroy();
});

/** Ridge regression with a free bias by Gaussian elimination over (w, b), in f64: the gradient of the loss is 0. */
function ridgeOracle(x: readonly (readonly number[])[], y: readonly number[], alpha: number): number[] {
  const d = x[0].length,
    rows = Array.from({ length: d + 1 }, (_, i) =>
      Array.from({ length: d + 2 }, (__, j) =>
        x.reduce((sum, row, r) => sum + (row[i] ?? 1) * (j > d ? y[r] : (row[j] ?? 1)), i === j && i < d ? alpha : 0),
      ),
    );
  for (let i = 0; i <= d; i++) {
    const pivot = rows.slice(i).reduce((a, b) => (Math.abs(b[i]) > Math.abs(a[i]) ? b : a)),
      at = rows.indexOf(pivot);
    [rows[i], rows[at]] = [rows[at], rows[i]];
    for (let k = 0; k <= d; k++)
      if (k !== i) {
        const by = rows[k][i] / rows[i][i];
        for (let j = i; j <= d + 1; j++) rows[k][j] -= by * rows[i][j];
      }
  }
  return rows.map((row, i) => row[d + 1] / row[i]);
}

test('normal equations solve ridge regression, in whatever parts rows come; more rows than fit a product', async () => {
  const number = fc.integer({ min: -40, max: 40 }).map((x) => x / 8);
  await fc.assert(
    fc.asyncProperty(
      fc
        .integer({ min: 1, max: 5 })
        .chain((d) =>
          fc.tuple(
            fc.array(fc.array(number, { minLength: d, maxLength: d }), { minLength: 2, maxLength: 40 }),
            fc.array(number, { minLength: 80, maxLength: 80 }),
          ),
        ),
      fc.constantFrom(0.5, 1, 7),
      fc.integer({ min: 1, max: 30 }),
      fc.boolean(),
      async ([few, noise], alpha, part, many) => {
        const x = many ? Array.from({ length: 10 }, () => few).flat() : few,
          d = x[0].length,
          y = [0, 1].map((g) => x.map((_, r) => noise[(r + 40 * g) % 80])),
          sums = new NormalEquations(d, 2, backend);
        for (let from = 0; from < x.length; from += part * (many ? 20 : 1)) {
          const end = from + part * (many ? 20 : 1);
          await sums.add(
            Float32Array.from(x.slice(from, end).flat()),
            y.map((row) => row.slice(from, end)),
          );
        }
        const { weight, bias } = sums.solve(alpha);
        y.forEach((row, g) =>
          ridgeOracle(x, row, alpha).forEach((want, i) =>
            expect(Math.abs((i === d ? bias[g] : weight[g * d + i]) - want)).toBeLessThanOrEqual(
              1e-4 * Math.max(1, Math.abs(want)),
            ),
          ),
        );
      },
    ),
    { numRuns: 60 },
  );
});

describe('stretches', () => {
  const ids = (n: number, from = 0): number[] => Array.from({ length: n }, (_, i) => from + i);
  const cut = (...lengths: number[]) =>
    cutStretches(
      lengths.map((n, i) => ({ name: `${i}`, ids: ids(n, 10_000 * i) })),
      { shortest: 10, longest: 17, tokens: 500 },
    );
  test('are taken soon from far more text than is asked for', () => {
    const long = { name: 'long', ids: ids(1_000_000) },
      stretches = cutStretches([long], { shortest: 8, longest: 9, tokens: 800 }),
      all = stretches.flatMap((one) => one.ids);
    expect(all.length).toBeGreaterThan(780);
    expect(all.length).toBeLessThanOrEqual(800);
    expect(all.at(-1)).toBeGreaterThan(975_000);
  });
  test('are consecutive tokens of lengths in the band, evenly over all texts, and no token is in two', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(900), { minLength: 1, maxLength: 7 }), (lengths) => {
        if (lengths.filter((n) => n >= 10).length < 2 && Math.max(...lengths) < 34) return;
        const stretches = cut(...lengths),
          all = stretches.flatMap((one) => one.ids);
        for (const one of stretches) {
          expect(one.ids.length).toBeGreaterThanOrEqual(10);
          expect(one.ids.length).toBeLessThanOrEqual(17);
          one.ids.forEach((id, i) => expect(id).toBe(one.ids[0] + i));
        }
        expect(new Set(all).size).toBe(all.length);
        expect(all.length).toBeLessThanOrEqual(500);
        // no text both trains and is held out, where there are several
        const texts = (heldOut: boolean) =>
          new Set(stretches.filter((one) => one.heldOut === heldOut).map((one) => Math.floor(one.ids[0] / 10_000)));
        expect(texts(true).size).toBeGreaterThan(0);
        if (new Set([...texts(true), ...texts(false)]).size > 1)
          for (const text of texts(true)) expect(texts(false).has(text)).toBe(false);
      }),
      { numRuns: 100 },
    );
  });
  test('of one text hold out every fifth', () => {
    expect(cut(200).map(({ heldOut }) => heldOut)).toEqual(cut(200).map((_, i) => i % 5 === 4));
    expect(cut(40).map(({ heldOut }) => heldOut)).toEqual([false, false, true].slice(-cut(40).length));
  });
  test.each([
    [[], 'text: expected at least one text, got none'],
    [[9], "text: expected texts of at least 20 tokens, so that some train and some are held out, got 9 in '0'"],
    [[12, 3], "got 12 in '0', 3 in '1'"],
  ])('of texts of %j tokens are refused', (lengths, says) => {
    expect(() => cut(...lengths)).toThrow(says);
  });
});

describe('a gate of the embedded model', () => {
  const book = excerpt('alice29.txt', 0, 3900),
    [first, second, third] = [0, 1300, 2600].map((from) => ({
      name: `part ${from}`,
      text: book.slice(from, from + 1300),
    })),
    options = { shortest: 60, longest: 90, tokens: 5000 };

  test('predicts held-out text, says how well, and that text trains nothing', async () => {
    const done: string[] = [],
      fitted = await fitGate(model, [first, second, third], { ...options, onRead: (n, of) => done.push(`${n}/${of}`) }),
      gates = readGate(fitted.file);
    expect(gates).toEqual(fitted.layers);
    expect(gates.map(({ width, kvHeads }) => [width, kvHeads])).toEqual(
      model.config.mixers.map(() => [model.config.hidden, 2]),
    );
    expect(new Set(done).size).toBe(done.length);
    expect(done.at(-1)).toBe(`${done.length}/${done.length}`);
    const { trained, heldOut } = fitted.tokens;
    expect(trained + heldOut).toBeLessThanOrEqual(5000);
    // R² of the first head by its definition, over the same held-out stretches
    const stretches = cutStretches(
        [first, second, third].map(({ name, text }) => ({ name, ids: model.tokenizer.encode(text).ids })),
        options,
      ).filter((one) => one.heldOut),
      said: number[] = [],
      was: number[] = [];
    for (const { ids } of stretches) {
      const sequence = new Sequence(model, undefined, { cache: 'f32' });
      await sequence.prefill(ids);
      const [[scores]] = await allSlotScores(sequence, 'kvzip(plus=true)');
      was.push(...Array.from(scores.subarray(4), Math.log));
      sequence.destroy();
      const rows: number[] = [];
      await watchLayers(model, ids, { input: (l, x) => void (l === 0 && rows.push(...x)) });
      const { weight, bias } = fitted.layers[0].output,
        D = model.config.hidden;
      for (let r = 4; r < ids.length; r++)
        said.push(bias[0] + rows.slice(r * D, (r + 1) * D).reduce((sum, x, c) => sum + x * weight[c], 0));
    }
    const mean = was.reduce((a, b) => a + b, 0) / was.length,
      sum = (of: (i: number) => number): number => was.reduce((all, _, i) => all + of(i) ** 2, 0);
    expect(fitted.r2[0][0]).toBeCloseTo(1 - sum((i) => was[i] - said[i]) / sum((i) => was[i] - mean), 3);
    expect(fitted.r2[0][0]).toBeGreaterThan(0.2);
    const other = await fitGate(model, [first, second, { ...third, text: third.text.toUpperCase() }], options);
    expect(other.layers).toEqual(fitted.layers);
    expect(other.r2).not.toEqual(fitted.r2);
  });

  test('ends between two readings once aborted, and refuses what cannot be in one sentence', async () => {
    const abort = new AbortController();
    await expect(
      fitGate(model, [first], {
        ...options,
        signal: abort.signal,
        onRead: () => abort.abort(new Error('enough')),
      }),
    ).rejects.toThrow('enough');
    await expect(fitGate(model, [], options)).rejects.toThrow('text: expected at least one text, got none');
    await expect(fitGate(model, [{ name: 'short.txt', text: 'Too short.' }], options)).rejects.toThrow(
      /^text: expected texts of at least 120 tokens, so that some train and some are held out, got \d+ in 'short.txt'$/,
    );
    await expect(fitGate(model, [first], { ...options, longest: 50 })).rejects.toThrow(
      'longest: must be at least shortest, 60, got 50',
    );
    await expect(fitGate(model, [first], { ...options, sinks: 60 })).rejects.toThrow(
      'sinks: must be below shortest, 60, so that the other positions train, got 60',
    );
    await expect(fitGate(model, [first], { ...options, floor: 1 })).rejects.toThrow('floor');
    await expect(fitGate(model, [first], { ...options, tokens: 119 })).rejects.toThrow(
      'tokens: must be at least 120, a stretch of `shortest` tokens that trains and one that is held out, got 119',
    );
    const { tokens } = await fitGate(model, [first], { ...options, longest: 3000, tokens: 125 });
    expect(tokens.trained + tokens.heldOut).toBeLessThanOrEqual(125);
    await expect(fitGate(model, [first], { shortest: 3000, longest: 3000 })).rejects.toThrow(
      /^shortest: must be at most 20\d\d, as each stretch is read twice, with an instruction of \d+ tokens between, in the model's context of 4096 tokens, got 3000$/,
    );
    await expect(fitGate(model, [first], { alpha: 0 })).rejects.toThrow('alpha');
  });

  test("counts the instruction in the model's own tokens: stretches fill a context of characters", async () => {
    const folder = mkdtempSync(join(tmpdir(), 'kv-gate-'));
    try {
      const characters = await loadModel(writeTinyModel(folder)),
        instruction = '\n\nRepeat the previous context exactly.\n'.length,
        most = Math.floor((CONTEXT - instruction) / 2),
        texts = [first, second].map(({ name, text }) => ({ name, text: text.slice(0, most) }));
      const { tokens } = await fitGate(characters, texts, { shortest: most });
      expect(tokens).toEqual({ trained: most, heldOut: most });
      await expect(fitGate(characters, texts, { shortest: most + 1 })).rejects.toThrow(
        `shortest: must be at most ${most}, as each stretch is read twice, with an instruction of ${instruction} tokens between, in the model's context of ${CONTEXT} tokens, got ${most + 1}`,
      );
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
