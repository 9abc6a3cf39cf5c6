import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { compile, KvError } from '@kv/core';
import { generate, loadModel } from '@kv/models';
import type { Budget, Generated, Model } from '@kv/models';
import { Command } from 'commander';
import { budget, number, whole } from '../option-values.ts';
import { resolvePolicy } from '../policy/resolve-policy.ts';
import type { Terminal } from '../terminal.ts';

interface RunOptions {
  readonly model: string;
  readonly prompt?: string;
  readonly promptFile?: string;
  readonly promptIds?: string;
  readonly policy: string;
  readonly budget?: Budget;
  readonly block?: number;
  readonly cadence?: number;
  readonly maxNewTokens: number;
  readonly json?: true;
  readonly logits?: number;
  readonly temperature?: number;
  readonly topP?: number;
  readonly seed?: number;
  readonly stop?: readonly string[];
}

/** `kv run`: one answer over a cache kept at a budget. */
export const runCommand = (terminal: Terminal): Command => new Command('run')
  .description('Answer a prompt while a policy keeps the cache at its budget.')
  .option('--model <name>', "'embedded', or a folder with config.json, model.safetensors and tokenizer.json", 'embedded')
  .option('--prompt <text>', 'the prompt')
  .option('--prompt-file <file>', 'a file with the prompt')
  .option('--prompt-ids <file>', 'a file with token ids: a JSON array, or numbers between white space')
  .option('--policy <policy>', "a name that 'kv pieces' lists, with options such as snapkv(window=16,kernel=5); or a module that exports 'policy'", 'full')
  .option('--budget <slots>', 'slots per layer and KV head, or the share of the prompt to keep, such as 25%', budget('--budget'))
  .option('--block <tokens>', 'prefill in blocks of so many tokens, each followed by an eviction', whole('--block', { min: 1 }))
  .option('--cadence <tokens>', 'evict again after so many generated tokens', whole('--cadence', { min: 1 }))
  .option('--max-new-tokens <n>', 'the longest answer', whole('--max-new-tokens'), 64)
  .option('--stop <text>', 'end the answer before this text (may be given again)', (text: string, all: readonly string[] = []) => [...all, text])
  .option('--temperature <t>', 'sample instead of taking the likeliest token; 0 is greedy', number('--temperature', { min: 0 }))
  .option('--top-p <p>', 'sample from the smallest set of tokens with this probability', number('--top-p', { above: 0, max: 1 }))
  .option('--seed <n>', 'seed of the sampling', whole('--seed'))
  .option('--logits <n>', 'with --json: the logits of the last n positions', whole('--logits'))
  .option('--json', 'print one object {text, tokens, kept, bytes, times, policy} instead of the text')
  .action((options: RunOptions) => run(options, terminal));

async function run(options: RunOptions, { stdout, signal, cwd }: Terminal): Promise<void> {
  if (options.logits !== undefined && !options.json) throw new KvError('--logits', 'expected --json beside it, got a run that prints text');
  if ((options.topP !== undefined || options.seed !== undefined) && options.temperature === undefined) throw new KvError(options.topP === undefined ? '--seed' : '--top-p', 'expected --temperature beside it, got greedy decoding');
  const read = promptReader(options, cwd);
  const policy = await resolvePolicy(options.policy, { cwd });
  if (compile(policy).evicts && options.budget === undefined) throw new KvError('--budget', `expected a number of slots or a share such as 25%, since '${policy.label}' evicts, got none`);
  const model = await loadModel(options.model);
  const ids = read(model);
  const { block, cadence, logits, maxNewTokens, stop, temperature, topP, seed } = options;
  const generation = generate(model, { ids, policy, budget: options.budget, block, every: cadence, maxNewTokens, stop, stopAtEos: options.promptIds === undefined, temperature, topP, seed, logits, signal });
  if (!options.json) {
    for await (const { text } of generation) stdout.write(text);
    if (!signal.aborted) stdout.write('\n');
    return;
  }
  const generated = await generation;
  if (!signal.aborted) stdout.write(`${JSON.stringify(asJson(generated))}\n`);
}

const asJson = ({ text, tokens, report: { kept, bytes, times, policy }, logits }: Generated): object =>
  ({ text, tokens, kept, bytes, times, policy, ...(logits && { logits: logits.map((row) => Array.from(row)) }) });

/** Reads the prompt now, and encodes it once there is a model. */
function promptReader({ prompt, promptFile, promptIds }: RunOptions, cwd: string): (model: Model) => readonly number[] {
  if ([prompt, promptFile, promptIds].filter((given) => given !== undefined).length !== 1) throw new KvError('prompt', 'expected exactly one of --prompt, --prompt-file and --prompt-ids');
  const text = prompt ?? readText((promptFile ?? promptIds)!, cwd);
  const given = promptIds === undefined ? undefined : parseIds(text, promptIds);
  return ({ name, config: { maxPositions, vocab }, tokenizer }) => {
    const ids = given ?? tokenizer.encode(text).ids;
    const wrong = ids.find((id) => id >= vocab);
    if (wrong !== undefined) throw new KvError('--prompt-ids', `expected ids below ${vocab}, the vocabulary of ${name}, got ${wrong}`);
    if (ids.length === 0) throw new KvError('prompt', 'expected at least one token, got an empty prompt');
    if (ids.length > maxPositions) throw new KvError('prompt', `expected at most ${maxPositions} tokens, the context of ${name}, got ${ids.length}`);
    return ids;
  };
}

function readText(file: string, cwd: string): string {
  try {
    return readFileSync(resolve(cwd, file), 'utf8');
  } catch (cause) {
    throw new KvError(file, `expected a readable file, got ${(cause as NodeJS.ErrnoException).code ?? String(cause)}`);
  }
}

function parseIds(text: string, file: string): readonly number[] {
  const words = text.trim().startsWith('[') ? jsonArray(text, file) : text.split(/\s+/).filter((word) => word !== '').map((word) => (/^\d+$/.test(word) ? Number(word) : word));
  return words.map((id) => {
    if (Number.isSafeInteger(id) && (id as number) >= 0) return id as number;
    throw new KvError(file, `expected token ids (whole numbers of at least 0), got ${JSON.stringify(id)}`);
  });
}

function jsonArray(text: string, file: string): readonly unknown[] {
  try {
    return JSON.parse(text) as readonly unknown[];
  } catch (cause) {
    throw new KvError(file, `expected a JSON array of token ids, got ${(cause as Error).message}`);
  }
}
