// The processes that engines run in, and the peer's installation.
import { execFileSync, fork } from 'node:child_process';
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The version of node-llama-cpp. */
export const version = '3.22.1';
const here = (path) => fileURLToPath(new URL(path, import.meta.url));

/**
 * Returns the peer's folder, with the peer installed: `peer`, or one in the temporary directory.
 * @param options `peer`, and `without-amx` to remove the peer's AMX kernels
 */
export function peerFolder({ peer, 'without-amx': withoutAmx = false }) {
  const folder = peer ?? join(tmpdir(), `kv-peer-node-llama-cpp-${version}${withoutAmx ? '-without-amx' : ''}`);
  if (!existsSync(join(folder, 'node_modules/node-llama-cpp'))) {
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, 'package.json'), '{ "private": true }\n');
    const arch = {
      'linux-x64': 'linux-x64',
      'linux-arm64': 'linux-arm64',
      'darwin-arm64': 'mac-arm64-metal',
      'darwin-x64': 'mac-x64',
      'win32-x64': 'win-x64',
    }[`${process.platform}-${process.arch}`];
    // only this platform's binaries for the CPU: the others weigh a gigabyte
    execFileSync(
      'npm',
      [
        'install',
        '--prefix',
        folder,
        '--ignore-scripts',
        '--omit=optional',
        '--no-audit',
        '--no-fund',
        `node-llama-cpp@${version}`,
        `@node-llama-cpp/${arch}@${version}`,
      ],
      { stdio: 'inherit' },
    );
    // it loads the best library that is installed and that the processor can run
    const libraries = join(folder, `node_modules/@node-llama-cpp/${arch}/bins/${arch}`);
    if (withoutAmx) rmSync(join(libraries, 'libggml-cpu-sapphirerapids.so'), { force: true });
  }
  return folder;
}

/** Starts a process of this folder that answers one job at a time. */
export function worker(file, config) {
  const child = fork(here(file), [JSON.stringify(config)], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    serialization: 'advanced',
  });
  const ask = (job) =>
    new Promise((done, failed) => {
      child.once('message', done);
      child.once('exit', (code) => failed(new Error(`${file} ended with ${code}`)));
      child.send(job);
    });
  return {
    ask: async (job) => {
      const answer = await ask(job);
      child.removeAllListeners('exit');
      return answer;
    },
    end: () => child.kill(),
  };
}
