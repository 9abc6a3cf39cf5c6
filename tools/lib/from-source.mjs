import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { build } from 'esbuild';

/**
 * Runs a TypeScript program of this workspace against its sources, without a build; resolves to its exit code. Packages
 * with native parts stay outside the bundle.
 */
export async function runSource(entry, args) {
  const { outputFiles } = await build({
    entryPoints: [entry],
    bundle: true,
    write: false,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    conditions: ['@kv/source'],
    external: ['onnxruntime-*'],
    logLevel: 'silent',
  });
  const scratch = mkdtempSync(join(tmpdir(), 'kv-source-'));
  try {
    const script = join(scratch, 'program.mjs');
    writeFileSync(script, outputFiles[0].contents);
    return (
      spawnSync(process.execPath, [script, ...args], {
        stdio: 'inherit',
        cwd: process.cwd(),
        env: { ...process.env, NODE_PATH: dirname(entry) },
      }).status ?? 1
    );
  } finally {
    rmSync(scratch, { recursive: true });
  }
}
