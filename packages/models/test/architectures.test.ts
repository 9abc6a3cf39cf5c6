import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { architectures, cpuRuntime, generate, loadModel, type HostModel } from '../src/index.ts';
import { families, familyFiles, fixture, greedy, goldenOutputs } from '@kv/model-testing/fixture';
import { inTurn } from '@kv/model-testing/in-turn';
import { emptyCaches, relative, run } from '@kv/engine-testing/run';

/** Folders, and a sixth of the GGUF files. */
const files = [
  ...familyFiles.filter(([, file]) => file === '.'),
  ...inTurn(
    familyFiles.filter(([, file]) => file !== '.'),
    6,
  ),
];
describe.each(files)('%s/%s', (name, file) => {
  let model: HostModel;
  beforeAll(async () => {
    // MXFP4 would be multiplied with activations of 8 bits
    model = await loadModel(fixture(`${name}/${file}`), { runtime: cpuRuntime({ exact: true }) });
  });
  afterAll(() => model.destroy());

  test('logits are those of transformers within 1e-5 of the largest, in blocks of any size', async () => {
    for (const { ids, logits } of goldenOutputs(name, file))
      for (const block of [ids.length, 1, 7, ...(ids.length > 64 ? [64] : [])]) {
        const want = Object.keys(logits).map(Number),
          rows = await run(model.decoder, emptyCaches(model.decoder), ids, { want, block });
        for (const [i, at] of want.entries())
          expect(relative(rows[i], logits[at]), `position ${at} of ${ids.length}, blocks of ${block}`).toBeLessThan(
            1e-5,
          );
      }
  });

  test('the host gives the same, whole and in blocks', async () => {
    for (const { ids, logits } of goldenOutputs(name, file))
      for (const block of [ids.length, 5]) {
        const { logits: last } = await generate(model, { ids, block, maxNewTokens: 0, logits: 1 });
        expect(relative(last![0], logits[ids.length - 1])).toBeLessThan(1e-5);
      }
  });

  test('the likeliest tokens that follow are those of transformers', async () => {
    const { after, tokens } = greedy(name, file);
    const answer = await generate(model, { ids: after, maxNewTokens: tokens.length, stopAtEos: false });
    expect(answer.tokens).toEqual(tokens);
  });

  test('the tokenizer comes with it', () => {
    const { ids } = model.tokenizer.encode('the cat, a th');
    expect(ids.filter((id) => id !== model.config.bosId).length).toBe(11);
    expect(model.tokenizer.decode(ids)).toBe('the cat, a th');
    expect([model.config.bosId, model.config.eosIds]).toEqual([1, [2]]);
  });
});

describe('docs/models.md', () => {
  const text = readFileSync(new URL('../../../docs/models.md', import.meta.url), 'utf8');
  /** Returns the cells of the table under this heading, keyed by the first cell up to its bracket. */
  const table = (heading: string): ReadonlyMap<string, readonly string[]> =>
    new Map(
      text
        .split(`## ${heading}\n`)[1]
        .split('\n## ')[0]
        .split('\n')
        .filter((line) => line.startsWith('|'))
        .slice(2)
        .map((line) => {
          const [, first, ...cells] = line.split('|').map((cell) => cell.trim());
          return [first.split(' (')[0], cells.slice(0, -1)];
        }),
    );

  test('lists every architecture by both of its names', () => {
    const rows = [...table('Families').values()];
    expect(rows.map(([type, gguf]) => [type, gguf.split(';')[0]]).sort()).toEqual(
      Object.entries(architectures)
        .map(([type, { gguf }]) => [`\`${type}\``, gguf === undefined ? 'none' : `\`${gguf}\``])
        .sort(),
    );
  });

  test('has a row for every checkpoint, and says which have a GGUF file', () => {
    const rows = table('Family x format x engine');
    expect([...rows.keys()].sort()).toEqual([...families].sort());
    for (const [name, cells] of rows) {
      const both = familyFiles.some(([other, file]) => other === name && file !== '.');
      for (const cell of cells) expect(cell, name).toMatch(both ? /^yes, yes/ : /^yes$/);
    }
  });
});
