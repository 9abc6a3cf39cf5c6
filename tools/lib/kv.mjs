import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { install } from './install.mjs';
import { manifest, piecePackages } from './manifests.mjs';
import { fail, root, run } from './process.mjs';

/**
 * Installs and builds what the command line needs and every piece of the workspace, then runs it in this process, so
 * input, output, signals and exit code are its own.
 */
export async function kv(args) {
  const bin = await built(args);
  process.argv = [process.execPath, bin, ...args];
  await import(pathToFileURL(bin).href);
}

/** Installs and builds what these arguments of the command line need; returns the file of the command. */
export async function built(args) {
  await prepare(args, 'cli', '@kv/cli');
  const cli = join(root, 'apps/cli');
  return join(cli, manifest(cli).bin.kv);
}

/**
 * Installs and builds a package, every piece, and what these arguments need.
 * @param {readonly string[]} args of the command line
 * @param {string} scope what is installed
 * @param {string} name the package's
 */
export async function prepare(args, scope, name) {
  await install(scope);
  process.env.KV_INSTALL ??= `npx -y ${manifest(root).packageManager} add -w`;
  const pieces = piecePackages().map(({ manifest }) => manifest.name),
    filters = [`${name}...`, ...pieces].map((one) => `--filter=${one}`);
  if (args.some((arg, i) => arg === '--device=webgpu' || (arg === '--device' && args[i + 1] === 'webgpu'))) {
    // 132 MB, only on request
    await install('gpu');
    filters.push('--filter=@kv/engine-webgpu...');
    process.env.KV_GPU_MODELS ??= join(root, 'packages/engine-webgpu');
  }
  if (args.some((arg) => /^--queue(=|$)/.test(arg))) {
    await install('queue');
    filters.push('--filter=@kv/queue...');
    process.env.KV_QUEUE ??= join(root, 'packages/queue');
  }
  if (args.some((arg, i) => /:\/\//.test(arg) && /^--conversations(=|$)/.test(arg.includes('=') ? arg : args[i - 1]))) {
    await install('stores');
    filters.push('--filter=@kv/stores...');
    process.env.KV_STORES ??= join(root, 'packages/stores');
  }
  const { code, output } = await run('turbo', ['run', 'build', ...filters, '--output-logs=errors-only']);
  if (code !== 0) fail(`${output}${name} could not be built: see above.`, code);
}
