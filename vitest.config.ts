import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';

/** Tests run from source: every @kv/* import resolves to its package's src, so nothing has to be built. */
const conditions = ['@kv/source', 'module', 'node', 'development|production'];

const outside = ['**/node_modules/**', 'packages/create-piece/templates/**'],
  minutes = 60_000;
/** The ends of the names of test files that are no unit tests; each is the name of a project. */
const kinds = ['isolated', 'device', 'browser', 'built', 'licensed', 'peer'] as const;
const packages = (name: string): string[] =>
  ['packages', 'apps', 'studies'].map((folder) => `${folder}/**/test/**/*${name}`);

/** Tests of packages whose files end in `.KIND.test.ts`; the unit tests are all others. */
const project = (kind: 'unit' | (typeof kinds)[number]) => ({
  extends: true as const,
  test: {
    name: kind,
    include: packages(kind === 'unit' ? '.test.ts' : `.${kind}.test.ts`),
    exclude: [...outside, ...(kind === 'unit' ? kinds.map((other) => `**/*.${other}.test.ts`) : [])],
    globalSetup: ['tools/vitest.temporary.ts'],
    setupFiles: ['tools/vitest.setup.ts'],
    // a worker evaluates a module once for all its files and has one device, but where tests replace modules or measure memory
    isolate: kind !== 'unit' && kind !== 'device',
  },
});

/** Tests of the clone as a whole, over packages that are built and packed. */
const workspace = (name: 'workspace' | 'release') => ({
  extends: true as const,
  test: {
    name,
    include: [name === 'release' ? 'tools/test/*.release.test.ts' : 'tools/test/*.test.ts'],
    exclude: name === 'release' ? [] : ['tools/test/*.release.test.ts'],
    globalSetup: ['tools/vitest.temporary.ts', 'tools/test/pack.ts'],
    testTimeout: 5 * minutes,
    hookTimeout: 5 * minutes,
  },
});

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions, externalConditions: conditions } },
  test: {
    testTimeout: 2 * minutes,
    hookTimeout: 2 * minutes,
    // by the condition `module` it has files that Node itself cannot import: they name others without an extension
    server: { deps: { inline: ['ai', '@opentelemetry/api'] } },
    maxWorkers: Math.max(2, availableParallelism() - 1), // on two cores vitest's own choice is one
    projects: [project('unit'), ...kinds.map(project), workspace('workspace'), workspace('release')],
  },
});
