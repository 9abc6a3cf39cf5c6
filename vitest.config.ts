import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';
import { leftOut, shared } from './tools/lib/reference-checkpoints.mjs';

/** Tests run from source: every @kv/* import resolves to its package's src, so nothing has to be built. */
const conditions = ['@kv/source', 'module', 'node', 'development|production'];

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions, externalConditions: conditions } },
  test: {
    testTimeout: 120_000,
    env: { KV_SHARED: shared },
    // by the condition `module` it has files that Node itself cannot import: they name others without an extension
    server: { deps: { inline: ['ai', '@opentelemetry/api'] } },
    maxWorkers: Math.max(2, availableParallelism() - 1), // on two cores vitest's own choice is one
    projects: [
      {
        extends: true,
        test: {
          name: 'packages',
          include: ['packages/**/test/**/*.test.ts', 'apps/**/test/**/*.test.ts', 'studies/*/test/*.test.ts'],
          exclude: ['**/node_modules/**', 'packages/create-piece/templates/**', ...leftOut()],
          globalSetup: ['tools/vitest.temporary.ts'],
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
          globalSetup: ['tools/vitest.temporary.ts', 'tools/test/pack.ts'],
          testTimeout: 300_000,
          hookTimeout: 300_000,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
});
