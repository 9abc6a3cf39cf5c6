/**
 * `node tools/sizes.mjs`: measures what importing everything from a package costs: its built code and the code it uses
 * of other @kv packages, tree-shaken and minified, without packages that it imports on demand; of a package for pages,
 * its one file by gzip.
 */
import { readFileSync } from 'node:fs';
import { isAbsolute, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { gzipSync } from 'node:zlib';
import { install } from './lib/install.mjs';
import { manifest, published } from './lib/manifests.mjs';
import { fail, root, run, showUsage } from './lib/process.mjs';

/** Returns the bytes of one built package, and the limit that its package.json sets. */
export async function size(folder) {
  const { kv, exports } = manifest(join(root, folder));
  if (kv.maxGzippedBytes) {
    const file = readFileSync(join(root, folder, exports['.'].default));
    return { bytes: gzipSync(file, { level: 9 }).length, ceiling: kv.maxGzippedBytes };
  }
  const { build } = await import('esbuild'),
    { outputFiles } = await build({
      stdin: {
        contents: Object.values(exports)
          .flatMap((entry) => entry.default ?? [])
          .map((file, i) => `export * as _${i} from ${JSON.stringify(file)};`)
          .join('\n'),
        resolveDir: join(root, folder),
      },
      bundle: true,
      minify: true,
      write: false,
      format: 'esm',
      platform: 'neutral',
      target: 'es2022',
      logLevel: 'silent',
      plugins: [
        {
          name: 'third-party-stays-out',
          setup: (bundler) =>
            bundler.onResolve({ filter: /^[^.]/ }, ({ path, kind }) =>
              isAbsolute(path) || (path.startsWith('@kv/') && kind !== 'dynamic-import')
                ? undefined
                : { path, external: true },
            ),
        },
      ],
    });
  return { bytes: outputFiles[0].contents.length, ceiling: kv.maxBytes };
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  showUsage(import.meta.filename);
  await install('all');
  const { code, output } = await run('turbo', ['run', 'build', '--output-logs=errors-only']);
  if (code !== 0) fail(`${output}sizes: the packages could not be built: see above.`, code);
  for (const {
    folder,
    manifest: { name, kv },
  } of published())
    if (kv?.maxBytes || kv?.maxGzippedBytes) {
      const { bytes, ceiling } = await size(folder);
      console.log(`${name.padEnd(36)} ${String(bytes).padStart(7)} of ${String(ceiling).padStart(7)} bytes`);
    }
}
