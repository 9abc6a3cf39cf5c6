import { resolve } from 'node:path';
import { required, text } from '@kv/core';
import type { ResolvedOptions } from '@kv/core';
import { EXPORT, exportOnnx } from '@kv/engine-onnx';
import { Command } from 'commander';
import { withFlags } from '../flags.ts';
import { withExamples } from '../help.ts';
import { modelOption, resolveModel } from '../model-source.ts';
import type { Terminal } from '../terminal.ts';

/** Flags of `kv export`. */
export const EXPORT_FLAGS = {
  model: modelOption,
  onnx: required(text('', 'a folder', 'Where its onnx folder, config.json and tokenizer go.')),
  weights: EXPORT.weights,
  positions: EXPORT.positions,
};

/** `kv export --onnx`: converts a checkpoint to what transformers.js loads. */
export const exportCommand = (terminal: Terminal): Command =>
  withExamples(
    withFlags(new Command('export'), EXPORT_FLAGS)
      .description('Write a model as ONNX in the layout of the Hugging Face hub, as transformers.js loads it.')
      .action(async ({ model, onnx, weights, positions }: ResolvedOptions<typeof EXPORT_FLAGS>) => {
        const folder = resolve(terminal.cwd, onnx),
          files = await exportOnnx(await resolveModel(model, terminal), folder, { weights, positions });
        terminal.stdout.write(`${folder}\n${files.map((file) => `  ${file}\n`).join('')}`);
      }),
    ['kv export --onnx my-model --weights f32,q4', 'the embedded model as transformers.js loads it'],
  );
