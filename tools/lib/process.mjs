import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { delimiter, join, resolve } from 'node:path';

/** The workspace's root folder. */
export const root = resolve(import.meta.dirname, '../..');

/** Environment of child processes: the workspace's tools come first, and telemetry is off. */
export const env = {
  ...process.env,
  PATH: ['tools/turbo', 'node_modules/.bin', 'tools/node_modules/.bin']
    .map((folder) => join(root, folder))
    .concat(process.env.PATH ?? '')
    .join(delimiter),
  TURBO_TELEMETRY_DISABLED: '1',
  TURBO_NO_UPDATE_NOTIFIER: '1',
  DO_NOT_TRACK: '1',
};

/**
 * Runs a command, in the root folder unless another is given; resolves to its exit code and what it printed.
 * @param {string} command
 * @param {readonly string[]} args
 * @param {{ show?: boolean, signal?: AbortSignal, cwd?: string, env?: NodeJS.ProcessEnv }} [options] `show`: print its
 * output as it comes.
 */
export function run(command, args, { show = false, signal, cwd = root, env: environment = env } = {}) {
  return new Promise((done) => {
    const child = spawn(command, args, {
      cwd,
      env: environment,
      signal,
      stdio: ['ignore', 'pipe', 'pipe'],
      shell: process.platform === 'win32',
    });
    const parts = [];
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (data) => {
        parts.push(data);
        if (show) process.stdout.write(data);
      });
    const end = (code) => done({ code, output: Buffer.concat(parts).toString() });
    child.on('error', (error) => {
      parts.push(Buffer.from(`${command}: ${error.message}\n`));
      end(127);
    });
    child.on('close', (code, killed) => end(code ?? (killed === null ? 1 : 128)));
  });
}

/**
 * Returns the arguments of a tool. `--help` prints its help and ends it; an option that is not in `known` is refused.
 * @param {string} called the tool's name in errors
 * @param {string} help
 * @param {readonly string[]} [known]
 */
export function argumentsOf(called, help, known = []) {
  const args = process.argv.slice(2),
    unknown = args.find((arg) => arg.startsWith('-') && !known.includes(arg));
  if (args.includes('--help') || args.includes('-h')) {
    console.log(help);
    process.exit(0);
  }
  if (unknown !== undefined) fail(`${called}: expected ${['--help', ...known].join(' or ')}, got ${unknown}`, 2);
  return args;
}

/** With `--help`, prints the comment that a tool's file begins with and ends the process. */
export function showUsage(file) {
  if (!process.argv.slice(2).some((arg) => arg === '--help' || arg === '-h')) return;
  const [, comment] = /^\/\*\*\n(.*?)^ \*\//ms.exec(readFileSync(file, 'utf8'));
  console.log(comment.replace(/^ \* ?/gm, '').trimEnd());
  process.exit(0);
}

/** Ends the process with one sentence. @returns {never} */
export function fail(sentence, code = 1) {
  console.error(sentence);
  process.exit(code);
}
