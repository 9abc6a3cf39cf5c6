/** `npm run test:registry`: packed packages of several versions, installed from a registry on the loopback. */
import { builds, suite } from './lib/suite.mjs';

await suite(['--project', 'workspace', 'tools/test/registry.test.ts', ...process.argv.slice(2)], [builds]);
