import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { slotBytes } from '@kv/engine';
import type { CacheUsage } from '@kv/models';
import { beforeAll, describe, expect, it } from 'vitest';
import { withoutOnnx } from '../src/engine.ts';
import { folder, kv } from './terminal.ts';
import { CONTEXT, SHAPE, writeTinyModel } from '@kv/model-testing';

let cwd: string, model: string;
beforeAll(() => {
  cwd = folder();
  model = writeTinyModel(join(cwd, 'tiny'));
  writeFileSync(join(cwd, 'ids.txt'), '0 72 101\n108 108 111');
  writeFileSync(join(cwd, 'ids.json'), '[0, 72, 101, 108, 108, 111]');
  writeFileSync(
    join(cwd, 'mine.mjs'),
    `
const piece = (window) => ({ protocol: 1, from: ['start'], to: 'kept', name: 'mine', label: 'mine(window=' + window + ')', atoms: [] });
export const policy = ({ window = 3 } = {}) => piece(window);`,
  );
  writeFileSync(join(cwd, 'other.mjs'), 'export const polisy = 1;');
  writeFileSync(join(cwd, 'broken.mjs'), 'export const policy = ;');
});
const TEXT = 'It was a bright cold day in April, and the clocks were striking thirteen.';
const run = (...args: string[]): ReturnType<typeof kv> => kv(['run', '--model', model, ...args], { cwd });

describe('kv run --chat', () => {
  it("puts the prompt into the model's chat template, which must be there", async () => {
    const templated = writeTinyModel(join(cwd, 'templated'));
    writeFileSync(
      join(templated, 'chat_template.jinja'),
      '{% for m in messages %}[{{ m.role }}] {{ m.content }}{% endfor %}',
    );
    const bytes = Buffer.byteLength('[user] Hello');
    const { code, stdout } = await kv(
      ['run', '--model', templated, '--chat', '--prompt', 'Hello', '--max-new-tokens', '1', '--json'],
      { cwd },
    );
    expect([code, (JSON.parse(stdout) as { kept: number[][][] }).kept[0][0].length]).toEqual([0, bytes]);
    const without = await run('--chat', '--prompt', 'Hello');
    expect([without.code, without.stderr.trim()]).toEqual([
      2,
      `--chat: expected a model with a chat template, got ${model}`,
    ]);
  });
});

describe('kv run --json', () => {
  it('prints one object with what was said, kept, held and spent', async () => {
    const { code, engine, stdout, stderr } = await run(
      '--prompt',
      TEXT,
      '--policy',
      'snapkv(window=8,kernel=5)',
      '--budget',
      '25%',
      '--max-new-tokens',
      '5',
      '--json',
      '--logits',
      '2',
    );
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout.trim().split('\n')).toHaveLength(1);
    const { text, tokens, kept, bytes, cache, times, policy, logits } = JSON.parse(stdout) as {
      cache: CacheUsage;
      text: string;
      tokens: number[];
      kept: number[][][];
      bytes: Record<string, number>;
      times: Record<string, number>;
      policy: string;
      logits: number[][];
    };
    expect(policy).toBe('snapkv(window=8) ∘ topK');
    expect(tokens).toHaveLength(5);
    expect(typeof text).toBe('string');
    const slots = Math.floor((TEXT.length + 1) / 4);
    expect(kept).toHaveLength(SHAPE.layers);
    for (const row of kept.flat()) {
      expect(row).toHaveLength(slots);
      expect(row).toEqual([...new Set(row)].sort((a, b) => a - b));
      expect(row.slice(-8)).toEqual(Array.from({ length: 8 }, (_, i) => TEXT.length + 1 - 8 + i));
    }
    expect(Object.keys(bytes)).toEqual(
      expect.arrayContaining(['allocated', 'live', 'peak', 'meanPrefill', 'meanDecode']),
    );
    // all five tokens are fed, since logits are asked for
    expect(cache.liveBytes).toBe((slots + 5) * cache.bytesPerToken);
    expect(cache.bytesPerToken).toBe(SHAPE.layers * SHAPE.kvHeads * slotBytes(cache.form, 8));
    expect(cache.peakBytes).toBeGreaterThanOrEqual(cache.liveBytes);
    expect(cache.peakBytes).toBeLessThanOrEqual((TEXT.length + 1) * cache.bytesPerToken);
    expect(engine).toMatch(new RegExp(`; cache ${cache.form}, ${cache.bytesPerToken} bytes a token$`));
    expect(Object.values(times).every((ms) => ms >= 0)).toBe(true);
    expect(logits.map((row) => row.length)).toEqual([258, 258]);
  });
  it('says the same tokens for a text, for its ids, and for the file of either', async () => {
    writeFileSync(join(cwd, 'prompt.txt'), 'Hello');
    const ids = [0, ...[...'Hello'].map((c) => c.charCodeAt(0) + 2)];
    writeFileSync(join(cwd, 'hello.json'), JSON.stringify(ids));
    writeFileSync(join(cwd, 'hello.txt'), `${ids.join('\n')}\n`);
    const said = await Promise.all(
      [
        ['--prompt', 'Hello'],
        ['--prompt-file', 'prompt.txt'],
        ['--prompt-ids', 'hello.json'],
        ['--prompt-ids', 'hello.txt'],
      ].map(
        async (prompt) =>
          (JSON.parse((await run(...prompt, '--max-new-tokens', '6', '--json')).stdout) as { tokens: number[] }).tokens,
      ),
    );
    expect(new Set(said.map(String)).size).toBe(1);
  });
  it('prints the same text that streaming prints', async () => {
    const args = ['--prompt', TEXT, '--max-new-tokens', '8'];
    const { text } = JSON.parse((await run(...args, '--json')).stdout) as { text: string };
    expect((await run(...args)).stdout).toBe(`${text}\n`);
  });
  it('runs a module that exports a policy, with options', async () => {
    const { stdout } = await run(
      '--prompt',
      'Hi',
      '--policy',
      './mine.mjs(window=7)',
      '--budget',
      '100%',
      '--max-new-tokens',
      '1',
      '--json',
    );
    expect((JSON.parse(stdout) as { policy: string }).policy).toBe('mine(window=7)');
  });
});

describe('what the events of a run note', () => {
  const note =
      /^note: roundedLinearBudgets: uniform budgets, the line from \d+(\.\d)? to \d+(\.\d)? leaves \d+ >= top >= bottom >= 8$/gm,
    policy = ['--policy', 'pyramidkv(window=8)', '--budget', '11'];
  it.each([
    ['text', '--prompt', TEXT, '--max-new-tokens', '6', '--every', '2'],
    ['JSON', '--prompt', TEXT, '--max-new-tokens', '6', '--every', '2', '--json'],
    ['answers over a document', '--document', 'text.txt', '--question', 'Which?', '--max-new-tokens', '2'],
  ])('is printed once on stderr with %s, in round numbers', async (_, ...args) => {
    writeFileSync(join(cwd, 'text.txt'), TEXT);
    const { code, stderr } = await run(...args, ...policy);
    expect([code, stderr.match(note)?.length], stderr).toEqual([0, 1]);
  });
});

describe('a policy that a family cannot have', () => {
  const gemma3 = fileURLToPath(new URL('../../../packages/model-testing/fixtures/gemma3', import.meta.url));
  const ran = (policy: string): ReturnType<typeof kv> =>
    kv(['run', '--model', gemma3, '--prompt', TEXT, '--policy', policy, '--max-new-tokens', '2'], { cwd });
  it('is refused by the name that was asked for, with the reason and what to do', async () => {
    expect((await ran('cpe(budget=64)')).code).toBe(0);
    const { code, stdout, stderr } = await ran('cpe(budget=64,reuse=kv)');
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr.trim().split('\n').at(-1)).toMatch(
      /^cpe\(budget=64,reuse=kv\): etf would copy .* this model's sliding and global layers turn keys by RoPE bases of their own .*: leave reuse=kv out, .* or take a policy without etf$/,
    );
  });
});

describe('a bad input is one sentence on stderr, exit code 2 and nothing on stdout', () => {
  it.each([
    [['--prompt', 'x', '--policy', 'snapk'], /^policy: expected the name of a method or piece \(did you mean snapkv/],
    [
      ['--prompt', 'x', '--policy', './other.mjs'],
      /^\.\/other\.mjs: expected a module that exports 'policy' .*, got the exports polisy$/,
    ],
    [['--prompt', 'x', '--policy', './broken.mjs'], /^\.\/broken\.mjs: expected a module that can be imported, got /],
    [['--prompt', 'x', '--policy', './none.mjs'], /^\.\/none\.mjs: expected a file/],
    [
      ['--prompt', TEXT, '--policy', 'snapkv(window=16)', '--budget', '8'],
      /^--budget: 8 slots are fewer than '.*' forces in every head: expected a budget of at least 16, as snapkv\(window=16,kernel=5\) forces them$/,
    ],
    [
      ['--prompt', TEXT, '--policy', 'knorm'],
      /^--budget: 'knorm ∘ topK' evicts, so a budget is expected: a number of slots, a share such as '25%', or bytes such as '64MiB'$/,
    ],
    [
      ['--prompt', 'x'.repeat(CONTEXT)],
      new RegExp(`^prompt: expected at most ${CONTEXT} tokens, the context of .*, got ${CONTEXT + 1}$`),
    ],
    [['--prompt-ids', 'far.txt'], /^--prompt-ids: expected ids below 258, the vocabulary of .*, got 258$/],
    [['--prompt-ids', 'words.txt'], /^words\.txt: expected token ids \(whole numbers of at least 0\), got "five"$/],
    [['--prompt-ids', 'half.json'], /^half\.json: expected a JSON array of token ids, got /],
    [['--prompt-file', 'none.txt'], /^none\.txt: cannot be read \(ENOENT\)$/],
    [
      [],
      /^prompt: expected exactly one of a prompt in quotes \(kv run 'TEXT'\), standard input, --prompt, --prompt-file, --prompt-ids, --document and --load-cache$/,
    ],
    [
      ['--prompt', 'x', '--budget', '120%'],
      /^--budget: must be a whole number of slots of at least 1, a share .* such as '25%' or '25% of f16' .*, got '120%'$/,
    ],
    [['--prompt', 'x', '--budget', '2MB'], /^--budget: must be in units of 1,024 bytes .*, such as '2MiB', got '2MB'$/],
    ...['1e999GiB', '-1MiB', '25% of q9'].map((budget): [string[], RegExp] => [
      ['--prompt', 'x', `--budget=${budget}`],
      new RegExp(`^--budget: must be .*, or bytes such as '64MiB' .*, got '${budget}'$`),
    ]),
    [
      ['--prompt', TEXT, '--policy', 'knorm', '--budget', '9B'],
      /^--budget: 9B hold no slot: one slot in every layer and KV head is 112 bytes in q8, so expected at least 112B, or a cache in a coarser form$/,
    ],
    [
      ['--prompt', TEXT, '--policy', 'knorm', '--budget', '32', '--decode-budget', '9B', '--every', '2'],
      /^--decode-budget: 9B hold no slot: one slot/,
    ],
    [
      ['--prompt', TEXT, '--policy', 'snapkv(window=16)', '--budget', '1KiB'],
      /^--budget: 9 slots, which 1KiB hold, are fewer than '.*' forces .*; a slot is 112 bytes in q8$/,
    ],
    [
      ['--prompt', TEXT + TEXT, '--raw', '--policy', 'kvzip', '--budget', '50%'],
      /^(?:engine: .*\n)?--policy: 'kvzip.*' reads \d+ tokens once more over the prompt, which together must fit the model's context of 256 tokens, got \d+: take a shorter prompt, about half the context, or/,
    ],
    [['--prompt', 'x', '--block', '0'], /^--block: must be a positive whole number of tokens, got 0$/],
    [
      ['--prompt', 'x', '--max-new-tokens', 'ten'],
      /^--max-new-tokens: must be a whole number of tokens of at least 0, got 'ten'$/,
    ],
    [['--prompt', 'x', '--temperature', 'hot'], /^--temperature: must be a number of at least 0, got 'hot'$/],
    [['--prompt', 'x', '--top-p', '0.5'], /^--top-p: expected --temperature too/],
    [['--prompt', 'x', '--min-p', '0.5'], /^--min-p: expected --temperature too/],
    [
      ['--prompt', 'x', '--logit-bias', '5=101'],
      /^--logit-bias: must have numbers from -100 to 100, got 101 for id 5$/,
    ],
    [
      ['--prompt', 'x', '--logit-bias', '{"9999":1}'],
      /^(?:engine: .*\n)?--logit-bias: must be for token ids below \d+, got 9999/,
    ],
    ...(
      [
        [['--budget', '25%', '--policy', 'full'], '--budget', "'full'"],
        [['--every', '5'], '--every', "'full'"],
        [['--block', '5'], '--block', "'full'"],
        [['--every', '5', '--policy', 'etf'], '--every', "'etf'"],
        [['--every', '5', '--decode-policy', 'etf'], '--every', "'full' and 'etf'"],
        [['--block', '5', '--decode-policy', 'knorm', '--decode-budget', '9', '--every', '2'], '--block', "'full'"],
      ] as const
    ).map(([args, flag, got]): [string[], RegExp] => [
      ['--prompt', 'x', ...args],
      new RegExp(`^${flag}: expected a policy that evicts, got ${got}: name one with --policy, or leave ${flag} out$`),
    ]),
    [
      ['--prompt', TEXT, '--policy', 'streaming', '--budget', '9', '--protect', 'nowhere'],
      /^(?:engine: .*\n)?--protect: expected 'system', 'tools', 'first-user' or a text that stands in the prompt, got 'nowhere'/,
    ],
    ...['--model', '--prompt-file', '--prompt-ids', '--policy', '--chat-template'].map((flag): [string[], RegExp] => [
      [flag, ''],
      new RegExp(`^${flag}: expected a (?:name|file|policy), got an empty text$`),
    ]),
    [['--prompt', 'x', '--logits', '2'], /^--logits: expected --json too/],
    [['--prompt', 'x', '--modle', 'y'], /^kv: unknown option '--modle'/],
  ])('%j', async (args, sentence) => {
    writeFileSync(join(cwd, 'far.txt'), '1 258');
    writeFileSync(join(cwd, 'words.txt'), '1 five');
    writeFileSync(join(cwd, 'half.json'), '[1, 2');
    const { code, stdout, stderr } = await run(...args);
    expect(stderr.trim()).toMatch(sentence);
    expect(stderr.trim().split('\n')).toHaveLength(1);
    expect([code, stdout]).toEqual([2, '']);
  });
  it.each([
    [['--policies', 'nosuch'], '--policies'],
    [['--policy', 'nosuch'], '--policy'],
  ])('names the flag of a policy as it was given: %j', async (args, flag) => {
    const { code, stderr } = await kv(['needle', '--model', model, ...args], { cwd });
    expect([code, stderr]).toEqual([
      2,
      expect.stringMatching(`^${flag}: expected the name of a method or piece, got 'nosuch'`) as string,
    ]);
  });
  it('for an engine that is not installed, naming one that is', async () => {
    if ((await withoutOnnx(cwd)) === undefined) return; // it is installed here
    const { code, stderr } = await run('--prompt', 'x', '--engine', 'onnx');
    expect([code, stderr]).toEqual([
      2,
      '--engine: expected onnxruntime-node and @kv/engine-onnx to be installed for onnx, got one or none: install both, or take f32, which needs neither\n',
    ]);
  });
  it('for weights that are cut off, and a model that is not there', async () => {
    const broken = writeTinyModel(join(cwd, 'broken'));
    const file = join(broken, 'model.safetensors');
    writeFileSync(file, readFileSync(file).subarray(0, 5000));
    for (const name of [broken, join(cwd, 'nowhere')]) {
      const { code, stdout, stderr } = await kv(['run', '--model', name, '--prompt', 'x'], { cwd });
      expect([code, stdout, stderr.trim().split('\n').length]).toEqual([2, '', 1]);
      expect(stderr).toMatch(/expected|must/);
    }
  });
  it('for an unknown command', async () =>
    expect(await kv(['ruun'], { cwd })).toEqual({
      code: 2,
      stdout: '',
      stderr:
        "kv: unknown command 'ruun' (Did you mean run?); the commands are needle, choose, run, chat, serve, pieces, explain, trace, bench, protocol, eval, worker, gate, calibrate, export, doctor, completion\n",
    }));
  it('for forms of kv eval that are not those of its contrasts', async () => {
    const contrasts = [{ policy: 'full', against: 'full', caches: ['f32', 'q8'] }],
      sweep = { models: ['embedded'], policies: ['full'], tasks: ['t.json'], budgets: [16], caches: ['f32', 'q8'] };
    writeFileSync(join(cwd, 'forms.json'), JSON.stringify({ ...sweep, contrasts }));
    expect(await kv(['eval', 'forms.json', '--cache', 'f16'], { cwd })).toEqual({
      code: 2,
      stdout: '',
      stderr: 'forms.json: contrasts.0.caches must be two of caches (f16), got "f32"\n',
    });
  });
  it.each(['run', 'serve'])('for a budget of kv %s that no policy was named to keep', async (command) => {
    const prompt = command === 'run' ? ['--prompt', TEXT] : [],
      asked = [command, '--model', model, ...prompt, '--budget', '32'];
    expect(await kv(asked, { cwd, lines: [] })).toEqual({
      code: 2,
      stdout: '',
      stderr:
        "--policy: expected the policy that keeps a budget of 32, such as --policy outstandingSentences ('kv pieces' lists them), got none\n",
    });
  });
});

describe('the last line of kv run', () => {
  const last = async (...args: string[]): Promise<string> =>
    (await run('--prompt', TEXT, '--max-new-tokens', '4', ...args)).stderr.trim();
  const read = TEXT.length + 1;
  it('says what was kept and dropped, by which policy', async () => {
    expect(await last('--policy', 'knorm', '--budget', '20')).toMatch(
      new RegExp(
        `^kept 20 of ${read} tokens a layer and KV head, dropped ${read - 20} \\(knorm ∘ topK, budget 20 slots = 2\\.2 KiB\\), .* in the end$`,
      ),
    );
    expect(await last('--policy', 'snapkv(window=4)', '--budget', '20', '--every', '2')).toMatch(
      /, 2\.\d KiB in the end, and 1\.0 KiB recorded for policies$/,
    );
    expect(await last('--policy', 'knorm', '--budget', '2.25KiB')).toMatch(
      /^kept 20 of .* \(knorm ∘ topK, budget 20 slots = 2\.2 KiB\), /, // 20.6 slots of 112 bytes
    );
    expect(await last('--policy', 'pyramidal(window=4,kernel=1)', '--budget', '20')).toMatch(
      new RegExp(`^kept 20\\.0 \\(\\d+ to \\d+\\) of ${read} tokens`),
    );
    expect(await last()).toMatch(new RegExp(`^kept all ${read} tokens of the prompt \\(full\\), `));
    expect(await last('--policy', 'knorm', '--budget', '20', '--every', '2')).toMatch(`kept 20 of ${read + 2} tokens`);
  });
  it('is left out where nothing but errors is wanted, and where an object is', async () => {
    expect(await last('--quiet')).toBe('');
    expect(await last('--json')).toBe('');
    const { engine, stderr } = await run('-q', '--prompt', TEXT, '--policy', 'nope');
    expect([engine, stderr]).toEqual([undefined, expect.stringMatching(/^policy: expected/)]);
  });
});

describe('help', () => {
  const commands = async (): Promise<readonly string[]> =>
    [...(await kv(['--help'])).stdout.matchAll(/^ {2}([a-z]+) \[options\]/gm)].map(([, name = '']) => name);
  it('has examples for every command, which are commands and options that there are', async () => {
    expect((await commands()).length).toBeGreaterThan(9);
    const steps = ['split', 'probe', 'confirm', 'branch'].map((step) => ['protocol', step]);
    for (const path of [...(await commands()).map((name) => [name]), ...steps]) {
      const { code, stdout } = await kv([...path, '--help']),
        name = path.join(' ');
      const [options = '', examples] = stdout.split('\nExamples:\n');
      expect([code, examples], name).toEqual([0, expect.stringContaining('  $ ')]);
      for (const [, asked, rest = ''] of (examples ?? '')
        .replace(/ \\\n */g, ' ')
        .matchAll(/\bkv ([a-z]+(?: (?:split|probe|confirm|branch)\b)?)(.*)$/gm))
        for (const [flag] of rest.matchAll(/ --[a-z-]+/g))
          if (asked === name) expect(options, `${name}: ${flag}`).toContain(flag);
    }
  });
  it('tells exit codes', async () => {
    const { stdout } = await kv(['--help'], { columns: 60 });
    expect(stdout).toMatch(/Exit codes:\n {2}0 {4}done\n[^]*\n {2}130 /);
  });
});

describe('kv', () => {
  it('is interrupted with exit code 130', async () => {
    const { code, stdout } = await kv(['run', '--model', model, '--prompt', TEXT, '--json'], {
      cwd,
      signal: AbortSignal.abort(),
    });
    expect([code, stdout]).toEqual([130, '']);
  });
  it('lists policies and pieces with kind, needs, options and source', async () => {
    const all = JSON.parse((await kv(['pieces', '--json'], { cwd })).stdout) as {
      name: string;
      kind: string;
      needs: string[];
      options: object;
      source: string;
    }[];
    expect(all).toContainEqual(
      expect.objectContaining({
        name: 'snapkv',
        kind: 'scorer',
        needs: ['attention.window(w=64)'],
        source: 'Li et al. 2024, arXiv:2404.14469',
      }),
    );
    expect(all).toContainEqual(expect.objectContaining({ name: 'caote', kind: 'transform', needs: ['values'] }));
    expect(all).toContainEqual(expect.objectContaining({ name: 'topK', kind: 'selector', needs: [] }));
    expect(all).toContainEqual(expect.objectContaining({ name: 'protectedPartition', kind: 'allocator' }));
    expect(all.find(({ name, kind }) => name === 'snapkv' && kind === 'scorer')?.options).toMatchObject({
      window: 64,
      kernel: 5,
    });
    expect((await kv(['pieces'], { cwd })).stdout).toContain('SnapKV');
  });
  it('explains what a policy will cost', async () => {
    const explain = async (...args: string[]): Promise<Record<string, any>> =>
      JSON.parse(
        (await kv(['explain', ...args, '--model', model, '--length', '200', '--budget', '25%', '--json'], { cwd }))
          .stdout,
      ) as Record<string, any>;
    const snapkv = await explain('snapkv(window=16)');
    expect(snapkv).toMatchObject({
      evicts: true,
      needs: [{ signal: 'attention.window(w=16)', cost: 'window' }],
      budgets: [
        [50, 50],
        [50, 50],
      ],
    });
    // 2 layers, 2 heads, 8 dimensions: keys, values and a position are 28 bytes a slot in 8 bits, 68 in f32.
    const exact = await explain('snapkv(window=16)', '--cache', 'f32');
    expect([snapkv.cache.form, exact.cache.form]).toEqual(['q8', 'f32']);
    for (const [bytes, slot] of [
      [snapkv.bytes, 28],
      [exact.bytes, 68],
    ] as const)
      expect(bytes).toMatchObject({
        before: 2 * 2 * 200 * slot,
        after: 2 * 2 * 50 * slot,
        peak: slot * (2 * 200 + 2 * 50),
        rings: 2 * 16 * (4 * 8 * 4 + 4),
      });
    expect(snapkv.operations).toMatchObject({ pool: 2, lastSlots: 2, select: 2 });
    expect((await explain('knorm')).passes).toEqual(['none: attention stays on the fused path']);
    expect((await explain('h2o')).bytes.statistics).toBe(2 * 4 * 200 * 4);
    expect((await explain('full')).when).toBe('never');
    expect([snapkv.notes, (await explain('snapkv(window=16) ∘ mass ∘ topK')).notes]).toEqual([
      [],
      ['the policy finds its own size in a run: slots and bytes are those of the budget given'],
    ]);
    expect(
      await kv(['explain', 'snapkv', '--model', model, '--length', '200', '--budget', '20'], { cwd }),
    ).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('expected a budget of at least 64, as snapkv(window=64') as string,
    });
  });
});
