import { defaultLinear, linearEngine, pickEngine } from '@kv/models';
import type { Engine } from '@kv/models';
import { oneOf } from './option-values.ts';

/** What multiplies: `wasm` is built in; the others are ONNX Runtime where it is installed, else `wasm` too. */
const ENGINES = ['exact', 'fast', 'wasm'] as const;
export type EngineChoice = (typeof ENGINES)[number];

/** The flag, the help text, the parser and the default of `--engine`. */
export const engineOption = (choice: EngineChoice): [flag: string, help: string, parse: (text: string) => EngineChoice, choice: EngineChoice] =>
  ['--engine <name>', 'exact (f32), fast (quantised weights as stored, activations in 8 bits) or wasm; the first two run on onnxruntime-node where it is installed', oneOf('--engine', ENGINES), choice];

/** The engine of a choice; `threads` for each of several at once. */
export async function openEngine(choice: EngineChoice, cwd: string, threads?: number): Promise<Engine> {
  if (choice === 'wasm') return linearEngine(await defaultLinear());
  return pickEngine({ exact: choice === 'exact', from: cwd, ...(threads !== undefined && { threads }) });
}
