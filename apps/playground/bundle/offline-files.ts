import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Plugin } from 'vite';

/** File name of the built service worker: next to the page, since its scope is its own folder. */
export const SERVICE_WORKER = 'service-worker.js';

/**
 * Vite plugin that gives the service worker the list of files and a version that changes with any of them. `__BUILT__`
 * is false during development, when there is no service worker.
 */
export const offlineFiles = (): Plugin => ({
  name: 'kv:offline-files',
  config: (_, { command }) => ({ define: { __BUILT__: String(command === 'build') } }),
  writeBundle({ dir }) {
    if (dir === undefined) throw new Error('expected a folder to build into, got none');
    const all = readdirSync(dir, { recursive: true, encoding: 'utf8' }).map((file) => file.replaceAll('\\', '/'));
    const files = all.filter((file) => file !== SERVICE_WORKER && statSync(join(dir, file)).isFile()).sort();
    const hash = createHash('sha256');
    for (const file of files) hash.update(`${file}\0`).update(readFileSync(join(dir, file)));
    const built = join(dir, SERVICE_WORKER),
      code = readFileSync(built, 'utf8');
    if (!code.includes('__FILES__') || !code.includes('__VERSION__'))
      throw new Error(`${SERVICE_WORKER}: expected __FILES__ and __VERSION__ to put in, got neither`);
    writeFileSync(
      built,
      code
        .replaceAll('__FILES__', JSON.stringify(files))
        .replaceAll('__VERSION__', JSON.stringify(hash.digest('hex').slice(0, 16))),
    );
  },
});
