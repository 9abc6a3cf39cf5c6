import { beforeAll, describe, expect, test } from 'vitest';
import { greedy, loadModel } from '../src/index.ts';
import type { HostModel } from '../src/index.ts';
import { emptyCaches, relative, run } from '@kv/engine-testing/run';
import { inTurn } from '@kv/model-testing/in-turn';
import { reference, referenceJson } from '@kv/model-testing/reference';
import { referenceEngine, commonHeads } from '@kv/engine';
import { modules } from './modules.ts';
import { wasmEngine } from '@kv/engine-wasm';

interface Golden {
  readonly text: string;
  readonly ids: number[];
  readonly logits: Readonly<Record<string, number[]>>;
  readonly keys_l0_h0_t5: number[];
  readonly values_l3_h1_t50: number[];
  readonly greedy16: number[];
  readonly greedy16_last_logits_first32: number[];
}

const engines = [
  ['module', wasmEngine(modules.at(-1)![1], { exact: true })],
  ['plain loops', referenceEngine()],
] as const;

/** The last test has the others every time. */
const blocks = [240, ...inTurn([1, 7, 64], 3)];

describe.each(
  ['llama', 'qwen2', 'qwen3'].flatMap((kind) => engines.map(([name, engine]) => [kind, name, engine] as const)),
)('the %s golden on the %s', (kind, _, engine) => {
  const golden = (): Golden => referenceJson<Golden>(`data/goldens/${kind}/golden.json`);
  let model: HostModel;
  beforeAll(async () => {
    model = await loadModel(reference(`data/goldens/${kind}`), { engine });
  });

  test('the text has the ids', () => {
    expect(model.tokenizer.encode(golden().text).ids).toEqual(golden().ids);
    expect(model.tokenizer.decode(golden().ids)).toBe(golden().text);
  });

  test.each(blocks)('logits, one key, one value and 16 greedy tokens in blocks of %i', async (block) => {
    const { ids, logits, greedy16, ...want } = golden();
    const layers = emptyCaches(model.decoder),
      d = commonHeads(model.config).headDim;
    const rows = await run(model.decoder, layers, ids, { block, want: [0, 100, 239] });
    for (const [i, at] of ['0', '100', '239'].entries()) expect(relative(rows[i], logits[at])).toBeLessThan(1e-4);
    const vector = (part: 'keys' | 'values', layer: number, head: number, slot: number): Float32Array =>
      layers[layer].read(part, head).subarray(slot * d, (slot + 1) * d);
    expect(relative(vector('keys', 0, 0, 5), want.keys_l0_h0_t5)).toBeLessThan(1e-5);
    expect(relative(vector('values', 3, 1, 50), want.values_l3_h1_t50)).toBeLessThan(1e-5);
    const tokens: number[] = [];
    let last = rows[2];
    for (let i = 0; i < 16; i++) {
      tokens.push(greedy(last));
      [last] = (await run(model.decoder, layers, [tokens[i]], { start: 240 + i })) as [Float32Array];
    }
    expect(tokens).toEqual(greedy16);
    expect(relative(last.subarray(0, 32), want.greedy16_last_logits_first32)).toBeLessThan(1e-4);
  });

  test('block sizes give the same logits', async () => {
    const { ids } = golden();
    const want = [...ids.keys()];
    const whole = await run(model.decoder, emptyCaches(model.decoder), ids, { want });
    for (const block of [1, 7, 64]) {
      const rows = await run(model.decoder, emptyCaches(model.decoder), ids, { block, want });
      // the module adds up a single row in another order than several
      for (const [i, row] of rows.entries()) expect(relative(row, whole[i])).toBeLessThan(2e-5);
    }
  });
});
