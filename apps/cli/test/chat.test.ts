import { existsSync, mkdirSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { onlyAttention } from '@kv/checkpoints';
import { bytesText } from '@kv/core/shared';
import { generate, loadModel, saveCache, Sequence, type Model } from '@kv/models';
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { heldShares } from '@kv/engine';
import { droppedText } from '../src/chat/evicted-text.ts';
import { defaultBudget } from '../src/commands/chat.ts';
import { CHAT_MODEL, chatModel } from '../src/model-source.ts';
import { folder, kv, type Run } from './terminal.ts';
import { CONTEXT, writeTinyModel } from '@kv/model-testing';
import { fixture } from '@kv/model-testing/fixture';

let cwd: string, model: string;
beforeAll(() => {
  cwd = folder();
  model = writeTinyModel(join(cwd, 'tiny'));
});
const KEEP = ['--policy', 'streaming', '--budget', '48', '--max-new-tokens', '12'];
const TURN = 'Say what you know of the clocks, and then of April.';
const chat = (args: readonly string[], lines: readonly string[], more: Run = {}): ReturnType<typeof kv> =>
  kv(
    [
      'chat',
      '--model',
      model,
      ...(args.some((arg) => /^--(policy|load)$/.test(arg)) ? [] : ['--policy', 'full']),
      ...args,
    ],
    { cwd, lines, ...more },
  );
/** A turn that the tiny model answers without an end. */
const ENDLESS = 'one two three';
const PLAIN =
  '{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}';
function withTemplate(at: string, template = PLAIN): string {
  const own = writeTinyModel(at);
  writeFileSync(join(own, 'chat_template.jinja'), template);
  return own;
}
/** A turn after which the model would write a line break first. */
async function firstBlank(of: Model): Promise<string> {
  for (let i = 0; i < 5000; i++) {
    const prompt = `Turn ${i}`;
    if ((await generate(of, { prompt, maxNewTokens: 1 })).text === '\n') return prompt;
  }
  throw new Error('expected a turn that is answered with a line break, got none');
}
/** The numbers after each turn. */
const turnsOf = (stderr: string): { tokens: number; slots: number }[] =>
  [
    ...stderr.matchAll(
      /^\[#{1,12}\.*\] (\d+) of 48 slots, [\d.]+ KiB of keys and values(?:, [\d.]+ KiB recorded for policies)?; (\d+) tokens so far; /gm,
    ),
  ].map(([, slots, tokens]) => ({
    tokens: Number(tokens),
    slots: Number(slots),
  }));

describe('kv chat', () => {
  it("goes on past the model's context, at its budget", async () => {
    const { code, stderr } = await chat(KEEP, Array<string>(10).fill(TURN));
    const turns = turnsOf(stderr);
    expect([code, turns.length]).toEqual([0, 10]);
    expect(turns.every(({ slots }) => slots === 48)).toBe(true);
    expect(turns.at(-1)!.tokens).toBeGreaterThan(2 * CONTEXT);
  });
  it("goes on within one answer and one turn that are longer than the model's context", async () => {
    const { code, stderr } = await chat(
      [...KEEP.slice(0, 4), '--max-new-tokens', '400'],
      [ENDLESS, 'y'.repeat(2 * CONTEXT)],
    );
    const [first, second] = turnsOf(stderr);
    expect([code, first.tokens > 400, second.tokens > first.tokens + 2 * CONTEXT]).toEqual([0, true, true]);
    expect(stderr).not.toContain('full');
  });
  it('has a policy and a budget where none is named, and says which', async () => {
    const { code, stderr } = await kv(['chat', '--model', model, '--max-new-tokens', '4'], {
      cwd,
      lines: Array<string>(6).fill(TURN),
    });
    expect([code, stderr]).toEqual([
      0,
      expect.stringMatching(/: outstandingSentences keeps 64 slots \(.* KiB\), 25 % of its context; \/help/),
    ]);
    const slots = [...stderr.matchAll(/ (\d+) of 64 slots, /g)].map(([, count]) => Number(count));
    expect([slots.length, Math.max(...slots)]).toEqual([6, 64]);
  });
  it('keeps a budget under its own policy where only a budget is given', async () => {
    const { code, stderr } = await kv(['chat', '-m', model, '--budget', '40', '--max-new-tokens', '4'], {
      cwd,
      lines: [TURN],
    });
    expect([code, stderr]).toEqual([0, expect.stringContaining('outstandingSentences keeps 40 slots')]);
  });
  it('takes a quarter of the context, or what fits an eighth of the memory', () => {
    const config = { mixers: onlyAttention(16, { kvHeads: 8, headDim: 64 }), maxPositions: 131_072 },
      pair = { f32: 2 * 4 * 64, q8: 2 * (64 + 4) } as const;
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 64 }), fc.constantFrom('f32', 'q8'), (gib, cacheForm) => {
        const slot = 16 * 8 * (pair[cacheForm] + 4),
          budget = defaultBudget({ config: config as unknown as Model['config'], cacheForm }, gib * 2 ** 30),
          slots = budget === '25%' ? 131_072 / 4 : Number(budget);
        expect(slots).toBeLessThanOrEqual(131_072 / 4);
        expect(slots * slot).toBeLessThanOrEqual((gib * 2 ** 30) / 8);
        if (budget !== '25%') expect((slots + 1) * slot).toBeGreaterThan((gib * 2 ** 30) / 8);
      }),
    );
  });
  it('takes the largest chat model of the cache that fits, else a small one of the hub', async () => {
    const home = join(cwd, 'hub-home');
    const cached = (name: string, bytes: number): void => {
      const at = join(home, 'hub', `models--org--${name}`, 'snapshots/abc');
      mkdirSync(at, { recursive: true });
      writeFileSync(join(at, 'model.gguf'), '');
      truncateSync(join(at, 'model.gguf'), bytes);
    };
    expect(await chatModel({ HF_HOME: home })).toBe(CHAT_MODEL);
    cached('Small-Instruct', 1000);
    cached('Other-it', 2000);
    cached('Base', 3000);
    cached('Huge-Chat', 2 ** 50 / 2 ** 8);
    expect(await chatModel({ HF_HOME: home })).toBe('org/Other-it/model.gguf');
  });
  it('answers every line of an input that has ended', async () => {
    const { code, stderr } = await chat(KEEP, [TURN, TURN, TURN], { piped: true });
    expect([code, turnsOf(stderr).length]).toEqual([0, 3]);
  });
  it('says that a base model goes on with what is written, and begins its answer after blank lines', async () => {
    const loaded = await loadModel(model),
      blank = await firstBlank(loaded);
    loaded.destroy();
    const { stdout, stderr } = await chat(['--max-new-tokens', '12'], [blank]);
    expect(stderr).toMatch(/^it has no chat template, as base models have none: .* goes on with what you write/m);
    expect(stdout.trim()).not.toBe('');
    const { stderr: templated } = await chat(['--model', withTemplate(join(cwd, 'told'))], [TURN]);
    expect(templated).not.toContain('no chat template');
  });
  it('counts keys and values as kv explain does, and apart from them what a policy remembers', async () => {
    const policy = 'snapkv(window=8)',
      { stderr } = await chat(['--policy', policy, '--budget', '200', '--max-new-tokens', '1'], [ENDLESS]),
      [, keys, other, tokens] =
        / of 200 slots, (.*) of keys and values, (.*) recorded for policies; (\d+) tokens so far/m.exec(stderr)!; // or the test fails
    const explained = await kv(['explain', policy, '--model', model, '--length', tokens, '--budget', '200', '--json'], {
      cwd,
    });
    const { bytes } = JSON.parse(explained.stdout) as { bytes: Record<'before' | 'rings' | 'statistics', number> };
    expect([keys, other]).toEqual([bytesText(bytes.before), bytesText(bytes.rings)]);
  });
  it('counts states of layers apart from keys and values, and from what a policy remembers', async () => {
    const { stderr } = await kv(
      ['chat', '--model', fixture('qwen3_5'), '--policy', 'h2o', '--budget', '50%', '--max-new-tokens', '2'],
      { cwd, lines: ['hello', '/bytes'] },
    );
    expect(stderr).toMatch(/ KiB of keys and values, 23\.6 KiB of states, [\d.]+ (?:Ki)?B recorded for policies; /m);
    expect(stderr).toMatch(/^(?:.*, )?states 23\.6 KiB.*, most so far/m);
  });
  it('answers as kv run does, and evicts while it answers if a cadence is given', async () => {
    const said = (await chat(['--max-new-tokens', '12'], [TURN])).stdout;
    expect(said).toBe(
      (await kv(['run', '--model', model, '--prompt', TURN, '--max-new-tokens', '12', '--stop', '\n'], { cwd })).stdout,
    );
    expect((await chat([...KEEP, '--every', '3'], [TURN, TURN])).code).toBe(0);
  });
  it('saves what loads and goes on in the same words', async () => {
    const [one, two, three] = ['The first turn is this one here.', TURN, 'And the last one asks again.'];
    let marks: number[] = [];
    const long = await chat([...KEEP, '--save', 'end.safetensors'], [one, two, '/save middle.safetensors', three], {
      onWrite: (all) => {
        marks = [...marks, all.length];
      },
    });
    expect(long.stderr).toContain('saved to middle.safetensors');
    const rest = await chat(['--load', 'middle.safetensors', '--max-new-tokens', '12'], [three]);
    expect(rest.stderr).toContain('streaming ∘');
    expect(rest.stderr).toContain('keeps 48 slots (at most 6.8 KiB), ');
    expect(long.stdout.endsWith(rest.stdout)).toBe(true);
    expect(turnsOf(rest.stderr)).toEqual(turnsOf(long.stderr).slice(2));
    expect(existsSync(join(cwd, 'end.safetensors'))).toBe(true);
    expect((await chat(['--load', 'end.safetensors', '--policy', 'h2o', '--budget', '48'], ['x'])).stderr).toContain(
      'does not remember: save the conversation under a policy that reads it, such as',
    );
  });
  it('goes on with what a library saved that had no policy', async () => {
    const loaded = await loadModel(model),
      sequence = new Sequence(loaded);
    await sequence.append(loaded.tokenizer.encode(TURN).ids);
    writeFileSync(join(cwd, 'bare.safetensors'), await saveCache(sequence));
    loaded.destroy();
    const { code, stderr } = await chat(['--load', 'bare.safetensors', '--max-new-tokens', '2'], ['one']);
    expect([code, stderr]).toEqual([0, expect.stringContaining('full keeps all until the context')]);
  });
  it('shows what was dropped, the bytes, and what can be typed', async () => {
    const { stdout, stderr } = await chat(KEEP, [TURN, TURN, '/dropped', '/bytes', '/help', '/what', '/quit', TURN]);
    expect(stdout).toMatch(/\[[^\]]*clocks[^\]]*\]/);
    expect(stdout).toMatch(
      /\d+ tokens: \d+ % are kept by half of the layers and KV heads or more, \d+ % dropped by all; of \d+ slots, \d+ are kept and \d+ dropped\n$/,
    );
    expect(stderr).toMatch(/^cache [\d.]+ KiB.*most so far/m);
    expect(stderr).toMatch(/^\/save FILE +write the cache/m);
    expect(stderr).toMatch(/^expected \/policy \[TEXT\] \[BUDGET\], .* or \/quit, or .*, got "\/what"$/m);
    expect(turnsOf(stderr)).toHaveLength(2);
  });
  it('shows the whole conversation in /dropped, the last token of an answer too, and keeps what is protected', async () => {
    const { stdout } = await chat(
        ['--policy', 'streaming(sinks=0)', '--budget', '24', '--protect', 'clocks', '--max-new-tokens', '4'],
        [TURN, TURN, '/dropped', '/why clocks'],
      ),
      [answer] = stdout.split('\n').slice(-5),
      all = stdout.slice(stdout.indexOf(answer));
    expect(all).toMatch(/place \d: \d+ tokens, 100 % kept, in every layer alike/);
    const said = stdout.split('\n')[1]; // the answer to the second message
    expect(stdout.replace(/[[\]]/g, '').split('\n').slice(2).join('\n')).toContain(said);
  });
  it('reads names of parts between commas, as the other commands do, and says once that a text is not there', async () => {
    const { stderr } = await chat(
      [
        ...KEEP.slice(0, 4),
        '--max-new-tokens',
        '2',
        '--system',
        'Say.',
        '--protect',
        'system,first-user',
        '--protect',
        'a,b',
      ],
      ['one', 'two'],
    );
    expect(stderr.match(/^note: .*$/gm)).toEqual([
      "note: 'a,b' is to be protected, and stands nowhere in the conversation so far",
    ]);
  });
  it('goes on under another policy, says where a text stands, and starts over', async () => {
    const { code, stdout, stderr } = await chat(
      ['--max-new-tokens', '4'],
      [TURN, '/why clocks', '/policy streaming 24', '/why clocks', '/why', '/policy nosuch 8', '/clear', '/why clocks'],
    );
    expect(code).toBe(0);
    const [before, after, cleared] = stdout.split('\n').filter((line) => line.includes('"clocks"'));
    expect(before).toMatch(/^"clocks": \d+ tokens, 100 % kept/);
    expect(after).toMatch(/^"clocks": \d+ tokens, \d?\d % kept/);
    expect(cleared).toBe('"clocks" is not in the conversation');
    expect(stderr).toMatch(/^streaming.* ∘ .*, 24 slots \(at most 3\.4 KiB\)$/m);
    expect(stderr).toMatch(/nosuch/);
    expect(stderr).toMatch(/^expected \/why TEXT, got "\/why"$/m);
  });
  it('changes the budget alone, or the policy alone, tells both, and names every place of a text', async () => {
    const { code, stdout, stderr } = await chat(
      ['--max-new-tokens', '4', '--policy', 'streaming', '--budget', '64'],
      [
        TURN,
        '/policy 32',
        '/policy knorm',
        '/policy',
        '/policy 4KiB',
        '/policy 99B',
        TURN,
        '/why clocks',
        '/clear now',
        '/policy full 25%',
        '/policy full',
        '/policy 25%',
        '/policy',
      ],
    );
    expect(code).toBe(0);
    expect(stderr.match(/^\S+ ∘ topK, \d+ slots \(at most \d+\.\d KiB\)$/gm)).toEqual([
      'streaming ∘ topK, 32 slots (at most 4.5 KiB)',
      'knorm ∘ topK, 32 slots (at most 4.5 KiB)',
      'knorm ∘ topK, 32 slots (at most 4.5 KiB)',
      'knorm ∘ topK, 28 slots (at most 3.9 KiB)',
    ]);
    expect(stderr).toMatch(/^budget: 99B hold no slot: one slot in every layer and KV head is 144 bytes in q8/m);
    expect(stdout).toMatch(/^"clocks" stands in 2 places:\n {2}place 1: 6 tokens, .*\n {2}place 2: 6 tokens, /m);
    expect(stderr).toMatch(/^expected \/clear alone, got "\/clear now"$/m);
    const refused = "/policy: expected no budget with 'full', which evicts nothing, got 25%\n";
    expect(stderr).toContain(`${refused}full\n${refused}full\n`);
  });
  it('Ctrl-C ends an answer, twice within a second the conversation, and at the prompt it leaves', async () => {
    let pressed = 0;
    const once = await chat([...KEEP.slice(0, 4), '--max-new-tokens', '40'], [TURN, TURN], {
      onWrite: (_, interrupt) => {
        if (++pressed === 3) interrupt();
      },
    });
    expect(once.code).toBe(0);
    expect(once.stderr).toMatch(/, stopped$/m);
    expect(turnsOf(once.stderr)).toHaveLength(2);
    pressed = 0;
    const twice = await chat(KEEP, [TURN, TURN, TURN], {
      onWrite: (_, interrupt) => {
        if ([3, 4].includes(++pressed)) interrupt();
      },
    });
    expect(twice.code).toBe(130);
    expect(turnsOf(twice.stderr).length).toBeLessThan(3);
    const prompt = await chat(KEEP, [TURN, '/dropped', TURN], {
      onWrite: (all, interrupt) => {
        if (all.endsWith(' dropped\n')) interrupt();
      },
    });
    expect([prompt.code, turnsOf(prompt.stderr).length]).toEqual([0, 1]);
  });
  it("speaks the model's chat template, a saved conversation too", async () => {
    const own = withTemplate(join(cwd, 'templated'));
    const { code, stdout } = await chat(
      ['--model', own, '--system', 'Be brief.', '--max-new-tokens', '4'],
      ['one', 'two', '/dropped'],
    );
    expect(code).toBe(0);
    expect(stdout).toMatch(/<system>Be brief\.<\/><user>one<\/><assistant>[^]*<\/><user>two<\/><assistant>/);
  });
  it('without a policy it says when the context is full, and goes on', async () => {
    const { code, stderr } = await chat(['--max-new-tokens', '4'], ['x'.repeat(CONTEXT - 20), 'y'.repeat(40), 'z']);
    expect(code).toBe(0);
    expect(stderr).toMatch(
      /chat: expected a message that fits the model's context, got \d+ tokens after \d+: a policy and a budget keep a conversation going\n\[/,
    );
  });
  it('goes on after a message that is refused, and saves what was said', async () => {
    const own = withTemplate(
        join(cwd, 'refuses'),
        PLAIN.replace('%}<', "%}{% if 'bad' in m.content %}{{ raise_exception('not this') }}{% endif %}<"),
      ),
      { code, stdout, stderr } = await chat(
        ['--model', own, '--max-new-tokens', '4', '--save', 'after.safetensors'],
        ['bad', 'one', 'bad', 'two', '/dropped', 'bad'],
      );
    expect([code, stderr.match(/not this/g)?.length]).toEqual([0, 3]);
    expect(stdout).toMatch(/^[^]*<user>one<[^]*<user>two</);
    expect(stdout).not.toContain('bad');
    expect((await chat(['--model', own, '--load', 'after.safetensors', '--max-new-tokens', '1'], ['x'])).code).toBe(0);
  });
  it('sends a text that begins with a slash after a second one, and saves nothing that has not begun', async () => {
    const { code, stdout, stderr } = await chat(
      ['--max-new-tokens', '2'],
      ['/save x.safetensors', '//usr/bin/env is what?', '/usr/bin/env', '/dropped'],
    );
    expect([code, existsSync(join(cwd, 'x.safetensors'))]).toEqual([0, false]);
    expect(stdout).toMatch(/^\/usr\/bin\/env is what\?/m);
    expect(stderr).toMatch(/^\/save: expected a conversation that has begun, got an empty one: say something first$/m);
    expect(stderr).toMatch(/ or \/\/ before a text that begins with \/, got "\/usr\/bin\/env"$/m);
  });
  it.each([
    [
      ['--policy', 'knorm'],
      /^--budget: 'knorm ∘ topK' evicts, so a budget is expected: a number of slots, a share such as '25%', or bytes such as '64MiB'$/,
    ],
    [['--policy', 'knorm', '--budget', '256'], /^--budget: expected fewer slots than the context of .*, 256, got 256$/],
    [
      ['--policy', 'snapkv(window=32)', '--budget', '16'],
      /^--budget: 16 slots are fewer than '.*' forces in every head: expected a budget of at least 32, as snapkv\(window=32,kernel=5\) forces them$/,
    ],
    [
      ['--policy', 'knorm', '--budget', '200', '--block', '100'],
      /^--block: expected at most 56 tokens with a budget of 200, got 100$/,
    ],
    ...['budget', 'block', 'every'].map((name): [string[], RegExp] => [
      ['--policy', 'full', `--${name}`, '10'],
      new RegExp(
        `^--${name}: expected a policy that evicts, got 'full': name one with --policy, or leave --${name} out$`,
      ),
    ]),
    [['--system', 'x', '--load', 'y'], /^--system: expected none with --load/],
    [['--load', 'nothing.safetensors'], /nothing\.safetensors: cannot be read \(ENOENT\)$/],
    [
      ['--policy', 'knorm', '--budget', '100%'],
      /^--budget: expected fewer slots than the context of .*, 256, got 256$/,
    ],
  ])('%j is one sentence', async (args, sentence) => {
    const { code, stderr } = await chat(args, []);
    expect([code, stderr.trim().split('\n').length]).toEqual([2, 1]);
    expect(stderr.trim()).toMatch(sentence);
  });
});

describe('what was dropped', () => {
  it('counts layers and heads by position, and shows each character once', () => {
    expect(
      heldShares(
        [
          [[0, 2], [2]],
          [[2], [1, 2]],
        ],
        4,
      ),
    ).toEqual([0.25, 0.25, 1, 0]);
    const text = {
      ids: [1, 2, 3, 4],
      text: 'a😀b',
      offsets: [
        [0, 1],
        [1, 3],
        [1, 3],
        [3, 4],
      ],
    };
    expect(droppedText({ progress: { text } as never, kept: () => [[[0, 1, 2]]] }, (text) => `[${text}]`, 'c')).toBe(
      'a😀[b]c\n4 tokens: 75 % are kept by half of the layers and KV heads or more, 25 % dropped by all; of 4 slots, 3 are kept and 1 dropped\n',
    );
  });
});
