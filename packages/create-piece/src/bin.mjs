#!/usr/bin/env node
import { parseArgs } from 'node:util';
import { createOutside, kinds } from './create.mjs';

const HELP = `npm create @kv/piece NAME [-- --kind KIND]

Makes the folder NAME: a package with a piece or a policy, its tests and its publish settings.
NAME is that of the package, such as kv-mine or @me/kv-mine.
KIND is one of ${kinds.join(', ')}; scorers without it.

Examples:
  $ npm create @kv/piece kv-mine
  $ npm create @kv/piece @me/kv-mine -- --kind policies`;

const singular = (kind) => (kinds.includes(`${kind}s`) ? `${kind}s` : kind === 'policy' ? 'policies' : kind);

try {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { kind: { type: 'string', default: 'scorers' }, help: { type: 'boolean', short: 'h' } },
  });
  if (values.help) console.log(HELP);
  else {
    if (positionals.length !== 1) throw new Error(`expected one NAME, got ${positionals.length}; --help says more`);
    const folder = createOutside(process.cwd(), positionals[0], singular(values.kind));
    console.log(
      `${folder} is ready:\n  cd ${folder}\n  npm install\n  npm test         # its laws and its oracle\n  npm publish      # builds and tests first; then 'kv pieces' lists it wherever it is installed`,
    );
  }
} catch (error) {
  console.error(`create-piece: ${error.message}`);
  process.exitCode = 2;
}
