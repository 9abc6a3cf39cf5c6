import { loadModel } from '@kv/models';
import type { Model } from '@kv/models';
import type { Command } from 'commander';
import { chooseEngine, openEngine } from './engine.ts';
import { resolveModel } from './model-source.ts';
import type { Terminal } from './terminal.ts';

/**
 * Runs with the model of a command's `--model`, on what its `--device` and `--engine` choose (`resident`: with caches
 * on the GPU), and gives the device back whatever happens.
 */
export async function withModel(
  command: Command,
  terminal: Terminal,
  resident: boolean,
  use: (model: Model) => Promise<void>,
): Promise<void> {
  const path = await resolveModel(command.opts<{ model: string }>().model, terminal),
    engine = await openEngine(await chooseEngine(command, terminal.cwd, resident), terminal.cwd);
  try {
    await use(await loadModel(path, { engine, signal: terminal.signal }));
  } finally {
    engine.close();
  }
}
