import { cpSync, mkdirSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { root } from './process.mjs';

/** Serves a folder on the loopback interface, as `vite preview` does. */
export async function serveFolder(folder, headers = {}) {
  const { resolve } = createRequire(join(root, 'packages/page/package.json')),
    { preview } = await import(pathToFileURL(resolve('vite')).href);
  const server = await preview({
    root: folder,
    configFile: false,
    logLevel: 'error',
    appType: 'mpa', // a missing file is missing
    build: { outDir: folder },
    preview: { host: '127.0.0.1', port: 0, headers },
  });
  return {
    address: `http://127.0.0.1:${server.httpServer.address().port}/`,
    close: () => server.close(),
  };
}

/**
 * Makes a folder that a static server serves as it is: a page, kv.min.js, which must be built, and the embedded model.
 * @param {string} folder
 * @param {string} page a file of HTML
 * @param {string} [packages] where the packages page and model-embedded are; in this clone by default
 */
export function assemblePage(folder, page, packages = join(root, 'packages')) {
  const [model, copy] = [join(packages, 'model-embedded'), join(folder, 'model-embedded')];
  mkdirSync(copy, { recursive: true });
  for (const name of readdirSync(model))
    if (/\.(?:json|safetensors)$/.test(name)) cpSync(join(model, name), join(copy, name));
  cpSync(join(packages, 'page/dist/kv.min.js'), join(folder, 'kv.min.js'));
  cpSync(page, join(folder, basename(page)));
}
