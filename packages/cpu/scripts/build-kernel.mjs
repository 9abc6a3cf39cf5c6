// Rebuilds WebAssembly with a pinned AssemblyScript (fetched by npx, no dependency of a package): src/kernel-bytes.ts
// of this package from kernel/kernel.ts, src/NAME-bytes.ts of every piece's package from its kernel/NAME.ts, and
// src/NAME-loop.ts from its loop/NAME.ts.
//
//   node packages/cpu/scripts/build-kernel.mjs [packages/FAMILY/NAME ...]      of these packages alone
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { compile, compiler, literal } from './compile.mjs';
import { kernels, root, sourceHash } from './sources.mjs';

const only = process.argv.slice(2);
// a loop has no data of its own: it runs over an engine's memory
const shared = ['--enable', 'threads', '--importMemory', '--sharedMemory', '--initialMemory', '1'];
shared.push('--maximumMemory', '65536', '--disableWarning', '112');
for (const { folder, source, target, loop = false } of kernels()) {
  if (only.length > 0 && !only.includes(folder)) continue;
  const bytes = compile(join(root, source), ...(loop ? shared : []));
  writeFileSync(
    join(root, target),
    `// Built by packages/cpu/scripts/build-kernel.mjs from ${source} with ${compiler}: do not edit.

/** SHA-256 of the sources that the bytes were built from. */
export const kernelSource = '${sourceHash(source)}';

/** The WebAssembly module, ${bytes.length} bytes, base64. */
export const ${loop ? 'loopBytes' : 'kernelBytes'}: string =
${literal(bytes)};
`,
  );
  console.log(`${target}: ${bytes.length} bytes`);
}
