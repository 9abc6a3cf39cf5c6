import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { SETUP, setUpAdapter } from './adapter.mjs';
import { install } from './install.mjs';
import { onTrial, packageFolders } from './manifests.mjs';
import { env, root, run } from './process.mjs';

const builds = [
  'every package builds, JavaScript and declarations',
  'turbo',
  'run',
  'build',
  'types',
  '--output-logs=errors-only',
];

/**
 * What each suite runs: commands, each of which counts as one test, then projects of vitest.config.ts. `adapter`: its
 * tests need a WebGPU adapter or a browser.
 */
const suites = {
  unit: { projects: ['unit', 'isolated'] },
  workspace: {
    checks: [
      ['sources are formatted and lint clean', 'biome', 'ci', '--error-on-warnings', '--max-diagnostics=50'],
      builds,
      ['sources and tests have no type errors', 'tsgo', '-b'],
      ['no unused file, export or dependency', 'knip', '--no-progress', '--no-config-hints'],
      ['no duplicate code', 'jscpd', '--config', '.jscpd.json'],
    ],
    projects: ['built', 'licensed', 'workspace'],
  },
  device: { adapter: true, projects: ['device'] },
  browser: { adapter: true, projects: ['browser'] },
  release: { checks: [builds], projects: ['peer', 'release'] },
};

export const suiteNames = Object.keys(suites);

/**
 * Installs, runs suites, prints `N passed, N failed` as the last line and ends the process.
 * @param {readonly string[]} names of suites
 * @param {readonly string[]} [args] go to vitest
 */
export async function suite(names, args = []) {
  // left over from an interrupted run of tools/test/new.test.ts
  for (const folder of packageFolders().filter(onTrial)) rmSync(folder, { recursive: true });
  const chosen = names.map((name) => suites[name]);
  if (chosen.some(({ adapter }) => adapter)) await setUpAdapter(env);
  await install(names.every((name) => name === 'unit') ? 'unit' : 'all');
  const count = { passed: 0, failed: 0, skipped: 0, aside: 0 };
  const start = performance.now(),
    checks = new Set(chosen.flatMap(({ checks = [] }) => checks));
  // together: none reads what another writes
  await Promise.all(
    Array.from(checks, async ([name, command, ...rest]) => {
      const { code, output } = await run(command, rest);
      count[code === 0 ? 'passed' : 'failed']++;
      console.log(`${code === 0 ? ' ok ' : 'FAIL'} ${name} (${((performance.now() - start) / 1000).toFixed(1)} s)`);
      if (code !== 0) console.log(output);
    }),
  );
  const projects = chosen.flatMap(({ projects }) => projects);
  await vitest([...projects.map((name) => `--project=${name}`), ...args], count);
  if (count.aside > 0)
    console.log(
      `${count.aside} GPU tests stood aside: this machine has no WebGPU adapter. '${SETUP}', as root on Debian, installs a software one and runs them.`,
    );
  console.log(`${count.passed} passed, ${count.failed} failed${count.skipped > 0 ? `, ${count.skipped} skipped` : ''}`);
  process.exit(count.failed === 0 ? 0 : 1);
}

async function vitest(args, count) {
  const folder = join(root, 'node_modules/.cache');
  const file = join(folder, 'vitest.json');
  mkdirSync(folder, { recursive: true });
  rmSync(file, { force: true });
  const { code, output } = await run(
    'vitest',
    ['run', '--reporter=default', '--reporter=json', `--outputFile.json=${file}`, ...args],
    { show: true },
  );
  const before = count.failed;
  try {
    const report = JSON.parse(readFileSync(file, 'utf8'));
    count.passed += report.numPassedTests;
    count.failed +=
      report.numFailedTests +
      report.testResults.filter(
        ({ status, assertionResults: tests }) => status === 'failed' && tests.every((one) => one.status !== 'failed'),
      ).length;
    count.skipped += report.numPendingTests + report.numTodoTests;
    if (output.includes('GPU tests are skipped: '))
      count.aside = report.testResults
        .filter(({ name }) => name.endsWith('.device.test.ts'))
        .reduce(
          (sum, { assertionResults }) =>
            sum + assertionResults.filter(({ status }) => status !== 'passed' && status !== 'failed').length,
          0,
        );
  } catch {
    console.log('vitest wrote no report.');
  }
  if (code !== 0 && count.failed === before) count.failed++; // an error outside any test
}
