/**
 * What an import of everything in a package costs: its built code and what it uses of other @kv packages, tree-shaken
 * and minified, without what it imports only when it needs it.
 */
import { isAbsolute, join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build } from 'esbuild';
import { manifest, published } from './lib/manifests.mjs';
import { root } from './lib/process.mjs';

/** Bytes of one built package beside the ceiling that its package.json sets. */
export async function size(folder) {
  const { kv, exports } = manifest(join(root, folder));
  const { outputFiles, metafile } = await build({
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
    metafile: true,
    splitting: true,
    outdir: root,
    format: 'esm',
    platform: 'neutral',
    target: 'es2022',
    logLevel: 'silent',
    plugins: [
      {
        name: 'third-party-stays-out',
        setup: (bundler) =>
          bundler.onResolve({ filter: /^[^.]/ }, ({ path }) =>
            path.startsWith('@kv/') || isAbsolute(path) ? undefined : { path, external: true },
          ),
      },
    ],
  });
  const bytes = Object.fromEntries(
      outputFiles.map(({ path, contents }) => [relative(process.cwd(), path), contents.length]),
    ),
    entry = Object.keys(metafile.outputs).find((name) => metafile.outputs[name].entryPoint),
    loaded = new Set([entry]);
  for (const name of loaded)
    for (const { path, kind, external } of metafile.outputs[name].imports)
      if (kind === 'import-statement' && !external) loaded.add(path);
  return { bytes: [...loaded].reduce((sum, name) => sum + bytes[name], 0), ceiling: kv.maxBytes };
}

if (import.meta.url === pathToFileURL(process.argv[1]).href)
  for (const {
    folder,
    manifest: { name, kv },
  } of published())
    if (kv?.maxBytes) {
      const { bytes, ceiling } = await size(folder);
      console.log(`${name.padEnd(36)} ${String(bytes).padStart(7)} of ${String(ceiling).padStart(7)} bytes`);
    }
