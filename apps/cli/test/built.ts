import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Ran } from './terminal.ts';

/** The built command. */
export const bin: string = fileURLToPath(new URL('../dist/bin.js', import.meta.url));
if (!existsSync(bin)) throw new Error(`${bin}: expected a build, found none; 'npx turbo run build' makes it`);
/** The engine that every machine has, one thread. */
export const ON = ['--engine', 'f32', '--workers', '1'];

/** Runs the built `kv` as a process. */
export function start(
  args: readonly string[],
  cwd: string,
  { columns = 80 }: { readonly columns?: number } = {},
): { child: ChildProcess; ended: Promise<Ran> } {
  const env = { ...process.env, NO_COLOR: '1', COLUMNS: String(columns) },
    child = spawn(process.execPath, [bin, ...args], { cwd, env });
  let stdout = '',
    stderr = '';
  child.stdout.on('data', (said: Buffer) => (stdout += said.toString()));
  child.stderr.on('data', (said: Buffer) => (stderr += said.toString()));
  const ended = new Promise<Ran>((resolve) =>
    child.on('close', (code) => resolve({ code: code ?? -1, stdout, stderr })),
  );
  return { child, ended };
}

/** Runs a queue worker while `work` runs: it takes cells of the model `tiny` in its folder. */
export async function withWorker(url: string, cwd: string, work: () => Promise<unknown>): Promise<Ran> {
  const { child, ended } = start(['worker', '--queue', url, '--model', 'tiny', '--lease', '1', ...ON], cwd);
  await work().finally(() => child.kill('SIGTERM'));
  return ended;
}
