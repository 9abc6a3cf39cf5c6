/**
 * The targets and all that they call as one script that counts where it has been: Jazzer.js's instrumentation, applied
 * to a bundle. Its own engine is a native module for a newer C library than Debian 12 has, so that `explore.mjs`
 * stands in for it.
 */
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { transformAsync } from '@babel/core';
import { build } from 'esbuild';

const require = createRequire(import.meta.url);
const { codeCoverage } = require('@jazzer.js/instrumentor/dist/plugins/codeCoverage.js');
const { compareHooks } = require('@jazzer.js/instrumentor/dist/plugins/compareHooks.js');

/** Writes the bundle to `outfile`; gives how many places it counts. */
export async function bundle(outfile, { instrumented = true } = {}) {
  const { outputFiles } = await build({
    entryPoints: [join(import.meta.dirname, 'targets.ts')],
    bundle: true,
    platform: 'node',
    format: 'esm',
    conditions: ['@kv/source'],
    external: ['undici'],
    write: false,
    // Fixtures are found from where the sources stand.
    define: { 'import.meta.url': JSON.stringify(new URL('seeds.ts', import.meta.url).href) },
    logLevel: 'error',
  });
  let [code, places] = [outputFiles[0].text, 0];
  if (instrumented) {
    const plugins = [codeCoverage({ nextEdgeId: () => places++ }), compareHooks];
    ({ code } = await transformAsync(code, {
      plugins,
      compact: true,
      babelrc: false,
      configFile: false,
      sourceType: 'module',
    }));
  }
  const { writeFile } = await import('node:fs/promises');
  await writeFile(outfile, code);
  return places;
}
