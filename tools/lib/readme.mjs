import { execFile, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { constants, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import { published } from './manifests.mjs';
import { root } from './process.mjs';

/** Returns the ts blocks of a package's README, in order. */
export function examples(folder) {
  const file = join(root, folder, 'README.md');
  if (!existsSync(file)) return [];
  return [...readFileSync(file, 'utf8').matchAll(/^```ts\n(.*?)^```/gms)].map(([, code]) => code ?? '');
}

/** Lets bundled sources find files relative to their own folder. */
const inPlace = {
  name: 'import.meta.url',
  setup: ({ onLoad }) =>
    onLoad({ filter: /\/packages\/.*\.ts$/ }, ({ path }) => ({
      contents: readFileSync(path, 'utf8').replaceAll('import.meta.url', JSON.stringify(pathToFileURL(path).href)),
      loader: 'ts',
    })),
};

/** Imports packages with native parts from where they are installed, since they cannot be bundled. */
const native = {
  name: 'native',
  setup: ({ onResolve, resolve: find }) =>
    onResolve({ filter: /^(node-llama-cpp|onnxruntime-node)$/ }, async ({ path, kind, resolveDir, pluginData }) => {
      if (pluginData === native) return undefined;
      const found = await find(path, { kind, resolveDir, pluginData: native });
      return found.errors.length > 0 ? found : { path: pathToFileURL(found.path).href, external: true };
    }),
};

/** Resolves every package of the workspace, whether or not the program's folder depends on it. */
const packages = {
  name: '@kv',
  setup({ onResolve, resolve: find }) {
    const folders = new Map(published().map(({ folder, manifest: { name } }) => [name, join(root, folder)]));
    onResolve({ filter: /^@kv\// }, ({ path, kind, pluginData }) => {
      const resolveDir = folders.get(path.split('/', 2).join('/'));
      return resolveDir === undefined || pluginData === resolveDir
        ? undefined
        : find(path, { kind, resolveDir, pluginData: resolveDir });
    });
  },
};

/**
 * Runs such a block, or a program of a folder, against the workspace's sources, without a build; resolves to its
 * output. Third-party packages resolve from its folder, or else from examples.
 * @param {string} folder
 * @param {string} code
 * @param {string} [name] of the program
 * @param {{ args?: readonly string[], show?: boolean }} [options] `args` are the program's; with `show` it
 * uses this terminal, and the result is its exit code
 */
export async function runExample(folder, code, name = 'README.md', { args = [], show = false } = {}) {
  const { outputFiles } = await build({
    stdin: { contents: code, resolveDir: resolve(root, folder), loader: 'ts', sourcefile: name },
    nodePaths: [join(root, 'examples/node_modules')],
    bundle: true,
    write: false,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    conditions: ['@kv/source'],
    logLevel: 'silent',
    // CommonJS packages use `require` for Node's modules
    banner: {
      js: "import { createRequire as toRequire } from 'node:module'; const require = toRequire(import.meta.url);",
    },
    plugins: [packages, native, inPlace],
  });
  const scratch = mkdtempSync(join(tmpdir(), 'kv-example-'));
  try {
    const script = join(scratch, 'example.mjs');
    writeFileSync(script, outputFiles[0].contents);
    // a bundle is not in the folder of the packages that it contains
    const env = { ...process.env, KV_EMBEDDED_DIR: join(root, 'packages/model-embedded') };
    if (show)
      return await new Promise((done, failed) =>
        spawn(process.execPath, [script, ...args], { cwd: root, env, stdio: 'inherit' })
          .on('error', failed)
          .on('close', (ended, killed) => done(ended ?? 128 + constants.signals[killed])),
      );
    const { stdout } = await promisify(execFile)(process.execPath, [script], { cwd: root, env });
    return stdout;
  } finally {
    rmSync(scratch, { recursive: true });
  }
}
