import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { KvError } from '@kv/core';
import { installedFolder } from '../optional-package.ts';
import { BLOCK, speedOf, speeds } from './bench-job.ts';
import type { BenchJob, EngineTimes } from './bench-job.ts';

export const PEER = 'node-llama-cpp';

/** The used part of node-llama-cpp, which this package does not install. */
interface Sequence {
  evaluate(ids: readonly number[], options: { readonly temperature: number }): AsyncIterable<number>;
  dispose(): void;
}
interface Llama {
  loadModel(options: { readonly modelPath: string }): Promise<{
    createContext(options: {
      readonly contextSize: number;
      readonly batchSize: number;
      readonly threads: number;
    }): Promise<{ getSequence(): Sequence }>;
  }>;
  dispose(): Promise<void>;
}
interface Peer {
  getLlama(options: { readonly gpu: false; readonly build: 'never'; readonly logLevel: 'error' }): Promise<Llama>;
}

/** Returns the folder of the peer: below `--peer`, else resolved from the working folder. */
export function findPeer(cwd: string, folder: string | undefined): string | undefined {
  const found = installedFolder(PEER, folder === undefined ? cwd : resolve(cwd, folder));
  if (folder !== undefined && found === undefined)
    throw new KvError('--peer', `expected a folder with ${PEER} (npm install ${PEER}), got ${folder}`);
  return found;
}

/** Measures node-llama-cpp on the CPU with the same file and prompts. */
export async function measurePeer(folder: string, modelPath: string, job: BenchJob): Promise<EngineTimes> {
  const entry = join(folder, 'dist/index.js');
  if (!existsSync(entry)) throw new KvError('--peer', `expected ${PEER} with ${entry}, got a package without`);
  const before = process.memoryUsage.rss(),
    { getLlama } = (await import(pathToFileURL(entry).href)) as Peer,
    threads = job.threads ?? availableParallelism(),
    llama = await getLlama({ gpu: false, build: 'never', logLevel: 'error' });
  try {
    const model = await llama.loadModel({ modelPath }),
      longest = Math.max(...job.prompts.map(({ length }) => length)),
      context = await model.createContext({ contextSize: longest + job.decode + 1, batchSize: BLOCK, threads });
    const speed = await speeds(job, async (ids) => {
      const sequence = context.getSequence(),
        start = performance.now(),
        at: number[] = [];
      for await (const _ of sequence.evaluate(ids, { temperature: 0 }))
        if (at.push(performance.now()) > job.decode) break;
      sequence.dispose();
      return speedOf(ids.length, start, at);
    });
    return {
      name: 'peer',
      engine: `${PEER}, ${threads} thread${threads === 1 ? '' : 's'}`,
      speed,
      events: [],
      views: [],
      memory: { process: process.memoryUsage.rss() - before },
    };
  } finally {
    await llama.dispose();
  }
}
