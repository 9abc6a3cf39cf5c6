import { resolve } from 'node:path';
import { sidecarPath } from '@kv/checkpoints';
import { KvError, maybe, text, texts } from '@kv/core';
import type { ResolvedOptions } from '@kv/core';
import { counted } from '@kv/core/shared';
import { checkWritable, writeWhole } from '@kv/evaluation/files';
import { FIT_GATE, fitGate } from '@kv/evaluation/gate';
import type { FittedGate } from '@kv/evaluation/gate';
import { GATE_FILE } from '@kv/scorers-gate';
import { Command } from 'commander';
import { columns } from '../columns.ts';
import { withFlagNames, withFlags } from '../flags.ts';
import { withExamples } from '../help.ts';
import { checkpointPath } from '../model-source.ts';
import { plain } from '../plain.ts';
import { startProgress } from '../progress.ts';
import type { ProgressLine } from '../progress.ts';
import { readText } from '../run/questions.ts';
import { machineOptions, on } from '../shared-options.ts';
import type { Terminal } from '../terminal.ts';
import { withHostModel } from '../with-model.ts';

/** Flags of `kv gate`. */
export const GATE = {
  ...machineOptions('fast'),
  text: texts('A plain text, like what the model will read; more files may follow.'),
  ...FIT_GATE,
  out: maybe(
    text(
      '',
      'a file',
      "Where the gate goes; the policy 'gate' reads it once it lies next to the model, or next to a link to it.",
    ),
    `${GATE_FILE} next to the model, where the policy 'gate' looks`,
  ),
  json: on('Print one object: the file, the tokens and R² of every head.'),
};
type GateFlags = ResolvedOptions<typeof GATE>;

/** `kv gate`: fits a gate to a model and texts. */
export const gateCommand = (terminal: Terminal): Command =>
  withExamples(
    withFlags(new Command('gate'), GATE)
      .argument('[files...]', 'further plain texts')
      .description("Fit a gate to a model on your own texts: the policy 'gate' then scores slots without attention.")
      .action((files: readonly string[], options: GateFlags, command: Command) =>
        fit([...(options.text ?? []), ...files], options, command, terminal),
      ),
    [
      'kv gate --model model.gguf --text book.txt notes.txt',
      'writes model.gguf.gate.safetensors, and how well it predicts',
    ],
    ["kv run --model model.gguf --prompt-file p.txt --policy 'gate | topK' --budget 25%", 'runs by it'],
  );

async function fit(
  files: readonly string[],
  { alpha, shortest, longest, tokens, sinks, floor, out, json }: GateFlags,
  command: Command,
  terminal: Terminal,
): Promise<void> {
  if (files.length === 0) throw new KvError('--text', 'expected at least one file with a plain text, got none');
  const { cwd, stdout, stderr, signal } = terminal,
    read = files.map((name) => ({ name, text: readText(name, cwd) }));
  await withHostModel(command, terminal, async (model) => {
    const own = sidecarPath(checkpointPath(model.name), GATE_FILE),
      path = out ?? own;
    if (/^https?:/.test(path))
      throw new KvError('--out', 'expected a file, since a gate cannot be stored next to a model on a server');
    checkWritable(resolve(cwd, path), path);
    let progress: ProgressLine | undefined;
    try {
      const fitted = await withFlagNames(command, () =>
        fitGate(model, read, {
          ...{ alpha, shortest, longest, tokens, sinks, floor },
          signal,
          onRead: (done, of) => {
            progress ??= startProgress('kv gate', stderr, of, done - 1);
            progress.step();
          },
        }),
      );
      progress?.stop();
      writeWhole(resolve(cwd, path), fitted.file, path);
      stdout.write(
        json
          ? `${JSON.stringify({ file: path, tokens: fitted.tokens, ...spreadOf(fitted), r2: fitted.r2 })}\n`
          : told(path, fitted),
      );
      if (resolve(cwd, path) !== resolve(cwd, own))
        stderr.write(
          `gate: the policy 'gate' reads ${plain(own)}: put the file there, or at that name next to a link to the model\n`,
        );
    } finally {
      progress?.stop();
    }
  });
}

const spreadOf = ({ r2 }: FittedGate): { readonly mean: number; readonly least: number; readonly most: number } => {
  const all = r2.flat();
  return { mean: all.reduce((a, b) => a + b, 0) / all.length, least: Math.min(...all), most: Math.max(...all) };
};

/** Returns R² of every head as a table, and where the gate is. */
function told(path: string, fitted: FittedGate): string {
  const { tokens, r2 } = fitted,
    { mean, least, most } = spreadOf(fitted),
    heads = Math.max(...r2.map(({ length }) => length)),
    rows = [
      ['layer', ...Array.from({ length: heads }, (_, g) => `head ${g}`)],
      ...r2.map((row, l) => [String(l), ...row.map((x) => x.toFixed(3))]),
    ];
  return `${columns(rows, new Set(rows[0].keys()))}
R² of the log importance of ${counted(tokens.heldOut, 'token')} that trained nothing: ${mean.toFixed(3)} on average, from ${least.toFixed(3)} to ${most.toFixed(3)}; ${counted(tokens.trained, 'token')} trained
${path}
`;
}
