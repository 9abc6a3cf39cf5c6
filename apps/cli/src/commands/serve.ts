import { basename } from 'node:path';
import { KvError } from '@kv/core';
import { compile, expectBudget } from '@kv/core/engine';
import type { Budget, Model } from '@kv/models';
import { redact } from '@kv/scorers-sponsorship';
import { createServer, readKeys } from '@kv/server';
import { Command } from 'commander';
import { deviceOption } from '../device.ts';
import { engineOption, hostOnly } from '../engine.ts';
import { withExamples } from '../help.ts';
import { MODEL_HELP } from '../model-source.ts';
import { bytes, whole } from '../option-values.ts';
import { catalogueWith } from '../policy/installed.ts';
import { checkPolicyNamed, resolvePolicy } from '../policy/resolve-policy.ts';
import { readText } from '../run/questions.ts';
import { openKeyFile } from '../serve/key-file.ts';
import { startLines, warningsOf } from '../serve/start-lines.ts';
import { blockOption, budgetOption, everyOption, collect } from '../shared-options.ts';
import type { Terminal } from '../terminal.ts';
import { withModel } from '../with-model.ts';

interface ServeOptions {
  readonly model: string;
  readonly name?: string;
  readonly policy: string;
  readonly budget?: Budget;
  readonly block?: number;
  readonly every?: number;
  readonly pieces?: readonly string[];
  readonly fixedPolicy?: true;
  readonly memory: number;
  readonly queue: number;
  readonly running: number;
  readonly maxNewTokens?: number;
  readonly maxPromptTokens?: number;
  readonly host: string;
  readonly port: number;
  readonly apiKeyFile?: string;
  readonly grace: number;
}

/** `kv serve`: a server with the OpenAI protocol. `onStop` is called when a signal is its ordinary end. */
export const serveCommand = (terminal: Terminal, onStop: () => void): Command =>
  withExamples(
    new Command('serve')
      .description('Answer the OpenAI protocol: many conversations over bounded caches in one memory budget.')
      .option('--model <name>', MODEL_HELP, 'embedded')
      .option('--name <name>', 'what /v1/models calls it (by default the last part of --model, without .gguf)')
      .option(...engineOption('fast'))
      .option(...deviceOption)
      .option('--policy <policy>', "what caches go by unless a request says otherwise, as for 'kv run'", 'full')
      .option(...budgetOption)
      .option(...blockOption('evict after so many tokens of a prompt, not only at its end'))
      .option(...everyOption())
      .option(
        '--pieces <package>',
        'a package whose pieces requests may name beside the catalogue (may be given again)',
        collect,
      )
      .option('--fixed-policy', 'refuse requests that ask for another policy, budget, block or every')
      .option(
        '--memory <bytes>',
        'bytes of all caches, prefixes, scratch and requests, such as 512MB; weights come beside it',
        bytes('--memory'),
        2 ** 31,
      )
      .option('--queue <n>', 'prompts that may wait; more get 429', whole('--queue'), 64)
      .option('--running <n>', 'answers that are generated at once', whole('--running', { min: 1, max: 1024 }), 32)
      .option(
        '--max-new-tokens <n>',
        "the longest answer (by default the model's context)",
        whole('--max-new-tokens', { min: 1 }),
      )
      .option(
        '--max-prompt-tokens <n>',
        'the longest prompt under a policy with a block; others fit the context (by default 4 contexts)',
        whole('--max-prompt-tokens', { min: 1 }),
      )
      .option('--host <address>', 'where to listen; without --api-key-file only loopback', '127.0.0.1')
      .option('--port <n>', 'the port; 0 is any that is free', whole('--port', { max: 65535 }), 8080)
      .option(
        '--api-key-file <file>',
        'keys, one a line, of which every request must bring one; a file that all users can read is warned of',
      )
      .option('--grace <seconds>', 'how long a signal lets answers go on', whole('--grace'), 10)
      .action((options: ServeOptions, command: Command) => serve(options, command, terminal, onStop)),
    [
      "kv serve --model model.gguf --policy 'snapkv(window=16,kernel=17,pooling=max)' --budget 25% --memory 2GB",
      'the OpenAI protocol at http://127.0.0.1:8080/v1',
    ],
    ['kv serve --host 0.0.0.0 --api-key-file keys.txt --fixed-policy', 'for others, with a key a line'],
  ).addHelpText(
    'after',
    `
A request names a policy of its own in its field "policy", with "budget", "block" and "every" beside it.
The log goes to stdout, a JSON object a line; a terminal shows addresses, a request to paste, and then warnings and errors alone.`,
  );

async function serve(options: ServeOptions, command: Command, terminal: Terminal, onStop: () => void): Promise<void> {
  checkPolicyNamed(command);
  const { cwd } = terminal,
    policy = await resolvePolicy(options.policy, { cwd }),
    compiled = compile(policy),
    keys =
      options.apiKeyFile === undefined ? undefined : readKeys(readText(options.apiKeyFile, cwd), options.apiKeyFile),
    registry = await catalogueWith(options.pieces, cwd),
    open = options.apiKeyFile === undefined ? undefined : openKeyFile(options.apiKeyFile, cwd);
  expectBudget(compiled, options.budget, '--budget');
  if (open !== undefined) terminal.stderr.write(`${open}\n`);
  await withModel(command, terminal, hostOnly([compiled]), (model) =>
    listen(model, options, terminal, { policy, keys, registry }).then(onStop),
  );
}

type Resolved = Pick<Parameters<typeof createServer>[0], 'policy' | 'keys' | 'registry'>;

/** Until a signal. */
async function listen(
  model: Model,
  options: ServeOptions,
  { stdout, stderr, signal, unredacted = false }: Terminal,
  resolved: Resolved,
): Promise<void> {
  const { budget, block, every, memory, queue, running, maxNewTokens, maxPromptTokens, host, port, grace } = options,
    name = options.name ?? basename(options.model).replace(/\.gguf$/i, '');
  if (name === '') throw new KvError('--name', 'expected a name beside such a --model, got none');
  const fixedPolicy = options.fixedPolicy === true,
    server = createServer({
      ...resolved,
      model,
      name,
      ...{ budget, block, every, memory },
      fixedPolicy,
      limits: {
        queue,
        running,
        ...(maxNewTokens !== undefined && { maxNewTokens }),
        ...(maxPromptTokens !== undefined && { maxPromptTokens }),
      },
      log: stderr.isTTY && stdout.isTTY ? warningsOf(stdout) : stdout,
      ...(!unredacted && { redact }),
    });
  const stopped = new Promise<void>((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
  try {
    const address = await server.listen({ host, port }),
      { keys, policy } = resolved;
    if (stderr.isTTY)
      stderr.write(
        startLines(address, name, model, { policy: String(policy ?? ''), keys: keys !== undefined, fixedPolicy }),
      );
    await stopped;
  } finally {
    await server.close(1000 * grace);
  }
}
