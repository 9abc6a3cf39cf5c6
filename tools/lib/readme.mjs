import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import { root } from './process.mjs';

/** The ts blocks of a package's README, in order. */
export function examples(folder) {
  const file = join(root, folder, 'README.md');
  if (!existsSync(file)) return [];
  return [...readFileSync(file, 'utf8').matchAll(/^```ts\n(.*?)^```/gms)].map(([, code]) => code ?? '');
}

/** Runs one such block against the workspace's sources, without a build; resolves to what it printed. */
export async function runExample(folder, code) {
  const { outputFiles } = await build({
    stdin: { contents: code, resolveDir: join(root, folder), loader: 'ts', sourcefile: `${folder}/README.md` },
    bundle: true,
    write: false,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    conditions: ['@kv/source'],
    logLevel: 'silent',
  });
  const scratch = mkdtempSync(join(tmpdir(), 'kv-example-'));
  try {
    const script = join(scratch, 'example.mjs');
    writeFileSync(script, outputFiles[0].contents);
    const { stdout } = await promisify(execFile)(process.execPath, [script], { cwd: root });
    return stdout;
  } finally {
    rmSync(scratch, { recursive: true });
  }
}
