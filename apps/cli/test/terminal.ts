import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { main } from '../src/main.ts';

export interface Ran { readonly code: number; readonly stdout: string; readonly stderr: string }

/** Runs `kv` in this process, as a person without a terminal would see it. */
export async function kv(args: readonly string[], { cwd = tmpdir(), signal = new AbortController().signal }: { readonly cwd?: string; readonly signal?: AbortSignal } = {}): Promise<Ran> {
  let stdout = '', stderr = '';
  const code = await main(args, {
    stdout: { write: (text) => void (stdout += text) }, stderr: { write: (text) => void (stderr += text) }, signal, cwd, debug: false,
  });
  return { code, stdout, stderr };
}

/** An empty folder. */
export const folder = (): string => mkdtempSync(join(tmpdir(), 'kv-cli-'));
