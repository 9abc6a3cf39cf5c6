import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { folder, kv } from './terminal.ts';
import { CONTEXT, writeTinyModel } from '@kv/model-testing';

let cwd: string, model: string;
const DOCUMENT =
  'It was a bright cold day in April, and the clocks were striking thirteen. Winston slipped quickly through the glass doors.';
beforeAll(() => {
  cwd = folder();
  model = writeTinyModel(join(cwd, 'tiny'));
  writeFileSync(join(cwd, 'story.txt'), DOCUMENT);
  writeFileSync(join(cwd, 'long.txt'), DOCUMENT.repeat(5));
});
const run = (...args: string[]): ReturnType<typeof kv> => kv(['run', '--model', model, ...args], { cwd });
const KEEP = ['--policy', 'snapkv(window=8)', '--budget', '25%', '--max-new-tokens', '6'];
interface Answers {
  answers: { question: string; text: string; tokens: number[] }[];
  kept: number[][][];
  policy: string;
}
const json = async (...args: string[]): Promise<Answers> =>
  JSON.parse((await run(...args, '--json')).stdout) as Answers;

describe('kv run --document', () => {
  it('answers each question as if it were the only one, over one compacted cache', async () => {
    const both = await json('--document', 'story.txt', '--question', ' Who?', '--question', ' When?', ...KEEP);
    expect(both.answers.map(({ question }) => question)).toEqual([' Who?', ' When?']);
    expect(both.kept.flat().every((row) => row.length === Math.floor((DOCUMENT.length + 1) / 4))).toBe(true);
    expect(both.policy).toBe('snapkv(window=8) ∘ topK');
    for (const [i, question] of [' Who?', ' When?'].entries())
      expect((await json('--document', 'story.txt', '--question', question, ...KEEP)).answers[0]).toEqual(
        both.answers[i],
      );
    const whole = await json('--document', 'story.txt', '--question', ' Who?', '--max-new-tokens', '6');
    expect(whole.answers[0].tokens).toEqual(
      (
        JSON.parse((await run('--prompt', `${DOCUMENT} Who?`, '--max-new-tokens', '6', '--json')).stdout) as {
          tokens: number[];
        }
      ).tokens,
    );
  });
  it('saves the compacted cache and answers over it later', async () => {
    const saved = await run('--document', 'story.txt', '--save-cache', 'story.safetensors', ...KEEP);
    expect([saved.code, saved.stdout]).toEqual([0, '']);
    const direct = await run('--document', 'story.txt', '--question', ' Who?', '--question', ' When?', ...KEEP);
    expect(
      (
        await run(
          '--load-cache',
          'story.safetensors',
          '--question',
          ' Who?',
          '--question',
          ' When?',
          '--max-new-tokens',
          '6',
        )
      ).stdout,
    ).toBe(direct.stdout);
    expect(direct.stdout).toMatch(/^Who\?\n[^]*\n\nWhen\?\n[^]*\n$/);
  });
  it('goes on with a saved cache under another policy, another budget, or both', async () => {
    const levels = 'snapkv(window=8)|topK|levels(f32=0.25,q8=0.75)',
      asked = ['--question', ' Who?', '--max-new-tokens', '6'],
      length = DOCUMENT.length + 1;
    await run(
      '--document',
      'story.txt',
      '--save-cache',
      'all',
      '--policy',
      levels,
      '--budget',
      '100%',
      '--engine',
      'f32',
    );
    const over = (...args: string[]) => run('--load-cache', 'all', '--engine', 'f32', ...asked, ...args),
      last = async (...args: string[]) => (await over(...args)).stderr.trim();
    expect(await last()).toMatch(
      new RegExp(
        `^kept ${length} of ${length} tokens .*, 24 % f32, 76 % q8, dropped 0 .*levels.*before the question, and`,
      ),
    );
    expect(await last('--budget', '20')).toMatch(`kept 20 of ${length} tokens a layer and KV head, 25 % f32, 75 % q8,`);
    expect(await last('--policy', 'streaming', '--budget', '40%')).toMatch(
      new RegExp(
        `^kept ${Math.floor(0.4 * length)} of .* \\(streaming ∘ topK, budget 40% of ${length} tokens = ${Math.floor(0.4 * length)} slots = .*\\)`,
      ),
    );
    const share = await json(
      '--load-cache',
      'all',
      '--engine',
      'f32',
      ...asked,
      '--policy',
      'streaming',
      '--budget',
      '40%',
    );
    expect(share).toMatchObject({ share: '40%', budget: Math.floor(0.4 * length) });
    // what is stored stays so under a policy that demotes nothing, and in a coarser form
    expect(await last('--policy', 'streaming', '--budget', '20')).toMatch(/KV head, \d+ % f32, \d+ % q8, dropped/);
    expect(await last('--cache', 'q8')).toMatch(', 100 % q8, dropped 0');
    expect((await over('--policy', 'full')).stderr).toMatch(
      /^note: 'full' evicts nothing: the cache stays as 'snapkv.* levels\(.*\)' left it$/m,
    );
    await run('--document', 'story.txt', '--save-cache', 'sums', '--policy', 'h2o', '--budget', '100%');
    expect((await run('--load-cache', 'sums', ...asked, '--policy', 'h2o', '--budget', '20')).code).toBe(0);
    // the policy alone: at the budget that the cache had
    expect(await last('--policy', 'streaming')).toMatch(`kept ${length} of ${length} tokens`);
    // as if the document had been compacted so at once
    const [twice, once] = [
      await over('--policy', 'streaming', '--budget', '30'),
      await run('--document', 'story.txt', ...asked, '--policy', 'streaming', '--budget', '30', '--engine', 'f32'),
    ];
    expect(twice.stdout).not.toBe('');
    await run('--document', 'story.txt', '--save-cache', 'full', '--engine', 'f32');
    expect(
      (await run('--load-cache', 'full', '--engine', 'f32', ...asked, '--policy', 'streaming', '--budget', '30'))
        .stdout,
    ).toBe(once.stdout);
    for (const [args, sentence] of [
      [
        ['--policy', 'h2o', '--budget', '20'],
        /^--policy: 'h2o.*' reads attention.accumulated, which all does not remember: save the document under .* --policy 'h2o.*' --budget 100%, which drops nothing, or go on under the one that it was saved under, 'snapkv/,
      ],
      [['--policy', 'full', '--budget', '20'], /^--budget: expected a policy that evicts, got 'full': /],
      [['--policy', levels, '--budget', '2'], /^--budget: 2 slots are fewer than .* forces in every head/],
      [['--block', '8'], /^--block: expected none with --load-cache, whose text was read before/],
    ] as const) {
      const { code, stdout, stderr } = await over(...args);
      expect([code, stdout]).toEqual([2, '']);
      expect(stderr.trim()).toMatch(sentence);
    }
    expect((await run('--load-cache', 'full', ...asked, '--budget', '20')).stderr).toMatch(
      /^--budget: expected a policy that evicts, got 'full': name one with --policy, or leave --budget out$/m,
    );
    const { levels: of, kept } = (await json('--load-cache', 'all', '--engine', 'f32', ...asked)) as Answers & {
      levels: number[][][];
    };
    expect(of.flat().map((each) => each.length)).toEqual(kept.flat().map((each) => each.length));
    expect(new Set(of.flat(2))).toEqual(new Set([0, 2]));
  });
  it("reads a document that is longer than the model's context in blocks", async () => {
    const { kept } = await json(
      '--document',
      'long.txt',
      '--question',
      ' Who?',
      '--policy',
      'streaming',
      '--budget',
      '40',
      '--block',
      '64',
      '--max-new-tokens',
      '3',
    );
    expect(kept[0][0].at(-1)).toBe(5 * DOCUMENT.length);
    expect(5 * DOCUMENT.length).toBeGreaterThan(2 * CONTEXT);
    expect(
      (
        await run(
          '--prompt-file',
          'long.txt',
          '--policy',
          'streaming',
          '--budget',
          '40',
          '--block',
          '64',
          '--max-new-tokens',
          '3',
        )
      ).code,
    ).toBe(0);
  });
  it('a document and its question are one turn of a model with a chat template, as a prompt is', async () => {
    const chats = writeTinyModel(join(cwd, 'chats'));
    writeFileSync(
      join(chats, 'chat_template.jinja'),
      '[system] Be brief.{% for m in messages %}[{{ m.role }}] {{ m.content | trim }}{% endfor %}{{ mood }}[assistant] ',
    );
    const ask = async (...args: string[]): Promise<Answers> => {
      const ran = await kv(['run', '--model', chats, ...args, '--max-new-tokens', '6', '--json'], { cwd });
      expect(ran.code, ran.stderr).toBe(0);
      return JSON.parse(ran.stdout) as Answers;
    };
    const about = ['--document', 'story.txt'],
      mood = ['--chat-template-kwargs', '{"mood":"!"}'];
    for (const how of [[], ['--chat'], ['--raw'], mood]) {
      const asked = await ask(...about, '--question', '\nWho? ', '--question', ' When?', ...how);
      for (const { question, tokens } of asked.answers) {
        const prompt = how[0] === '--raw' ? DOCUMENT + question : `${DOCUMENT}${question}`.trim();
        const whole = (await ask('--prompt', prompt, ...how)) as unknown as { tokens: number[] };
        expect(tokens, question + how.join()).toEqual(whole.tokens);
      }
    }
    // a saved cache says by its text whether a question goes on in a turn
    const who = ['--question', ' Who?'];
    for (const how of [[], ['--raw']]) {
      const { answers } = await ask(...about, ...who, ...how, '--save-cache', 'turn.kv');
      expect((await ask('--load-cache', 'turn.kv', ...who)).answers).toEqual(answers);
      const { code, stderr } = await kv(
        ['run', '--model', chats, '--load-cache', 'turn.kv', ...who, '--max-new-tokens', '1', '--chat'],
        { cwd },
      );
      expect([code, how.length === 0 ? '' : stderr.trim()]).toEqual(
        how.length === 0 ? [0, ''] : [2, '--chat: expected a document that was read as a turn, got turn.kv'],
      );
    }
    const { stderr } = await run(...about, ...who, '--chat');
    expect(stderr).toMatch(/^--chat: expected a model with a chat template, got /);
    writeFileSync(join(chats, 'chat_template.jinja'), '{% for m in messages %}{{ m.content | upper }}{% endfor %}');
    expect((await kv(['run', '--model', chats, ...about, ...who], { cwd })).stderr).toMatch(
      /^--question: expected a chat template that writes the question as it stands, got that of .*: --raw asks without it/,
    );
  });
  it('refuses a file that is cut, of another model, or no cache', async () => {
    await run('--document', 'story.txt', '--save-cache', 'cut.safetensors', ...KEEP);
    writeFileSync(join(cwd, 'cut.safetensors'), readFileSync(join(cwd, 'cut.safetensors')).subarray(0, -1));
    for (const [file, sentence] of [
      ['cut.safetensors', /expected \d+ bytes, got \d+: the file is cut$/],
      ['tiny/model.safetensors', /expected a saved cache with a header of JSON, got another file$/],
      ['story.txt', /expected a saved cache, got 122 bytes/],
    ] as const) {
      const { code, stdout, stderr } = await run('--load-cache', file, '--question', 'x');
      expect([code, stdout]).toEqual([2, '']);
      expect(stderr.trim()).toMatch(sentence);
    }
    expect(
      (await run('--load-cache', 'cut.safetensors', '--question', 'x', '--save-cache', 'no/such/folder')).code,
    ).toBe(2);
    expect(existsSync(join(cwd, 'no'))).toBe(false);
  });
  it.each([
    [['--question', 'x'], /^--question: expected --document or --load-cache too, got neither$/],
    [['--prompt', 'y', '--save-cache', 'x'], /^--save-cache: expected --document or --load-cache too, got neither$/],
    [['--document', 'story.txt'], /^--question: expected at least one question, or --save-cache, got neither$/],
    [
      ['--document', 'story.txt', '--prompt', 'x', '--question', 'y'],
      /^prompt: expected exactly one of a prompt in quotes /,
    ],
    [['--document', 'none.txt', '--question', 'y'], /^none\.txt: cannot be read \(ENOENT\)$/],
    [['--document', 'long.txt', '--question', 'y'], /^prompt: must fit the model's context of 256 tokens, got \d+$/],
    [
      ['--document', 'story.txt', '--question', 'y', '--policy', 'knorm'],
      /^--budget: '.*' evicts, so a budget is expected/,
    ],
  ])('%j is one sentence', async (args, sentence) => {
    const { code, stdout, stderr } = await run(...args);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr.trim()).toMatch(sentence);
  });
});
