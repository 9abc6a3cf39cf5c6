/**
 * `npm run new -- FAMILY NAME`: makes a new piece package with laws, oracle, README and example, linked into the
 * workspace.
 */
import { manifest } from './lib/manifests.mjs';
import { createPiece, families } from './lib/piece.mjs';
import { argumentsOf, fail, root, run } from './lib/process.mjs';

const [family, name, ...more] = argumentsOf(
  'new',
  `npm run -s new -- FAMILY NAME

Makes packages/FAMILY/NAME: a piece with laws, an oracle, a README and an example; folds and refits in packages/transforms.
Families: ${families.join(', ')}. The name is lower-case words joined by '-'.

  npm run -s new -- scorers mine`,
);
if (more.length > 0) fail(`new: expected a family and a name, got ${more.join(' ')} after them`, 2);
let folder;
try {
  folder = createPiece(family, name);
} catch (error) {
  fail(`new: ${error.message}`, 2);
}
const pnpm = manifest(root).packageManager;
const { code, output } = await run('npx', ['-y', pnpm, 'install', '--no-frozen-lockfile', '--prefer-offline']);
if (code !== 0) fail(`${output}new: ${folder} was written, but '${pnpm} install' failed: see above.`, code);
console.log(
  `${folder} is ready: its tests run with 'npx vitest run ${folder}', its example with 'npm run example -- ${folder}'.`,
);
