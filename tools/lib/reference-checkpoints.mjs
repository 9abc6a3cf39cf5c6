import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { onTrial, packageFolders } from './manifests.mjs';
import { root } from './process.mjs';

/**
 * The folder of reference checkpoints, which are not part of the project: `KV_SHARED`, or `shared` beside the
 * repository. Tests find its name in `KV_SHARED`, always: vitest.config.ts sets it.
 */
export const shared = process.env.KV_SHARED || join(root, '../shared');

/** Whether a test file, or a file beside it that it imports, reads there. */
function readsFixtures(file, known = new Set()) {
  if (known.has(file)) return false;
  known.add(file);
  const text = readFileSync(file, 'utf8');
  return (
    /KV_SHARED|'@kv\/model-testing\/shared'/.test(text) ||
    [...text.matchAll(/(?:from |import\()'(\.{1,2}\/[^']+\.ts)'/g)].some(
      ([, path]) => !path.includes('/src/') && readsFixtures(join(dirname(file), path), known),
    )
  );
}

/**
 * Test files that compare with reference checkpoints, where a person has none: they are left out, and it is said. In CI
 * they run, and fail without.
 */
export const leftOut = () =>
  process.env.CI || existsSync(shared)
    ? []
    : packageFolders()
        .flatMap((folder) => [join(folder, 'test'), join(folder, 'papers/test')])
        .filter(
          (folder) =>
            /^(packages|apps|studies)\//.test(relative(root, folder)) && !onTrial(folder) && existsSync(folder),
        )
        .flatMap((folder) =>
          readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((file) => join(folder, file)),
        )
        .filter((file) => file.endsWith('.test.ts') && readsFixtures(file))
        .map((file) => relative(root, file));
