import { basename, resolve } from 'node:path';
import { KvError, maybe, text, texts, whole } from '@kv/core';
import type { ResolvedOptions } from '@kv/core';
import { compile, expectBudget } from '@kv/core/engine';
import { samplingOf } from '@kv/engine';
import type { Model } from '@kv/models';
import { redact } from '@kv/scorers-sponsorship';
import { CONVERSATIONS, createServer, DRAWS, expectHost, LIMITS, readKeys, SERVER } from '@kv/server';
import { Command } from 'commander';
import { hostOnly } from '../engine.ts';
import { sized, withFlagNames, withFlags } from '../flags.ts';
import { withExamples } from '../help.ts';
import { catalogueWith } from '../policy/installed.ts';
import { checkPolicyNamed, resolvePolicy } from '../policy/resolve-policy.ts';
import { readText } from '../run/questions.ts';
import { openKeyFile } from '../serve/key-file.ts';
import { startLines, warningsOf } from '../serve/start-lines.ts';
import { sharedStore } from '../stores.ts';
import { cacheOption, chatTemplateOption, machineOptions, on } from '../shared-options.ts';
import type { Terminal } from '../terminal.ts';
import { withModel } from '../with-model.ts';

/** Flags of `kv serve`. */
export const SERVE = {
  ...machineOptions('fast'),
  name: { ...maybe(SERVER.name), required: false, otherwise: 'the last part of --model, without .gguf' },
  policy: text('full', 'a policy', "What caches go by unless a request says otherwise, as for 'kv run'."),
  budget: SERVER.budget,
  cache: cacheOption(),
  block: SERVER.block,
  every: SERVER.every,
  chatTemplate: chatTemplateOption,
  chatTemplateKwargs: SERVER.chatTemplateKwargs,
  ...DRAWS,
  pieces: texts('A package whose pieces requests may name, besides the catalogue.'),
  protect: SERVER.protect,
  fixedPolicy: on(SERVER.fixedPolicy.says),
  memory: { ...sized(SERVER.memory), required: false, default: 2 ** 31 },
  conversations: maybe(
    text(
      '',
      'a folder or an address',
      'Where conversations are written after each answer, caches and texts of stored responses in clear: they go on from there when memory had no room for them, after a restart, or on another machine that shares redis://HOST:PORT or s3://BUCKET (see @kv/stores).',
    ),
    'those that memory has no room for are read again',
  ),
  conversationBytes: sized(CONVERSATIONS.bytes),
  conversationHours: CONVERSATIONS.hours,
  queue: LIMITS.queue,
  running: LIMITS.running,
  maxNewTokens: LIMITS.maxNewTokens,
  maxPromptTokens: LIMITS.maxPromptTokens,
  host: text('127.0.0.1', 'an address', 'Where to listen; without --api-key-file only loopback.'),
  port: whole(8080, 'n', 'The port; 0 is any that is free.', { most: 65535, want: 'a whole number from 0 to 65535' }),
  apiKeyFile: maybe(
    text(
      '',
      'a file',
      'Keys, one a line, of which every request must bring one; a file that all users can read is warned of.',
    ),
  ),
  grace: whole(10, 'seconds', 'How long a signal lets answers go on.'),
};
/** What begins like an address, not like a folder. */
const ADDRESS = /^[a-z][a-z0-9+.-]+:\/\//i;
type ServeOptions = ResolvedOptions<typeof SERVE>;

/** `kv serve`: a server with the protocols of OpenAI and Anthropic. Calls `onStop` when a signal stops it as intended. */
export const serveCommand = (terminal: Terminal, onStop: () => void): Command =>
  withExamples(
    withFlags(
      new Command('serve').description(
        'Answer the protocols of OpenAI and Anthropic: many conversations over bounded caches in one memory budget.',
      ),
      SERVE,
    ).action((options: ServeOptions, command: Command) => serve(options, command, terminal, onStop)),
    [
      'kv serve --model model.gguf --policy outstandingSentences --budget 25% --memory 2GB',
      'OpenAI clients at http://127.0.0.1:8080/v1, Anthropic clients at http://127.0.0.1:8080',
    ],
    ['kv serve --host 0.0.0.0 --api-key-file keys.txt --fixed-policy', 'for others, with a key a line'],
  ).addHelpText(
    'after',
    `
A request names a policy of its own in its field "policy", and "budget", "block" and "every" as fields too.
The log goes to stdout, a JSON object a line; a terminal shows addresses, a request to paste, and then warnings and errors alone.`,
  );

async function serve(options: ServeOptions, command: Command, terminal: Terminal, onStop: () => void): Promise<void> {
  checkPolicyNamed(command);
  terminal.outliveStdout?.(); // it is only the log
  const { cwd } = terminal,
    policy = await resolvePolicy(options.policy, { cwd }),
    compiled = compile(policy),
    keys =
      options.apiKeyFile === undefined ? undefined : readKeys(readText(options.apiKeyFile, cwd), options.apiKeyFile),
    registry = await catalogueWith(options.pieces, cwd),
    open = options.apiKeyFile === undefined ? undefined : openKeyFile(options.apiKeyFile, cwd);
  expectBudget(compiled, options.budget, { at: '--budget' });
  await withFlagNames(command, () => expectHost(options.host, keys !== undefined));
  if (open !== undefined) terminal.stderr.write(`${open}\n`);
  await withModel(command, terminal, hostOnly([compiled]), (model) =>
    withFlagNames(command, () => listen(model, options, terminal, { policy, keys, registry })).then(onStop),
  );
}

type Resolved = Pick<Parameters<typeof createServer>[0], 'policy' | 'keys' | 'registry'>;

/** Serves until a signal. */
async function listen(
  model: Model,
  options: ServeOptions,
  { cwd, stdout, stderr, signal, unredacted = false }: Terminal,
  resolved: Resolved,
): Promise<void> {
  const {
      budget,
      block,
      every,
      chatTemplateKwargs,
      protect,
      memory,
      conversations: folder,
      conversationBytes: bytes,
      conversationHours: hours,
      queue,
      running,
      maxNewTokens,
      maxPromptTokens,
      host,
      port,
      grace,
    } = options,
    name = options.name ?? basename(options.model).replace(/\.gguf$/i, '');
  if (name === '') throw new KvError('--name', 'expected a name, since --model ends in none, got none');
  const store = folder !== undefined && ADDRESS.test(folder) ? await sharedStore(folder, hours, cwd) : undefined,
    conversations = store ?? (folder === undefined ? undefined : { folder: resolve(cwd, folder), bytes, hours });
  const fixedPolicy = options.fixedPolicy === true,
    server = createServer({
      ...resolved,
      model,
      name,
      ...{ budget, block, every, chatTemplateKwargs, protect, memory },
      ...samplingOf(options),
      fixedPolicy,
      ...(conversations && { conversations }),
      limits: { queue, running, maxNewTokens, maxPromptTokens },
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
    store?.close();
  }
}
