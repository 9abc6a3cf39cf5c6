import { resolve } from 'node:path';
import { KvError } from '@kv/core';
import { exportOnnx } from '@kv/engine-onnx';
import type { ExportForm } from '@kv/engine-onnx';
import { Command } from 'commander';
import { withExamples } from '../help.ts';
import { MODEL_HELP, resolveModel } from '../model-source.ts';
import { oneOf } from '../option-values.ts';
import type { Terminal } from '../terminal.ts';

interface ExportOptions {
  readonly model: string;
  readonly onnx: string;
  readonly weights: readonly ExportForm[];
  readonly positions: 'ids' | 'mask';
}

/** `kv export --onnx`: converts a checkpoint to what transformers.js loads. */
export const exportCommand = (terminal: Terminal): Command =>
  withExamples(
    new Command('export')
      .description('Write a model as ONNX in the layout of the Hugging Face hub, as transformers.js loads it.')
      .option('--model <name>', MODEL_HELP, 'embedded')
      .requiredOption('--onnx <folder>', 'where its onnx folder, config.json and tokenizer go')
      .option(
        '--weights <forms>',
        'f32 (onnx/model.onnx), q4 (onnx/model_q4.onnx: 4 bits, or the blocks of a GGUF file as they are) or f32,q4',
        formsOf,
        ['f32'],
      )
      .option(
        '--positions <from>',
        "ids: a graph that takes 'position_ids'; mask: one that counts them by the attention mask",
        oneOf('--positions', ['ids', 'mask'] as const),
        'ids',
      )
      .action(async ({ model, onnx, weights, positions }: ExportOptions) => {
        const folder = resolve(terminal.cwd, onnx),
          files = await exportOnnx(await resolveModel(model, terminal), folder, { forms: weights, positions });
        terminal.stdout.write(`${folder}\n${files.map((file) => `  ${file}\n`).join('')}`);
      }),
    ['kv export --onnx my-model --weights f32,q4', 'the embedded model as transformers.js loads it'],
  );

function formsOf(text: string): readonly ExportForm[] {
  const forms = text.split(',');
  if (forms.every((form): form is ExportForm => form === 'f32' || form === 'q4')) return [...new Set(forms)];
  throw new KvError('--weights', `expected f32, q4 or f32,q4, got ${text}`);
}
