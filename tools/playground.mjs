/**
 * `npm run playground`: builds the page of apps/playground and serves it on this machine, as `vite preview` with its
 * options.
 */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { install } from './lib/install.mjs';
import { manifest } from './lib/manifests.mjs';
import { fail, root, run } from './lib/process.mjs';

await install('playground');
const { code, output } = await run('turbo', ['run', 'build', '--filter=@kv/playground', '--output-logs=errors-only']);
if (code !== 0) fail(`${output}The playground could not be built: see above.`, code);
const app = join(root, 'apps/playground'),
  vite = join(app, 'node_modules/vite');
process.chdir(app);
process.argv = [
  process.execPath,
  join(vite, manifest(vite).bin.vite),
  'preview',
  '--host',
  '127.0.0.1',
  ...process.argv.slice(2),
];
await import(pathToFileURL(process.argv[1]).href);
