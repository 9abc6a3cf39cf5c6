/**
 * `npm run registry`: serves every package of this clone as if it were published, on this machine, until Ctrl-C; for
 * `npm create @kv/piece`, `npm create @kv/app`, `npm install @kv/...` and `npm publish` outside the clone. Packages published there are gone
 * when it ends.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { install } from './lib/install.mjs';
import { packed } from './lib/packed.mjs';
import { fail, run, showUsage } from './lib/process.mjs';
import { repository } from './lib/release.mjs';

showUsage(import.meta.filename);
await install('all');
const { startRegistry } = await import('./lib/registry.mjs');
console.error('registry: builds and packs every package ...');
const { code, output } = await run('turbo', ['run', 'build', 'types', '--output-logs=errors-only']);
if (code !== 0) fail(`${output}registry: the packages could not be built: see above.`, code);

const folder = mkdtempSync(join(tmpdir(), 'kv-registry-')),
  registry = await startRegistry(folder, { others: true }),
  settings = join(folder, 'npmrc');
for (const { tarball } of await packed(folder, repository() ?? '')) await registry.publish(tarball);
writeFileSync(settings, `${registry.settings}cache=${join(folder, 'cache')}\n`);
console.log(`kv is served as if it were published, until Ctrl-C. In another shell, outside this clone:
  export NPM_CONFIG_USERCONFIG=${settings}
  npm create @kv/piece kv-mine
  npm create @kv/app my-chat`);
process.once('SIGINT', async () => {
  await registry.stop();
  rmSync(folder, { recursive: true, force: true });
  process.exit(0);
});
