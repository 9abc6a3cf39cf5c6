/**
 * `npm run bench [NAME...] [-- OPTIONS]`: builds the packages and runs bench/*.bench.mjs, all or those whose name contains
 * a NAME, each with these options.
 * `npm run bench -- PROGRAM.mjs [ARGUMENTS]` runs one program below bench/, such as peers/llama-cpp.mjs.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { install } from './lib/install.mjs';
import { fail, root, run, showUsage } from './lib/process.mjs';

if (!process.argv[2]?.endsWith('.mjs')) showUsage(import.meta.filename);
const given = process.argv.slice(2),
  first = given.findIndex((one) => one.startsWith('-')),
  names = first < 0 ? given : given.slice(0, first),
  options = given.slice(names.length);
const folder = join(root, 'bench');
const isProgram = names[0]?.endsWith('.mjs') && existsSync(join(folder, names[0]));
const files = existsSync(folder)
  ? readdirSync(folder)
      .filter((file) => file.endsWith('.bench.mjs'))
      .sort()
  : [];
const chosen = isProgram
  ? [names[0]]
  : files.filter((file) => names.length === 0 || names.some((name) => file.includes(name)));
if (chosen.length === 0)
  fail(`bench: no file in bench/ matches ${JSON.stringify(names)}, there are: ${files.join(', ') || 'none'}`, 2);

await install('all');
const { code, output } = await run('turbo', ['run', 'build', '--output-logs=errors-only']);
if (code !== 0) fail(`${output}The packages could not be built: see above.`, code);
for (const file of chosen) {
  console.log(`\n${file}`);
  const { status } = spawnSync(
    process.execPath,
    ['--expose-gc', join(folder, file), ...(isProgram ? names.slice(1) : []), ...options],
    { cwd: root, stdio: 'inherit' },
  );
  if (status !== 0) fail(`bench: ${file} ended with ${status}`, status ?? 1);
}
