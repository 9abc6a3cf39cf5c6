import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { beforeAll, expect, it } from 'vitest';
import { folder, kv } from './terminal.ts';
import { writeTinyModel } from '@kv/model-testing';

let cwd: string, model: string, ran: string;
beforeAll(async () => {
  cwd = folder();
  model = writeTinyModel(join(cwd, 'tiny'));
  ran = join(cwd, 'ran');
  const source = `import { writeFileSync } from 'node:fs';\nwriteFileSync(${JSON.stringify(ran)}, '');\n`;
  writeFileSync(join(cwd, 'evil.mjs'), source);
  const pack = join(cwd, 'node_modules/evil');
  mkdirSync(pack, { recursive: true });
  const manifest = { name: 'evil', version: '1.0.0', type: 'module', exports: './index.js', kv: { pieces: true } };
  writeFileSync(join(pack, 'package.json'), JSON.stringify(manifest));
  writeFileSync(join(pack, 'index.js'), source);
  const args = ['chat', '--model', model, '--engine', 'f32', '--max-new-tokens', '2'];
  const keep = ['--policy', 'streaming', '--budget', '48', '--save', 'chat'];
  // Elsewhere: a policy on a command line may import what is installed.
  const elsewhere = folder();
  expect((await kv([...args, ...keep], { cwd: elsewhere, lines: ['hello'] })).code).toBe(0);
  writeFileSync(join(cwd, 'chat'), readFileSync(join(elsewhere, 'chat')));
}, 60_000);

/** The saved chat with another label, in the one header that its manifest has. */
function relabelled(label: string): void {
  const bytes = readFileSync(join(cwd, 'chat'));
  const size = Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.toString('utf8', 8, 8 + size)) as { __metadata__: { kv: string } };
  header.__metadata__.kv = JSON.stringify({ ...(JSON.parse(header.__metadata__.kv) as object), policy: label });
  const json = Buffer.from(JSON.stringify(header));
  const padded = Buffer.alloc(8 * Math.ceil(json.length / 8), 0x20);
  json.copy(padded);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(padded.length));
  writeFileSync(join(cwd, 'hostile'), Buffer.concat([length, padded, bytes.subarray(8 + size)]));
}

it.each([
  () => './evil.mjs',
  () => '"./evil.mjs" ∘ topK',
  () => 'sum(knorm,"./evil.mjs") ∘ topK',
  () => pathToFileURL(join(cwd, 'evil.mjs')).href,
  () => join(cwd, 'evil.mjs'),
  () => 'evil',
  () => 'evil:anything ∘ topK',
  () => 'data:text/javascript,throw 1',
])('a saved chat with another label runs no code (%#)', async (label) => {
  relabelled(label());
  const args = ['--model', model, '--engine', 'f32', '--budget', '48', '--max-new-tokens', '2'];
  const chat = await kv(['chat', ...args, '--load', 'hostile'], { cwd, lines: ['x'] });
  expect([chat.code, chat.stderr.trim()]).toEqual([
    2,
    `hostile: expected a cache whose policy kv brings along, or --policy to name another, got '${label()}'`,
  ]);
  const { code } = await kv(
    ['run', ...args.filter((one) => one !== '--budget' && one !== '48'), '--load-cache', 'hostile', '--question', 'x'],
    { cwd },
  );
  expect(code).toBe(0);
  expect(existsSync(ran)).toBe(false);
});

it('a request names the catalogue and what --pieces names, and runs no other code', async () => {
  const hostile = [
    './evil.mjs',
    '"./evil.mjs" ∘ topK',
    'sum(knorm,"./evil.mjs") ∘ topK',
    pathToFileURL(join(cwd, 'evil.mjs')).href,
    join(cwd, 'evil.mjs'),
    'evil',
    'evil:anything ∘ topK',
    'data:text/javascript,throw 1',
  ];
  const asked = async (address: string): Promise<readonly unknown[]> => {
    const all: unknown[] = [];
    for (const path of ['completions', 'chat/completions'])
      for (const policy of ['streaming', ...hostile]) {
        const answer = await fetch(`${address}/v1/${path}`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({
            ...(path === 'completions' ? { prompt: 'x' } : { messages: [{ role: 'user', content: 'x' }] }),
            ...{ policy, budget: 24, max_tokens: 1 },
          }),
        });
        const { error } = (await answer.json()) as { readonly error?: { readonly param: string } };
        all.push([policy, answer.status, error?.param]);
      }
    return all;
  };
  let address: string | undefined, answered: Promise<readonly unknown[]> | undefined;
  const { code } = await kv(['serve', '--model', model, '--memory', '64MB', '--port', '0', '--device', 'cpu'], {
    cwd,
    onWrite: (text, interrupt) => {
      address ??= /"address":"([^"]+)"/.exec(text)?.[1];
      if (address !== undefined) answered ??= asked(address).finally(interrupt);
    },
  });
  expect(code).toBe(0);
  const once = [['streaming', 200, undefined], ...hostile.map((policy) => [policy, 400, 'policy'])];
  expect((await answered)?.slice(0, once.length)).toEqual(once);
  expect((await answered)?.slice(once.length + 1)).toEqual(once.slice(1));
  expect(existsSync(ran)).toBe(false);
});
