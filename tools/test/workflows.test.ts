import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { root } from '../lib/process.mjs';
import { byHand, COMMANDS } from '../lib/rehearse.mjs';

interface Step {
  readonly uses?: string;
  readonly run?: string;
  readonly if?: string;
}
interface Job {
  readonly steps: readonly Step[];
  readonly environment?: string | { readonly name: string };
  readonly permissions?: Readonly<Record<string, string>>;
  readonly needs?: string;
  readonly env?: object;
}
interface Workflow {
  readonly on: unknown;
  readonly permissions?: Readonly<Record<string, string>>;
  readonly jobs: Readonly<Record<string, Job>>;
  readonly env?: object;
}
const folder = join(root, '.github/workflows'),
  workflows = readdirSync(folder).map(
    (name) => [name, parse(readFileSync(join(folder, name), 'utf8')) as Workflow] as const,
  );
/** Tells whether a job may do more than read. */
const writes = ({ permissions = {} }: Job): boolean => Object.values(permissions).some((right) => right !== 'read');
const environmentOf = ({ environment }: Job): string | undefined =>
  typeof environment === 'object' ? environment.name : environment;
const secret = (x: unknown): boolean => /secrets[.[]/.test(JSON.stringify(x ?? {}));

describe.each(workflows)('%s', (_, { permissions, jobs, env }) => {
  const all = Object.values(jobs),
    steps = all.flatMap((job) => job.steps);
  test('runs actions by their digest', () => {
    for (const { uses } of steps) if (uses !== undefined) expect(uses).toMatch(/^[\w./-]+@[0-9a-f]{40}$/);
  });
  test('may only read, but for jobs of a protected environment', () => {
    expect(permissions).toEqual({ contents: 'read' });
    for (const job of all)
      if (writes(job) || secret(job)) expect(['npm', 'github-pages']).toContain(environmentOf(job));
    for (const job of all) if (secret(job)) expect(environmentOf(job)).toBe('npm');
  });
  test('gives a secret to the step that publishes alone', () => {
    expect([env, ...all.map((job) => job.env)].some(secret)).toBe(false);
    for (const step of steps.filter(secret)) expect(step.run).toMatch(/^node tools\/publish\.mjs "[^"]+"$/);
  });
  test('runs no code of dependencies in a job that may publish or write', () => {
    for (const job of all)
      if (writes(job))
        for (const { run = '' } of job.steps) expect(run).not.toMatch(/\b(?:npm|npx|pnpm|yarn)\b|release\.mjs|\.ci\//);
  });
  test('pushes nothing once something has failed', () => {
    for (const { if: condition = '', run = '' } of steps)
      if (/always|failure|cancelled/.test(condition)) expect(run).not.toContain('push');
  });
});
test('a release runs by hand or for a tag what its rehearsal runs, and keeps kv.min.js and the bills of materials', () => {
  const [, { on, jobs }] = workflows.find(([file]) => file === 'release.yml')!,
    folders = /"\$RUNNER_TEMP\/(?:release\/)?(\w+)"/g,
    runs = Object.values(jobs).map(({ steps }) => steps.flatMap(({ run = '' }) => run.replace(folders, '$1')));
  expect(on).toEqual({ workflow_dispatch: null, push: { tags: ['release-*'] } });
  const { publish, ...packing } = COMMANDS;
  expect(runs[0]).toEqual(expect.arrayContaining(Object.values(packing)));
  expect(runs[1]).toContain(publish);
  for (const name of ['NPM_TOKEN', 'NPM_REGISTRY', 'Pages']) expect(byHand()).toContain(name);
  expect(runs[1]!.at(-1)).toMatch(/^gh release create .*kv\.min\.js" .*bills\.tar\.gz"$/);
});
test('the lock file is audited every week, where it changes, and before a release', () => {
  const of = (name: string): Workflow => workflows.find(([file]) => file === name)![1],
    [audit, release] = [of('audit.yml'), of('release.yml')];
  expect(audit.on).toMatchObject({
    schedule: [{ cron: expect.stringMatching(/^\d+ \d+ \* \* \d$/) as string }],
    push: { paths: ['pnpm-lock.yaml'] },
  });
  for (const { jobs } of [audit, release])
    expect(Object.values(jobs).flatMap(({ steps }) => steps.map(({ run }) => run))).toContain('node tools/audit.mjs');
});
test('the site is built with the right to read, and published by a tag, with no command of ours', () => {
  const [, { on, jobs }] = workflows.find(([file]) => file === 'site.yml')!,
    { build, deploy } = jobs;
  expect(on).toMatchObject({ push: { tags: ['site-*'] } });
  expect(writes(build!)).toBe(false);
  expect(build!.steps.map(({ run }) => run)).toContain('npm run -s site -- --build --base "$BASE"');
  expect([deploy!.needs, deploy!.permissions, deploy!.steps.map(({ run }) => run)]).toEqual([
    'build',
    { pages: 'write', 'id-token': 'write' },
    [undefined],
  ]);
});
