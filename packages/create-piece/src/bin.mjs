#!/usr/bin/env node
import { createOutside, kinds } from './create.mjs';
import { runWithName } from './template.mjs';

const HELP = `npm create @kv/piece NAME [-- --kind KIND]

Makes the folder NAME: a package with a piece or a policy, its tests and its publish settings.
NAME is that of the package, such as kv-mine or @me/kv-mine.
KIND is one of ${kinds.join(', ')}; scorers without it.

Examples:
  $ npm create @kv/piece kv-mine
  $ npm create @kv/piece @me/kv-mine -- --kind policies`;

const singular = (kind) => (kinds.includes(`${kind}s`) ? `${kind}s` : kind === 'policy' ? 'policies' : kind);

runWithName(
  'create-piece',
  HELP,
  (name, { kind }) => {
    const folder = createOutside(process.cwd(), name, singular(kind));
    return `${folder} is ready:\n  cd ${folder}\n  npm install\n  npm test         # its laws and its oracle\n  npm publish      # builds and tests first; then 'kv pieces' lists it wherever it is installed`;
  },
  { kind: { type: 'string', default: 'scorers' } },
);
