import { recommendedPolicies } from '@kv/policies';
import { expect, it, test } from 'vitest';
import { kv } from './terminal.ts';

interface Listed {
  readonly name: string;
  readonly kind: string;
}
const listed = async (...args: string[]): Promise<readonly Listed[]> =>
  JSON.parse((await kv(['pieces', ...args, '--json'])).stdout) as readonly Listed[];

test('a part of a name, whatever its case, lists the names that have it; a kind those of the kind', async () => {
  const all = await listed();
  for (const part of ['snap', 'SNAP', 'ent', 'sum'])
    expect(await listed(part), part).toEqual(
      all.some(({ name }) => name === part)
        ? all.filter(({ name }) => name === part)
        : all.filter(({ name }) => name.toLowerCase().includes(part.toLowerCase())),
    );
  const kinds = [...new Set(all.map(({ kind }) => kind))];
  expect(kinds.length).toBeGreaterThan(5);
  for (const kind of kinds) expect(await listed('--kind', kind), kind).toEqual(all.filter((one) => one.kind === kind));
  expect(await listed('snap', '--kind', 'scorer')).toEqual(all.filter(({ name }) => name === 'snapkv'));
  expect((await kv(['pieces', 'snap'])).stdout).toMatch(/^snapkv +scorer /m);
});

it.each([
  [['--kind', 'skorer'], /^--kind: must be allocator, .*scorer.*, got "skorer"\n$/],
  [['snapkv', '--kind', 'selector'], /^--kind: expected that of 'snapkv', scorer, got another\n$/],
  [['qqqq'], /^policy: expected the name of a method or piece, got 'qqqq'\n$/],
])('%j is one sentence', async (args, sentence) => {
  const { code, stdout, stderr } = await kv(['pieces', ...args]);
  expect([code, stdout]).toEqual([2, '']);
  expect(stderr).toMatch(sentence);
});

test('the recommended policies come first, each with when to use it, in the whole list alone', async () => {
  const { stdout } = await kv(['pieces']),
    lines = stdout.split('\n');
  expect(lines[0]).toBe('Try these first');
  for (const [i, { policy, when }] of recommendedPolicies.entries())
    expect(lines.slice(1 + 2 * i, 3 + 2 * i).map((line) => line.trim())).toEqual([policy, when]);
  expect((await kv(['pieces', '--kind', 'scorer'])).stdout).not.toContain('Try these first');
});

it('a name that is cut short is guessed, the shortest first', async () =>
  expect((await kv(['explain', 'snapk'])).stderr).toContain('(did you mean snapkv, '));
