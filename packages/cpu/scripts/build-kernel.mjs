// Rebuilds src/cpu/kernel-bytes.ts from kernel/kernel.ts with a pinned AssemblyScript (fetched by npx, no dependency
// of the package).
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const compiler = 'assemblyscript@0.28.20';
const at = (path) => fileURLToPath(new URL(`../${path}`, import.meta.url));
const work = mkdtempSync(join(tmpdir(), 'kv-kernel-')),
  out = join(work, 'kernel.wasm');
process.on('exit', () => rmSync(work, { recursive: true }));
execFileSync(
  'npx',
  [
    '--yes',
    '-p',
    compiler,
    'asc',
    at('kernel/kernel.ts'),
    '-o',
    out,
    '--runtime',
    'stub',
    '-O3',
    '--noAssert',
    '--enable',
    'simd',
    '--enable',
    'bulk-memory',
  ],
  { stdio: 'inherit' },
);
const bytes = readFileSync(out);
const hash = createHash('sha256')
  .update(readFileSync(at('kernel/kernel.ts')))
  .digest('hex');
const lines = bytes.toString('base64').match(/.{1,140}/g) ?? [];
writeFileSync(
  at('src/cpu/kernel-bytes.ts'),
  `// Built by scripts/build-kernel.mjs from kernel/kernel.ts with ${compiler}: do not edit.

/** SHA-256 of the source that the bytes were built from. */
export const kernelSource = '${hash}';

/** The WebAssembly module, ${bytes.length} bytes, base64. */
export const kernelBytes: string =
${lines.map((line) => `  '${line}'`).join(' +\n')};
`,
);
