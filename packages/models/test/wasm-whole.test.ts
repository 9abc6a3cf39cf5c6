import { adaKV } from '@kv/allocators-ada-kv';
import { as, attentionAccumulated, attentionLast, attentionMax, attentionWindow, compose, id, scorer } from '@kv/core';
import type { Policy, Tensor } from '@kv/core';
import { cpu } from '@kv/cpu';
import { h2o, snapkv } from '@kv/scorers-attention';
import { topK } from '@kv/selectors-top-k';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { cpuRuntime, generate, hostRuntime, loadModel } from '../src/index.ts';
import type { GenerateResult, HostModel } from '../src/index.ts';
import type { Program, RunningHostModel, Runtime } from '@kv/engine';
import { openCheckpoint, matrixOf, onlyAttention } from '@kv/checkpoints';
import { wasmEngine, wasmRuntime } from '@kv/engine-wasm';
import { modules } from './modules.ts';
import { fixture, hasExperts, leadingFamilies } from '@kv/model-testing/fixture';
import { inTurn } from '@kv/model-testing/in-turn';
import { ortFolder } from '@kv/model-testing/ort';
import { relative } from '@kv/engine-testing/run';
import { reference } from '@kv/model-testing/reference';
import type { Weights, Matrix } from '@kv/checkpoints';
import { referenceEngine } from '@kv/engine';

const newest = modules.at(-1)![1]; // form 0 is available wherever tests run
const ids = Array.from({ length: 300 }, (_, i) => (i * 37 + (i >> 3)) % 500);

const kinds = {
  llama: reference('data/goldens/llama'),
  qwen2: reference('data/goldens/qwen2'),
  qwen3: reference('data/goldens/qwen3'),
};
const policies: Readonly<Record<string, Policy>> = {
  'the full cache': id,
  'running sums': compose(h2o(), topK()),
  'a window, heads of other lengths': compose(snapkv({ window: 8 }), adaKV(), topK()),
};

const plain = hostRuntime({ engine: referenceEngine() });
const answers = async (model: HostModel): Promise<Readonly<Record<string, GenerateResult>>> => {
  const all: Record<string, GenerateResult> = {},
    vocab = model.config.vocab,
    most = Math.min(ids.length, model.config.maxPositions - 20);
  for (const [name, policy] of Object.entries(policies))
    all[name] = await generate(model, {
      ids: ids.slice(0, most).map((token) => token % vocab),
      policy,
      budget: 24,
      block: 37,
      maxNewTokens: 12,
      logits: 3,
    });
  model.destroy();
  return all;
};

// models with experts run layer by layer: experts.test.ts
const compared = leadingFamilies.filter((name) => !hasExperts(name));

describe.each([
  ...Object.entries(kinds).filter(([name]) => name === 'llama' || inTurn(['qwen2', 'qwen3'], 2).includes(name)),
  ...inTurn(compared, 12).map((name) => [`the tiny ${name}`, fixture(name)] as const),
])('passes of %s', (_, path) => {
  const want = loadModel(path, { runtime: plain }).then(answers);
  test.each(modules.flatMap(([name, fast]) => [1, 2].map((threads) => [name, threads, fast] as const)))(
    '%s, %i threads: logits, tokens and slots of the plain loops',
    async (_name, threads, fast) => {
      const got = await answers(await loadModel(path, { runtime: wasmRuntime(fast, { threads, exact: true }) }));
      for (const [name, one] of Object.entries(await want)) {
        expect(got[name].tokens, name).toEqual(one.tokens);
        expect(got[name].report.kept, name).toEqual(one.report.kept);
        for (const [i, row] of one.logits!.entries())
          expect(relative(got[name].logits![i], row), name).toBeLessThan(1e-5);
      }
    },
  );
});

describe('what an event reads of the last queries', () => {
  const of = ['squares', 'votes', 'normalized', 'entropy'] as const,
    needs = [
      as('last', attentionLast),
      as('mean', attentionWindow(60)),
      as('few', attentionWindow(7)),
      as('max', attentionMax(60)),
      ...of.map((statistic) => as(statistic, attentionWindow(60, statistic))),
    ],
    names = needs.map(({ as }) => as);
  /** Returns the signals of every event, and the passes that host code looked at afterwards. */
  const read = async (
    path: string,
    runtime: Parameters<typeof loadModel>[1],
    sums: boolean,
    block: number,
  ): Promise<readonly (readonly Float32Array[])[]> => {
    const events: Tensor[][] = [],
      probe = scorer('probe', { needs: [...needs, ...(sums ? [as('sums', attentionAccumulated)] : [])] }, (ctx) => {
        const seen = ctx as unknown as Readonly<Record<string, Tensor>>;
        events.push([...names, ...(sums ? ['sums'] : [])].map((name) => ctx.ops.mul(seen[name], 1)));
        return seen.mean;
      }),
      model = await loadModel(path, runtime),
      most = Math.min(ids.length, model.config.maxPositions - 40 - 2);
    await generate(model, {
      ids: ids.slice(0, most).map((token) => token % model.config.vocab),
      policy: compose(probe(), topK()),
      budget: 40,
      block,
      maxNewTokens: 1,
    });
    model.destroy();
    return Promise.all(events.map(async (event) => (await cpu.read(event)).map(({ data }) => data as Float32Array)));
  };
  const reads = [kinds.llama, fixture('gemma2'), fixture('granite_swa')].flatMap((path) =>
      modules.flatMap(([name, fast]) => [false, true].map((sums) => [path, name, sums, fast] as const)),
    ),
    chosen = inTurn(reads, 3);
  test.each(chosen)('%s, %s, sums of all as well %s: is what the plain loops give', async (path, _form, sums, fast) => {
    for (const block of [300, 70]) {
      const want = await read(path, { runtime: plain }, sums, block),
        got = await read(path, { runtime: wasmRuntime(fast, { threads: 2, exact: true }) }, sums, block);
      expect(got.length).toBe(want.length);
      expect(want.length).toBeGreaterThan(0);
      for (const [e, event] of want.entries())
        for (const [i, data] of event.entries()) {
          // weights at the edge of a vote may fall on either side of it
          const most = names[i] === 'votes' ? 60 : data.reduce((top, x) => Math.max(top, Math.abs(x)), 0);
          expect(got[e][i].length).toBe(data.length);
          const off = data.reduce((top, x, j) => Math.max(top, Math.abs(x - got[e][i][j])), 0);
          expect(off, `${names[i] ?? 'sums'} of event ${e}, blocks of ${block}`).toBeLessThan(
            names[i] === 'votes' ? 1.5 / most : 1e-4 * most + 1e-9,
          );
        }
    }
  });
});

test('attention of blocks in 8 bits stays near the plain loops: logits, and the slots that sums of its weights keep', async () => {
  const want = await loadModel(kinds.qwen3, { runtime: plain }),
    got = await loadModel(kinds.qwen3, { runtime: wasmRuntime(newest, { threads: 2 }) });
  const run = (model: HostModel): PromiseLike<GenerateResult> =>
    generate(model, { ids, maxNewTokens: 0, logits: ids.length, block: 128 });
  const [a, b] = [(await run(want)).logits!, (await run(got)).logits!];
  for (const [i, row] of a.entries()) expect(relative(b[i], row), `row ${i}`).toBeLessThan(0.05);
  const kept = async (model: HostModel): Promise<readonly (readonly number[])[]> =>
    (await generate(model, { ids, policy: compose(h2o(), topK()), budget: 100, maxNewTokens: 0 })).report.kept.flat();
  const [all, some] = [await kept(want), await kept(got)];
  for (const [row, slots] of all.entries())
    expect(slots.filter((slot) => some[row].includes(slot)).length, `row ${row}`).toBeGreaterThan(90);
  want.destroy();
  got.destroy();
});

test('after the last layer nothing is computed that is not read', async () => {
  const model = await loadModel(kinds.llama, { runtime: wasmRuntime(newest, { threads: 2 }) }),
    { rows } = model.decoder;
  /** Rows of the last layer's products before and after attention, in a prefill of 300 tokens. */
  const last = async (options: Partial<Parameters<typeof generate>[1]>): Promise<readonly number[]> => {
    const before = [rows.qkv.at(-1)!, rows.down.at(-1)!];
    await generate(model, { ids, maxNewTokens: 0, ...options });
    return [rows.qkv.at(-1)! - before[0], rows.down.at(-1)! - before[1]];
  };
  const window = compose(snapkv({ window: 8 }), topK()),
    sums = compose(h2o(), topK());
  expect(await last({})).toEqual([300, 2]);
  expect(await last({ policy: window, budget: 100 })).toEqual([300, 300 - 256]);
  // every query's weights are counted, or every row's logits requested
  expect(await last({ policy: sums, budget: 100 })).toEqual([300, 300]);
  expect(await last({ logits: 300 })).toEqual([300, 300]);
  model.destroy();
});

test('sequences in turns do not see each other', async () => {
  const model = await loadModel(kinds.llama, { runtime: wasmRuntime(newest, { threads: 2, exact: true }) }),
    other = ids.map((token) => (token * 3 + 1) % 500);
  const run = (which: readonly number[]): Promise<GenerateResult> =>
    Promise.resolve(
      generate(model, { ids: [...which], policy: compose(h2o(), topK()), budget: 64, block: 50, maxNewTokens: 20 }),
    );
  const alone = [await run(ids), await run(other)],
    together = await Promise.all([run(ids), run(other), run(ids)]);
  expect(together.map(({ tokens }) => tokens)).toEqual([alone[0].tokens, alone[1].tokens, alone[0].tokens]);
  expect(together[2].report.kept).toEqual(alone[0].report.kept);
  model.destroy();
});

test('passes are fused except where the host acts between layers, and reports count both', async () => {
  const model = await loadModel(kinds.llama, { runtime: wasmRuntime(newest) });
  const { report } = await generate(model, { ids, block: 100, maxNewTokens: 5 });
  expect(report.counts).toMatchObject({ fusedPasses: 3 + 4, layeredPasses: 0 });
  model.destroy();
});

test('an instruction that the module does not know is refused by name, before anything is placed', async () => {
  const x = { id: 0, width: 8 },
    out = { id: 1, width: 8 },
    program = { name: 'project 3', inputs: [x], instructions: [{ op: 'swirl', x, out }], outputs: [out] };
  await expect(wasmEngine(newest).prepare(program as unknown as Program)).rejects.toThrow(
    'wasm: expected instructions that the module runs, got swirl in project 3',
  );
});

describe('instead of the module', () => {
  const start = async (
    stored: { readonly bytes: number; readonly quantised: boolean } | undefined,
    from: string,
    change: (weights: Awaited<ReturnType<typeof openCheckpoint>>['weights']) => typeof weights = (weights) => weights,
  ): Promise<{ readonly engine: string | undefined; readonly said: readonly string[] }> => {
    const { config, weights, tokenizer, close } = await openCheckpoint(kinds.llama),
      said: string[] = [];
    const running = await cpuRuntime({ from, threads: 1, warn: (sentence) => said.push(sentence) })
      .start({
        config,
        weights: change(weights),
        tokenizer,
        sidecar: async () => undefined,
        ...(stored && { stored }),
      })
      .finally(close);
    running.destroy();
    return { engine: running.engine, said };
  };

  test('weights beyond the memory of the machine are refused before they are read', async () => {
    const bytes = 2 ** 50;
    let reads = 0;
    const counting = (weights: Weights): Weights => ({
      ...weights,
      byRows: undefined,
      project: async (layer) => {
        reads++;
        return weights.project(layer);
      },
    });
    await expect(start({ bytes, quantised: true }, fileURLToPath(ortFolder), counting)).rejects.toThrow(
      new RegExp(`^model: expected memory for ${bytes} bytes of weights, got \\d+ bytes in all`),
    );
    expect(reads).toBe(0);
  });

  test('weights that turn out too many for its memory go elsewhere once they do', async () => {
    const { UnsupportedModelError } = await import('@kv/engine-wasm');
    let asked = 0;
    const { engine, said } = await start(undefined, fileURLToPath(ortFolder), (weights) => ({
      ...weights,
      byRows: undefined,
      // fails the first time, as a full heap would
      finish: async (layer) => {
        if (layer === 2 && asked++ === 0) throw new UnsupportedModelError('room for 9 bytes, got 8');
        return weights.finish(layer);
      },
    }));
    expect(engine).toBe('onnxruntime-node, f32, 1 thread');
    expect(said).toEqual(['engine: expected room for 9 bytes, got 8; onnxruntime-node, f32, 1 thread runs instead']);
  });
});

test('weights in several memories give what those in one give', async () => {
  const open = async (memoryBytes?: number): Promise<HostModel> =>
    loadModel(kinds.llama, {
      runtime: wasmRuntime(newest, { threads: 2, exact: true, ...(memoryBytes !== undefined && { memoryBytes }) }),
    });
  const [one, several] = [await open(), await open(2 ** 16)];
  expect(one.engine).not.toContain('memories');
  expect(Number(/(\d+) memories$/.exec(several.engine)?.[1])).toBeGreaterThan(1);
  expect(several.fingerprint).toBe(one.fingerprint);
  const [want, got] = [await answers(one), await answers(several)];
  for (const [name, { tokens, report, logits }] of Object.entries(want)) {
    expect(got[name].tokens, name).toEqual(tokens);
    expect(got[name].report.kept, name).toEqual(report.kept);
    for (const [i, row] of logits!.entries()) expect(relative(got[name].logits![i], row), name).toBeLessThan(1e-5);
  }
  for (const model of [one, several]) model.destroy();
});

test('heads of a width that the module does not attend to go layer by layer, and give what the plain loops give', async () => {
  const [H, G, d, D, ffn, layers] = [4, 2, 6, 20, 36, 3],
    { config: base, tokenizer, close } = await openCheckpoint(kinds.llama),
    matrix = (outputs: number, inputs: number, seed: number): Matrix =>
      matrixOf(
        Float32Array.from({ length: outputs * inputs }, (_, i) => Math.sin(12.9898 * i + seed) / 2),
        outputs,
        inputs,
      ),
    ones = new Float32Array(D).fill(1);
  await close();
  const parts = {
      config: {
        ...base,
        ...{ layers, queryHeads: H, hidden: D, ffn, tied: true },
        attention: { scale: d ** -0.5, windows: [] },
        mixers: onlyAttention(layers, { kvHeads: G, headDim: d }),
        ropes: Array.from({ length: layers }, () => ({ ...base.ropes[0], rotary: d })),
      },
      tokenizer,
      sidecar: async () => undefined,
    },
    weights: Weights = {
      embed: async () => matrix(base.vocab, D, 1),
      head: async () => matrix(base.vocab, D, 1),
      norm: async () => ones,
      project: async (layer) => ({ norm: ones, qkv: matrix((H + 2 * G) * d, D, layer) }),
      finish: async (layer) => ({
        ...{ norm: ones, output: matrix(D, H * d, layer + 7), gateUp: matrix(2 * ffn, D, layer + 8) },
        down: matrix(D, ffn, layer + 9),
      }),
    };
  const open = async (runtime: Runtime<RunningHostModel>): Promise<HostModel> => ({
    ...(await runtime.start({ ...parts, weights })),
    ...{ ...parts, name: 'odd', engine: runtime.name, fingerprint: 'odd' },
  });
  const [model, reference] = [
    await open(wasmRuntime(newest, { threads: 2, exact: true })),
    await open(hostRuntime({ engine: referenceEngine() })),
  ];
  const { report } = await generate(model, { ids: ids.slice(0, 40), maxNewTokens: 5 });
  expect(report.counts).toMatchObject({ fusedPasses: 0, layeredPasses: 1 + 4 });
  const [want, got] = [await answers(reference), await answers(model)];
  for (const [name, one] of Object.entries(want)) {
    expect(got[name].tokens, name).toEqual(one.tokens);
    expect(got[name].report.kept, name).toEqual(one.report.kept);
    for (const [i, row] of one.logits!.entries()) expect(relative(got[name].logits![i], row), name).toBeLessThan(1e-5);
  }
});
