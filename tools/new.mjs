/**
 * `npm run new -- FAMILY NAME`: a new piece package with laws, oracle, README and example, linked into the workspace.
 */
import { manifest } from './lib/manifests.mjs';
import { createPiece, families } from './lib/piece.mjs';
import { fail, root, run } from './lib/process.mjs';

if (process.argv.slice(2).some((word) => word === '--help' || word === '-h')) {
  console.log(`npm run new -- FAMILY NAME

  FAMILY  ${families.join(', ')}
  NAME    lower-case words joined by '-'; the folder is packages/FAMILY/NAME`);
  process.exit();
}
let folder;
try {
  folder = createPiece(process.argv[2], process.argv[3]);
} catch (error) {
  fail(`new: ${error.message}`, 2);
}
const pnpm = manifest(root).packageManager;
const { code, output } = await run('npx', ['-y', pnpm, 'install', '--no-frozen-lockfile', '--prefer-offline']);
if (code !== 0) fail(`${output}new: ${folder} was written, but '${pnpm} install' failed: see above.`, code);
console.log(
  `${folder} is ready: its tests run with 'npx vitest run ${folder}', its example with 'npm run example -- ${folder}'.`,
);
