import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build } from 'esbuild';
import { namespaces, piecePackages, published } from './manifests.mjs';
import { root } from './process.mjs';

/** Options of functions, by package, and what models keep. */
const SCHEMAS = `
import * as engine from './packages/engine/src/schemas.ts';
import * as models from './packages/models/src/options.ts';
import * as server from './packages/server/src/options.ts';
import * as stores from './packages/stores/src/options.ts';
export { growthRows } from './tools/lib/model-growth.ts';
export const schemas = { '@kv/engine': engine, '@kv/models': models, '@kv/server': server, '@kv/stores': stores };
`;

/**
 * Returns the exports of every package with pieces, by package name, core and policies first; from source.
 * @param {(folder: string) => boolean} [included] whether a package is one of them
 */
export async function declared(included = () => true) {
  const first = published().filter(({ manifest: { name } }) => name === '@kv/core' || name === '@kv/policies');
  const { outputFiles } = await build({
    stdin: {
      contents: namespaces([...first, ...piecePackages().filter(({ folder }) => included(folder))]) + SCHEMAS,
      resolveDir: root,
      sourcefile: 'pieces.mjs',
    },
    bundle: true,
    write: false,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    conditions: ['@kv/source'],
    logLevel: 'silent',
  });
  const scratch = mkdtempSync(join(tmpdir(), 'kv-declared-'));
  try {
    const script = join(scratch, 'pieces.mjs');
    writeFileSync(script, outputFiles[0].contents);
    return await import(pathToFileURL(script).href);
  } finally {
    rmSync(scratch, { recursive: true });
  }
}
