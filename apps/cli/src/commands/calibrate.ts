import { commonHeads } from '@kv/checkpoints';
import { resolve } from 'node:path';
import { fitConstants } from '@kv/certificates';
import { count, KvError, maybe, required, text, whole } from '@kv/core';
import type { ResolvedOptions } from '@kv/core';
import { checkWritable, writeWhole } from '@kv/evaluation/files';
import { slotModel, watchLayers } from '@kv/engine';
import { Command } from 'commander';
import { withFlags } from '../flags.ts';
import { withExamples } from '../help.ts';
import { constantLines } from '../run/certificate-lines.ts';
import { readText } from '../run/questions.ts';
import { machineOptions } from '../shared-options.ts';
import type { Terminal } from '../terminal.ts';
import { withHostModel } from '../with-model.ts';

/** Flags of `kv calibrate`. */
export const CALIBRATE = {
  ...machineOptions('f32'),
  text: required(text('', 'a file', 'A plain text, like what the model will read.')),
  tokens: count(4096, 'tokens', 'How many of its first tokens to use, at most what the model has room for.', {
    least: 16,
  }),
  sinks: whole(4, 'positions', 'First positions, which the fading of attention leaves out.'),
  out: maybe(text('', 'a file', 'Where the constants go; without it they are printed as JSON.')),
};
type CalibrateOptions = ResolvedOptions<typeof CALIBRATE>;

/** `kv calibrate`: fits the constants of design-time bounds on a text. */
export const calibrateCommand = (terminal: Terminal): Command =>
  withExamples(
    withFlags(new Command('calibrate'), CALIBRATE)
      .description("Fit the constants of the bounds of PSAW and ETF on a text, for 'kv run --certify --constants'.")
      .action((options: CalibrateOptions, command: Command) => calibrate(options, command, terminal)),
    ['kv calibrate --text book.txt --out c.json', 'fits the constants on a text'],
    [
      "kv run --prompt-file p.txt --policy 'psaw' --certify --constants c.json",
      'reports what was dropped, with the bounds',
    ],
  );

async function calibrate(
  { text, tokens, sinks, out }: CalibrateOptions,
  command: Command,
  terminal: Terminal,
): Promise<void> {
  const read = readText(text, terminal.cwd);
  if (out !== undefined) checkWritable(resolve(terminal.cwd, out), out);
  await withHostModel(command, terminal, async (model) => {
    const { config, tokenizer, name } = model,
      { headDim } = commonHeads(slotModel(config), '--model'),
      {
        attention: { scale },
        maxPositions,
      } = config,
      ids = tokenizer.encode(read).ids.slice(0, Math.min(tokens, maxPositions)),
      by = scale * Math.sqrt(headDim);
    if (ids.length < 16) throw new KvError('--text', `expected at least 16 tokens of ${name}, got ${ids.length}`);
    const all = fitConstants({ ...slotModel(config), ...commonHeads(slotModel(config), '--model') }, { sinks });
    await watchLayers(model, ids, {
      queries: (layer, q) =>
        all.queries(
          layer,
          q.map((x) => x * by),
        ),
      keys: all.keys,
      newest: all.newest,
    });
    const constants = all.take(ids.length),
      json = `${JSON.stringify({ ...constants, model: model.fingerprint }, null, 1)}\n`;
    if (out === undefined) {
      terminal.stdout.write(json);
      return;
    }
    writeWhole(resolve(terminal.cwd, out), json, out);
    terminal.stdout.write(constantLines(constants));
  });
}
