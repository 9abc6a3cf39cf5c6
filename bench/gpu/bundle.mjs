/**
 * Packs bench/gpu.mjs, in one file from the sources, with Node, Dawn and the Vulkan loader into .gpu/, for an x86-64
 * Linux machine that has none of them:
 *
 *   node bench/gpu/bundle.mjs        there: bash .gpu/run.sh gpu.mjs --out FOLDER …
 */
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { install } from '../../tools/lib/install.mjs';
import { showUsage } from '../../tools/lib/process.mjs';

const here = (path) => fileURLToPath(new URL(path, import.meta.url)),
  root = here('../..');

showUsage(import.meta.filename);
await install('all');
const { build } = await import('tsup'),
  folder = mkdtempSync(join(tmpdir(), 'kv-gpu-')),
  dawn = dirname(createRequire(join(root, 'packages/gpu/package.json')).resolve('webgpu'));
await build({
  entry: [here('../gpu.mjs')],
  format: 'esm',
  outDir: folder,
  outExtension: () => ({ js: '.mjs' }),
  target: 'node20',
  splitting: false,
  silent: true,
  clean: false,
  config: false,
  noExternal: [/^(?!webgpu$|onnxruntime-node$)/],
  external: ['webgpu', 'onnxruntime-node'],
  esbuildOptions: (options) => {
    options.conditions = ['@kv/source'];
  },
});
copyFileSync(here('torch_peer.py'), join(folder, 'torch_peer.py'));
const { status } = spawnSync('bash', [here('pack.sh'), join(root, '.gpu'), 'gpu.mjs', 'torch_peer.py'], {
  cwd: folder,
  env: { ...process.env, WEBGPU_DIR: dawn },
  stdio: 'inherit',
});
rmSync(folder, { recursive: true });
process.exit(status ?? 1);
