import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { inTurn } from '@kv/model-testing/in-turn';
import { recommendedPolicies } from '@kv/policies';
import { beforeAll, expect, it, test } from 'vitest';
import { KV } from '../src/main.ts';
import { createProgram, withHubFlag } from '../src/program.ts';
import { resolvePolicy } from '../src/policy/resolve-policy.ts';
import { folder, kv } from './terminal.ts';

/** A command of an example, as words, and whether something is piped into it. */
interface Asked {
  readonly words: readonly string[];
  readonly piped: boolean;
}

/** The commands of kv in a line of a shell. */
function commandsIn(line: string): readonly Asked[] {
  const quoted = /'[^']*'|"[^"]*"/g,
    texts = line.match(quoted) ?? [],
    bare = line.replace(quoted, '\0').replace(/\s#.*$/, '');
  let at = 0;
  return bare.split(/(&&|\||<\()/).flatMap((part, i, parts) => {
    const words = part
      .replace(/>.*|\)\s*$/g, '')
      .trim()
      .split(/\s+/)
      .map((word) => word.replace(/\0/g, () => (texts[at++] ?? '').slice(1, -1)));
    return words[0] === 'kv' ? [{ words: words.slice(1), piped: parts[i - 1] === '|' }] : [];
  });
}

/** Every example of every help, of docs/command-line.md and of the README. */
async function all(): Promise<readonly Asked[]> {
  const program = await createProgram(
      KV,
      {
        stdout: { write: () => {} },
        stderr: { write: () => {} },
        signal: new AbortController().signal,
        cwd: '.',
        debug: false,
      },
      { onFlags: () => undefined, onStop: () => undefined },
    ),
    paths = [
      [],
      ...program.commands.flatMap((one) => [[one.name()], ...one.commands.map((sub) => [one.name(), sub.name()])]),
    ],
    helps = await Promise.all(paths.map((path) => kv([...path, '--help'], { columns: 5000 }))),
    pages = ['docs/command-line.md', 'apps/cli/README.md'].map((file) =>
      readFileSync(new URL(`../../../${file}`, import.meta.url), 'utf8'),
    );
  return [
    ...helps.flatMap(({ stdout }) => [...stdout.matchAll(/^ {2}\$ (.*)$/gm)]),
    ...pages.flatMap((page) => [...page.matchAll(/^(?: {4})?((?:kv|echo|printf|source) .*)$/gm)]),
  ].flatMap(([, line = '']) => commandsIn(line));
}

let examples: readonly Asked[], cwd: string;
beforeAll(async () => {
  examples = await all();
  cwd = folder();
  const river = 'The river was wide. The boys walked on in silence. '.repeat(8),
    text = `${river}The secret code is: XK7M9P2Q. ${river}The secret code is:\n`;
  for (const file of ['book.txt', 'p.txt']) writeFileSync(join(cwd, file), text);
  writeFileSync(join(cwd, 'facts.txt'), 'A is 1. B is 2.');
  writeFileSync(join(cwd, 'ids.json'), '["a", "b", "c"]');
  writeFileSync(
    join(cwd, 'person.json'),
    '{"type":"object","properties":{"age":{"type":"integer"}},"required":["age"],"additionalProperties":false}',
  );
  writeFileSync(
    join(cwd, 'mine.mjs'),
    "export const policy = { protocol: 1, from: ['start'], to: 'kept', name: 'mine', label: 'mine', atoms: [] };",
  );
});

it('finds commands in lines of a shell', () => {
  expect(commandsIn(`echo 'a | b' | kv run --policy 'x(y=1) | topK' --stop "a b" # 'c' | kv d`)).toEqual([
    { words: ['run', '--policy', 'x(y=1) | topK', '--stop', 'a b'], piped: true },
  ]);
  expect(commandsIn('source <(kv completion bash)')).toEqual([{ words: ['completion', 'bash'], piped: false }]);
  expect(commandsIn('kv completion zsh > ~/.zfunc/_kv')[0]?.words).toEqual(['completion', 'zsh']);
});

/** Commands whose default policies are a comparison of many. */
const OWN: ReadonlySet<string> = new Set(['needle', 'bench']);
const RECOMMENDED = recommendedPolicies.map(({ policy }) => policy);

test('every example of help, docs/command-line.md and the README names a recommended policy, and is a command with options that are taken', async () => {
  expect(examples.length).toBeGreaterThan(70);
  for (const { words } of examples) {
    const parsed: Record<string, unknown>[] = [],
      program = await createProgram(
        KV,
        {
          stdout: { write: () => {} },
          stderr: { write: () => {} },
          signal: new AbortController().signal,
          cwd,
          debug: false,
        },
        { onFlags: () => undefined, onStop: () => undefined },
      );
    for (const command of [...program.commands, ...program.commands.flatMap((one) => one.commands)])
      command.action(() => void parsed.push(command.opts()));
    if (words[0] === 'help') {
      expect((await kv(words)).code, words.join(' ')).toBe(0);
      continue;
    }
    await expect(program.parseAsync(withHubFlag(words), { from: 'user' }), words.join(' ')).resolves.toBeDefined();
    expect(parsed, words.join(' ')).toHaveLength(1);
    for (const key of ['policy', 'decodePolicy', 'policies'])
      for (const text of [parsed[0]![key] ?? []].flat() as string[]) {
        await resolvePolicy(text, { cwd });
        if (!OWN.has(words[0] ?? '') && !/^\.|full$|^gate /.test(text) && !words.includes('--constants'))
          expect(RECOMMENDED, words.join(' ')).toContain(text);
      }
  }
});

/** Commands that end by themselves, soon, on the embedded model. */
const CHEAP: ReadonlySet<string> = new Set([
  'run',
  'trace',
  'explain',
  'pieces',
  'completion',
  'calibrate',
  'export',
  'chat',
]);
test('those that run on the embedded model alone, in seconds, do what they say', async () => {
  const cheap = examples.filter(
      ({ words }) =>
        CHEAP.has(words[0] ?? '') &&
        !words.some((word) => /^(--model|-m|-hf)$/.test(word)) &&
        !words.includes('./mine.mjs') &&
        words.join(' ') !== 'explain all --shape llama-3.2-1b',
    ),
    // what others read is written first
    first = (words: readonly string[]): boolean => words[0] === 'calibrate' || words.includes('--save-cache');
  expect(cheap.length).toBeGreaterThan(30);
  const firsts = cheap.filter(({ words }) => first(words)),
    others = cheap.filter(({ words }) => !first(words));
  for (const { words, piped } of [...firsts, ...inTurn(others, 2)]) {
    const lines = piped
        ? ['The secret code is: XK7M9P2Q. The secret code is:']
        : words[0] === 'chat'
          ? ['The river was']
          : undefined,
      // without a model a chat fetches one
      { code, stdout, stderr } = await kv([...words, ...(words[0] === 'chat' ? ['--model', 'embedded'] : [])], {
        cwd,
        ...(lines && { lines }),
        piped,
      });
    expect(code, `${words.join(' ')}: ${stderr}`).toBe(0);
    if (words[0] === 'run' && words.some((word) => word.includes('XK7M9P2Q.')) && !words.includes('--json'))
      expect(stdout).toBe(' XK7M9P2Q\n');
  }
}, 180_000);
