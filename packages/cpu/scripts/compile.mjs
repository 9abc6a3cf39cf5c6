// What the builds of WebAssembly share: a pinned AssemblyScript, fetched by npx, and how bytes are written into a source.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export const compiler = 'assemblyscript@0.28.20';
const always = ['--runtime', 'stub', '-O3', '--noAssert', '--enable', 'simd', '--enable', 'bulk-memory'];
always.push('--disableWarning', '201'); // of sizes that are 32 bits here

/** A folder for this run, which is removed when it ends. */
export const work = mkdtempSync(join(tmpdir(), 'kv-kernel-'));
process.on('exit', () => rmSync(work, { recursive: true }));

/** Returns the module that a source compiles to. */
export function compile(source, ...options) {
  const out = join(work, 'module.wasm');
  execFileSync('npx', ['--yes', '-p', compiler, 'asc', source, '-o', out, ...always, ...options], { stdio: 'inherit' });
  return readFileSync(out);
}

/** Returns bytes as base64 in lines of a TypeScript expression. */
export const literal = (bytes) =>
  (bytes.toString('base64').match(/.{1,140}/g) ?? []).map((line) => `  '${line}'`).join(' +\n');
