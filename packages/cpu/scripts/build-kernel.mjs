// Rebuilds WebAssembly with a pinned AssemblyScript (fetched by npx, no dependency of a package): src/kernel-bytes.ts
// of this package from kernel/kernel.ts, and src/NAME-bytes.ts of every piece's package from its kernel/NAME.ts.
//
//   node packages/cpu/scripts/build-kernel.mjs [packages/FAMILY/NAME ...]      of these packages alone
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { kernels, root, sourceHash } from './sources.mjs';

const compiler = 'assemblyscript@0.28.20';
const options = ['--runtime', 'stub', '-O3', '--noAssert', '--enable', 'simd', '--enable', 'bulk-memory'];
options.push('--disableWarning', '201'); // of sizes that are 32 bits here
const work = mkdtempSync(join(tmpdir(), 'kv-kernel-')),
  out = join(work, 'kernel.wasm');
process.on('exit', () => rmSync(work, { recursive: true }));

const only = process.argv.slice(2);
for (const { folder, source, target } of kernels()) {
  if (only.length > 0 && !only.includes(folder)) continue;
  execFileSync('npx', ['--yes', '-p', compiler, 'asc', join(root, source), '-o', out, ...options], {
    stdio: 'inherit',
  });
  const bytes = readFileSync(out),
    lines = bytes.toString('base64').match(/.{1,140}/g) ?? [];
  writeFileSync(
    join(root, target),
    `// Built by packages/cpu/scripts/build-kernel.mjs from ${source} with ${compiler}: do not edit.

/** SHA-256 of the sources that the bytes were built from. */
export const kernelSource = '${sourceHash(source)}';

/** The WebAssembly module, ${bytes.length} bytes, base64. */
export const kernelBytes: string =
${lines.map((line) => `  '${line}'`).join(' +\n')};
`,
  );
  console.log(`${target}: ${bytes.length} bytes`);
}
