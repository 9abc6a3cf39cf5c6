import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

/**
 * Files that compare with reference checkpoints, which are not part of the project: `KV_SHARED`, or `shared` beside the
 * repository.
 * Where a person has none they are left out, and it is said; in CI they run, and fail without.
 */
const fixtures = process.env.KV_SHARED ?? fileURLToPath(new URL('../shared', import.meta.url));
const packages = fileURLToPath(new URL('packages', import.meta.url));
const leftOut =
  process.env.CI || existsSync(fixtures)
    ? []
    : readdirSync(packages, { recursive: true, encoding: 'utf8' })
        .filter(
          (file) =>
            file.endsWith('.test.ts') &&
            !file.includes('node_modules') &&
            /\/shared\.ts'|KV_SHARED/.test(readFileSync(join(packages, file), 'utf8')),
        )
        .map((file) => `packages/${file}`);
if (leftOut.length > 0)
  console.warn(
    `No reference checkpoints at ${fixtures}: ${leftOut.length} test files are left out (set KV_SHARED to run them).`,
  );

/** Tests run from source: every @kv/* import resolves to its package's src, so nothing has to be built. */
const conditions = ['@kv/source', 'module', 'node', 'development|production'];

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions, externalConditions: conditions } },
  test: {
    testTimeout: 120_000,
    // by the condition `module` it has files that Node itself cannot import: they name others without an extension
    server: { deps: { inline: ['ai', '@opentelemetry/api'] } },
    maxWorkers: Math.max(2, availableParallelism() - 1), // on two cores vitest's own choice is one
    projects: [
      {
        extends: true,
        test: {
          name: 'packages',
          include: ['packages/**/test/**/*.test.ts', 'apps/**/test/**/*.test.ts'],
          exclude: ['**/node_modules/**', 'packages/create-piece/templates/**', ...leftOut],
          setupFiles: ['tools/vitest.setup.ts'],
          sequence: { groupOrder: 0 },
        },
      },
      {
        // The workspace as a whole; needs the packages built (npm run check builds them).
        extends: true,
        test: {
          name: 'workspace',
          include: ['tools/test/*.test.ts'],
          globalSetup: ['tools/test/pack.ts'],
          testTimeout: 300_000,
          hookTimeout: 300_000,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
});
