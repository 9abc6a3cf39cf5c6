import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { packed } from '../lib/packed.mjs';

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

/** The repository address that tests use. */
export const REPOSITORY = 'git+https://host.invalid/kv.git';

/** Packs every published package once for all tests. */
export default async function setup(project: TestProject): Promise<() => void> {
  const folder = mkdtempSync(join(tmpdir(), 'kv-packed-'));
  project.provide('packed', await packed(folder, REPOSITORY));
  return () => rmSync(folder, { recursive: true });
}
