import { benchCommand } from './commands/bench.ts';
import { calibrateCommand } from './commands/calibrate.ts';
import { chatCommand } from './commands/chat.ts';
import { evalCommand } from './commands/eval.ts';
import { completionCommand } from './commands/completion.ts';
import { doctorCommand } from './commands/doctor.ts';
import { explainCommand } from './commands/explain.ts';
import { exportCommand } from './commands/export.ts';
import { needleCommand } from './commands/needle.ts';
import { piecesCommand } from './commands/pieces.ts';
import { protocolCommand } from './commands/protocol.ts';
import { runCommand } from './commands/run.ts';
import { serveCommand } from './commands/serve.ts';
import { workerCommand } from './commands/worker.ts';
import { traceCommand } from './commands/trace.ts';
import { runProgram } from './program.ts';
import type { CommandProgram } from './program.ts';
import type { Terminal } from './terminal.ts';

/** What a beginner needs. */
const START = `kv runs language models in bounded memory: a policy decides which tokens stay in the KV cache.

  kv chat                 talk with a model; the cache stays at its budget
  kv run "TEXT"           one answer
  kv needle               which policy still answers at which budget: a table and a report
  kv pieces               the policies, and the pieces that they are made of
  kv serve --model MODEL  an OpenAI server

kv --help lists all commands, kv help COMMAND the options and examples of one.
`;

/** The program `kv`. */
export const KV: CommandProgram = {
  shell: 'kv',
  says: 'Ask a language model which KV-cache retention policy still answers at which budget.',
  examples: [
    ['kv needle', 'which policy still lets the embedded model answer, at which budget: a table and a report'],
    [
      "kv run --prompt-file book.txt --policy 'snapkv(window=16,kernel=17,pooling=max) | caote | topK' --budget 25%",
      'one answer',
    ],
    ['kv pieces snapkv', 'all about one piece or method'],
    ['kv doctor', 'what is here, and how fast it is'],
  ],
  start: START,
  commands: [
    needleCommand,
    runCommand,
    chatCommand,
    serveCommand,
    piecesCommand,
    explainCommand,
    traceCommand,
    benchCommand,
    protocolCommand,
    evalCommand,
    workerCommand,
    calibrateCommand,
    exportCommand,
    doctorCommand,
    completionCommand,
  ],
};

/** Runs one command of `kv` and returns its exit code. */
export const main = (argv: readonly string[], outside: Terminal): Promise<number> => runProgram(KV, argv, outside);
