/**
 * Bundles the targets and everything they call into one script with coverage counters, by Jazzer.js's instrumentation.
 * Jazzer.js's own engine is a native module for a newer C library than Debian 12 has; `explore.mjs` replaces it.
 */
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { transformAsync } from '@babel/core';
import { build } from 'esbuild';

const require = createRequire(import.meta.url);
const { codeCoverage } = require('@jazzer.js/instrumentor/dist/plugins/codeCoverage.js');
const { compareHooks } = require('@jazzer.js/instrumentor/dist/plugins/compareHooks.js');

/** Writes the bundle to `outfile`; returns the number of its counters. */
export async function bundle(outfile, { instrumented = true } = {}) {
  const { outputFiles } = await build({
    entryPoints: [join(import.meta.dirname, 'targets.ts')],
    bundle: true,
    platform: 'node',
    format: 'esm',
    conditions: ['@kv/source'],
    external: ['undici'],
    write: false,
    // Fixtures are found relative to the sources.
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
