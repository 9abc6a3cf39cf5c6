/**
 * `npm test`: the unit tests. Before other arguments, which go to vitest, names of suites choose those instead: unit,
 * workspace, device, browser, release, or all. The last line counts.
 */
import { suite, suiteNames } from './lib/suite.mjs';

const args = process.argv.slice(2),
  end = args.findIndex((arg) => arg !== 'all' && !suiteNames.includes(arg)),
  named = end < 0 ? args.splice(0) : args.splice(0, end);
await suite(named.includes('all') ? suiteNames : named.length > 0 ? named : ['unit'], args);
