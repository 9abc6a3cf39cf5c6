/**
 * `npm test`: runs the unit tests. Leading arguments may name other suites: unit, workspace, device, browser, release,
 * or all; the rest go to vitest. The last line is `N passed, N failed`.
 */
import { suite, suiteNames } from './lib/suite.mjs';

const args = process.argv.slice(2),
  end = args.findIndex((arg) => arg !== 'all' && !suiteNames.includes(arg)),
  named = end < 0 ? args.splice(0) : args.splice(0, end);
await suite(named.includes('all') ? suiteNames : named.length > 0 ? named : ['unit'], args);
