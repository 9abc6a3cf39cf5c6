import type { Worker } from 'node:worker_threads';
import { builtin } from '@kv/checkpoints';
import { KvError } from '@kv/core';
import { factory } from './factory.ts';
import type { CompileJob, Instance, Workshop } from './types.ts';
import { begin } from './workshop.ts';

/** Milliseconds after which a thread that compiles is ended. What is bounded before takes a few seconds of a core. */
const MOST_MS = 30_000;

/** Where grammars are compiled, until it has failed or is full. */
export interface GrammarBench {
  /** The instance that has all grammars compiled here so far, each at its address. */
  readonly xgrammar: Instance;
  /** Returns the address of a grammar. @throws KvError, after which nothing else may be compiled here */
  compile(job: CompileJob): Promise<number>;
  dispose(pointer: number): void;
  /** Ends what compiles; grammars that there are stay. */
  end(): void;
}

/** Begins one: in Node in a thread of its own, since xgrammar compiles in one go; in pages where it is called. */
export const bench = (): Promise<GrammarBench> =>
  typeof process === 'object' && process.versions?.node !== undefined ? Thread.begin() : here();

const begun = async (): Promise<Workshop> => begin(await factory(), (name) => builtin(`node:${name}`));

const failed = (said: string): KvError =>
  new KvError('grammar', `cannot be compiled: ${said || 'the structure is not one that xgrammar takes'}`);

async function here(): Promise<GrammarBench> {
  const { xgrammar, compile, dispose } = await begun();
  return {
    ...{ xgrammar, dispose, end() {} },
    compile: (job) =>
      compile(job).catch(() => {
        throw failed(xgrammar.said());
      }),
  };
}

/** What a thread answers: where a grammar is in its memory, with a copy of all of it, or why there is none. */
type Answer =
  | { readonly pointer: number; readonly memory: ArrayBuffer; readonly begins: number }
  | { readonly said: string };

/** The program of a thread, one job after the other. */
const programOf = (make: unknown): string => `
const { parentPort } = require('node:worker_threads'),
  begun = (${String(begin)})(${String(make)}, require);
let last = Promise.resolve();
parentPort.on('message', ({ job, dispose }) => {
  last = last.then(async () => {
    const { xgrammar, begins, ...shop } = await begun;
    if (!job) return shop.dispose(dispose);
    try {
      const pointer = await shop.compile(job),
        memory = xgrammar.memory.buffer.slice(0);
      parentPort.postMessage({ pointer, memory, begins }, [memory]);
    } catch {
      parentPort.postMessage({ said: xgrammar.said() });
    }
  });
});`;

/**
 * Compiles in a thread. Matchers run where they are asked, over a copy of the thread's memory: a grammar has the same
 * address in the copy that came with it and in all later ones.
 */
class Thread implements GrammarBench {
  readonly #worker: Worker;
  #xgrammar: Instance | undefined;
  /** Takes what comes of the job that runs. */
  #settle: { resolve(answer: Answer): void; reject(cause: unknown): void } | undefined;
  /** Why it has ended, if it has. */
  #ended: unknown;

  private constructor(worker: Worker) {
    this.#worker = worker;
    const end = (cause: unknown): void => {
      this.#ended ??= cause;
      this.#settle?.reject(cause);
    };
    worker.on('message', (answer: Answer) => this.#settle?.resolve(answer));
    worker.on('error', end);
    worker.on('exit', (code) => end(new KvError('grammar', `the thread that compiles has ended with code ${code}`)));
    worker.unref();
  }

  static async begin(): Promise<Thread> {
    const made = builtin<typeof import('node:worker_threads')>('node:worker_threads');
    return new Thread(new made.Worker(programOf(await factory()), { eval: true, execArgv: [] }));
  }

  get xgrammar(): Instance {
    if (!this.#xgrammar) throw new KvError('grammar', 'expected a grammar to be compiled first');
    return this.#xgrammar;
  }

  async compile(job: CompileJob): Promise<number> {
    const answer = await this.#answer(job);
    if ('said' in answer) throw failed(answer.said);
    this.#xgrammar = await copied(answer);
    return answer.pointer;
  }

  dispose(pointer: number): void {
    this.#worker.postMessage({ dispose: pointer });
  }

  end(): void {
    void this.#worker.terminate();
  }

  async #answer(job: CompileJob): Promise<Answer> {
    if (this.#ended !== undefined) throw this.#ended;
    let timer: NodeJS.Timeout | undefined;
    this.#worker.ref();
    try {
      return await new Promise<Answer>((resolve, reject) => {
        this.#settle = { resolve, reject };
        timer = setTimeout(
          () => reject(new KvError('grammar', `expected one that compiles within ${MOST_MS / 1000} seconds, got none`)),
          MOST_MS,
        );
        this.#worker.postMessage({ job });
      });
    } finally {
      clearTimeout(timer);
      this.#settle = undefined;
      this.#worker.unref();
    }
  }
}

/** Returns an instance over a copy of another's memory. */
async function copied({ memory: bytes, begins }: Extract<Answer, { memory: ArrayBuffer }>): Promise<Instance> {
  const { xgrammar, begins: here } = await begun(),
    { memory } = xgrammar,
    more = bytes.byteLength - memory.buffer.byteLength;
  if (here !== begins)
    throw new KvError('grammar', `expected memory that begins at ${here}, as here, got ${begins} from the thread`);
  if (more > 0) memory.grow(more / 65_536);
  xgrammar.grown();
  new Uint8Array(memory.buffer).set(new Uint8Array(bytes));
  return xgrammar;
}
