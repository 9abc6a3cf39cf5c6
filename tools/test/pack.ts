import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { published } from '../lib/manifests.mjs';
import { run } from '../lib/process.mjs';

export interface Packed {
  readonly name: string;
  readonly folder: string;
  readonly tarball: string;
}

declare module 'vitest' {
  interface ProvidedContext {
    readonly packed: readonly Packed[];
  }
}

/** What tests take for the place of the sources. */
export const REPOSITORY = 'git+https://host.invalid/kv.git';

/** Packs every published package once, as `pnpm publish` would: workspace: and catalog: specifiers become versions. */
export default async function setup(project: TestProject): Promise<() => void> {
  const folder = mkdtempSync(join(tmpdir(), 'kv-packed-'));
  const packages = published();
  const { code, output } = await run('env', [
    `KV_REPOSITORY=${REPOSITORY}`,
    'pnpm',
    '-r',
    ...packages.flatMap(({ manifest }) => ['--filter', manifest.name]),
    'pack',
    '--pack-destination',
    folder,
  ]);
  if (code !== 0) throw new Error(`pnpm could not pack the packages:\n${output}`);
  project.provide(
    'packed',
    packages.map(({ folder: source, manifest: { name, version } }) => ({
      name,
      folder: source,
      tarball: join(folder, `${name.replace('@', '').replace('/', '-')}-${version}.tgz`),
    })),
  );
  return () => rmSync(folder, { recursive: true });
}
