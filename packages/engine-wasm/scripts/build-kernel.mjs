// Rebuilds the WebAssembly of this package with a pinned AssemblyScript (fetched by npx, no dependency of the package):
// src/module-bytes.ts from kernel and @kv/cpu's kernel, which it knows as host.ts, one module for each instruction form.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { compile, compiler, literal, work } from '../../cpu/scripts/compile.mjs';

const at = (path) => fileURLToPath(new URL(`../${path}`, import.meta.url));
const sha256 = (...texts) => texts.reduce((hash, text) => hash.update(text), createHash('sha256')).digest('hex');

// kind.ts is compiled once for each kind of weight, with the kind's number in it
const host = { 'host.ts': 'kernel.ts', 'pairs.ts': 'pairs.ts', 'extents.ts': 'extents.ts', 'view.ts': 'view.ts' },
  sources = [...readdirSync(at('kernel')).sort(), ...Object.keys(host)],
  text = (name) => readFileSync(at(host[name] ? `../cpu/kernel/${host[name]}` : `kernel/${name}`), 'utf8'),
  kinds = [...text('products.ts').matchAll(/"\.\/kind-(\d+)"/g)].map(([, kind]) => kind);
for (const name of sources)
  if (name === 'kind.ts')
    for (const kind of kinds) writeFileSync(join(work, `kind-${kind}.ts`), text(name).replace('KIND_NUMBER', kind));
  else writeFileSync(join(work, name), text(name));
const threads = ['--exportTable', '--enable', 'threads', '--importMemory', '--sharedMemory', '--initialMemory', '1'];
const build = (form, ...more) =>
  gzipSync(
    compile(
      join(work, 'module.ts'),
      ...[...threads, '--maximumMemory', '65536', '--use', `FORM=${form}`],
      ...['--disableWarning', '112', ...more],
    ),
    { level: 9 },
  );
const forms = [build(0), build(1, '--enable', 'relaxed-simd'), build(2, '--enable', 'relaxed-simd')];
writeFileSync(
  at('src/module-bytes.ts'),
  `// Built by scripts/build-kernel.mjs from kernel with ${compiler}: do not edit.

/** SHA-256 of the sources that the bytes were built from, in the order of their names, @kv/cpu's last. */
export const moduleSource = '${sha256(...sources.map(text))}';

/** The WebAssembly module in each of its instruction forms, gzip, base64: ${forms.map(({ length }) => length).join(', ')} bytes. */
export const moduleBytes: readonly [plain: string, relaxed16: string, relaxed32: string] = [${forms
    .map((bytes) => `\n${literal(bytes)},`)
    .join('')}
];
`,
);
