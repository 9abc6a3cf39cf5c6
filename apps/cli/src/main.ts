import { runProgram } from './program.ts';
import type { CommandProgram } from './program.ts';
import type { Terminal } from './terminal.ts';

/** What a beginner needs. */
const START = `kv runs language models in bounded memory: a policy decides which tokens stay in the KV cache.

  kv chat                 talk with a model; the cache stays at its budget
  kv run "TEXT"           one answer
  kv needle               which policy still answers at which budget: a table and a report
  kv pieces               the policies, and the pieces that they are made of
  kv serve --model MODEL  a server for clients of OpenAI and Anthropic

kv --help lists all commands, kv help COMMAND the options and examples of one.
`;

/** The program `kv`. */
export const KV: CommandProgram = {
  shell: 'kv',
  says: 'Ask a language model which KV-cache retention policy still answers at which budget.',
  examples: [
    ['kv needle', 'which policy still lets the embedded model answer, at which budget: a table and a report'],
    ['kv run --prompt-file book.txt --policy attendedSentences --budget 25%', 'one answer'],
    ['kv pieces snapkv', 'all about one piece or method'],
    ['kv doctor', 'what is here, and how fast it is'],
  ],
  start: START,
  commands: {
    needle: async () => (await import('./commands/needle.ts')).needleCommand,
    choose: async () => (await import('./commands/choose.ts')).chooseCommand,
    run: async () => (await import('./commands/run.ts')).runCommand,
    chat: async () => (await import('./commands/chat.ts')).chatCommand,
    serve: async () => (await import('./commands/serve.ts')).serveCommand,
    pieces: async () => (await import('./commands/pieces.ts')).piecesCommand,
    explain: async () => (await import('./commands/explain.ts')).explainCommand,
    trace: async () => (await import('./commands/trace.ts')).traceCommand,
    bench: async () => (await import('./commands/bench.ts')).benchCommand,
    protocol: async () => (await import('./commands/protocol.ts')).protocolCommand,
    eval: async () => (await import('./commands/eval.ts')).evalCommand,
    worker: async () => (await import('./commands/worker.ts')).workerCommand,
    gate: async () => (await import('./commands/gate.ts')).gateCommand,
    calibrate: async () => (await import('./commands/calibrate.ts')).calibrateCommand,
    export: async () => (await import('./commands/export.ts')).exportCommand,
    doctor: async () => (await import('./commands/doctor.ts')).doctorCommand,
    completion: async () => (await import('./commands/completion.ts')).completionCommand,
  },
  overview: ['completion'],
};

/** Runs one command of `kv` and returns its exit code. */
export const main = (argv: readonly string[], outside: Terminal): Promise<number> => runProgram(KV, argv, outside);
