import { resolve } from 'node:path';
import { KvError, maybe, required, text, texts, withDefault } from '@kv/core';
import type { ResolvedOptions } from '@kv/core';
import { compile, expectBudget } from '@kv/core/engine';
import { checkWritable, writeWhole } from '@kv/evaluation/files';
import { generate } from '@kv/models';
import { recorder, schemas, traceFile } from '@kv/engine';
import { Command } from 'commander';
import { layersText } from '../cache-text.ts';
import { withFlagNames, withFlags } from '../flags.ts';
import { withExamples } from '../help.ts';
import { plain } from '../plain.ts';
import { resolvePolicy } from '../policy/resolve-policy.ts';
import { expectHeld } from '../run/decode-policy.ts';
import { layerTable } from '../run/layer-table.ts';
import { promptReader, withPrompt } from '../run/prompt.ts';
import { spanTable } from '../run/span-table.ts';
import { whyText } from '../run/why.ts';
import { cacheOption, machineOptions, on } from '../shared-options.ts';
import { lineWidth } from '../terminal.ts';
import type { Terminal } from '../terminal.ts';
import { withHostModel } from '../with-model.ts';
import { RUN } from './run.ts';

const { GENERATE } = schemas;

/** Flags of `kv trace`. */
export const TRACE = {
  ...machineOptions('fast'),
  prompt: RUN.prompt,
  promptFile: RUN.promptFile,
  raw: on("The prompt as it stands, not as a turn of the model's chat template."),
  policy: required(text('', 'a policy', "A policy that evicts, as 'kv run --policy' takes it.")),
  budget: GENERATE.budget,
  cache: cacheOption(),
  block: GENERATE.block,
  every: GENERATE.every,
  maxNewTokens: withDefault(GENERATE.maxNewTokens, 16),
  why: texts('Why a position, or a text of the run, left, in one line.'),
  detail: RUN.detail,
  out: maybe(text('', 'a file', 'Write all that was recorded as safetensors.')),
};
type Flags = ResolvedOptions<typeof TRACE>;

/** Sources of a prompt, for errors. */
const PROMPT = "a prompt in quotes (kv trace 'TEXT'), standard input, --prompt and --prompt-file";

/** `kv trace`: records what every step of every eviction scored, masked and kept, and why a token was dropped. */
export const traceCommand = (terminal: Terminal): Command =>
  withExamples(
    withFlags(
      new Command('trace')
        .description(
          'Say what every layer of a run kept and why a text left, or write the scores, masks and kept sets of every eviction.',
        )
        .argument('[prompt]', "the prompt; '-', or nothing where something is piped in, reads standard input"),
      TRACE,
    ).action(async (prompt: string | undefined, flags: Flags, command: Command) =>
      trace(await withPrompt(prompt, flags, false, PROMPT, terminal), command, terminal),
    ),
    [
      'kv trace --prompt-file book.txt --policy attendedSentences --budget 25%',
      'what every layer kept, and of which part',
    ],
    [
      'kv trace --prompt-file book.txt --policy attendedSentences --budget 25% --out trace.safetensors',
      'scores, masks and kept sets of every step',
    ],
    [
      "kv trace --prompt-file book.txt --policy outstandingSentences --budget 64 --why 'XK7M9P2Q'",
      'why this text was evicted',
    ],
  );

async function trace(flags: Flags, command: Command, terminal: Terminal): Promise<void> {
  const { cwd, stdout, signal } = terminal,
    { out, why = [], budget, block, every, maxNewTokens } = flags;
  if (flags.detail && why.length === 0) throw new KvError('--detail', 'expected --why too, got none');
  if (out !== undefined) checkWritable(resolve(cwd, out), plain(out));
  const read = promptReader(
      { ...flags, turn: flags.raw ? false : undefined, from: PROMPT, evictsInBlocks: block !== undefined },
      cwd,
    ),
    recorded = recorder(await resolvePolicy(flags.policy, { cwd })),
    compiled = compile(recorded.policy),
    { evicts, label } = compiled;
  if (!evicts) throw new KvError('--policy', `expected a policy that evicts, got '${label}'`);
  expectBudget(compiled, budget, { at: '--budget' });
  await withHostModel(command, terminal, async (model) => {
    await withFlagNames(command, () => expectHeld(model, { policy: recorded.policy, budget, every }));
    const ids = read(model),
      { tokens, report } = await generate(model, {
        ids,
        policy: recorded.policy,
        budget,
        block,
        every,
        maxNewTokens,
        signal,
      });
    if (signal.aborted) return;
    const all = [...ids, ...tokens];
    for (const asked of why) stdout.write(whyText(asked, recorded.events, all, model, flags.detail));
    if (why.length === 0 && out === undefined)
      stdout.write(
        `${layerTable(recorded.events, lineWidth(stdout), report.levels)}\n${spanTable(report.spans, (from, to) => model.tokenizer.decode(all.slice(from, to)), lineWidth(stdout))}${layersText(model.config)}`,
      );
    if (out === undefined) return;
    const layers = new Set(recorded.events.map(({ layer }) => layer)).size;
    writeWhole(
      resolve(cwd, out),
      traceFile(recorded.events, { policy: label, model: model.name, fingerprint: model.fingerprint }),
      plain(out),
    );
    const each = recorded.events.length / Math.max(1, layers);
    stdout.write(`${each} ${each === 1 ? 'event' : 'events'} of ${layers} layers are in ${plain(out)}\n`);
  });
}
