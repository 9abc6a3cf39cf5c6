import { loadModel } from '@kv/models';
import type { HostModel, Model } from '@kv/models';
import type { Command } from 'commander';
import type { Closing } from './device.ts';
import { chooseEngine, chooseHostEngine, openEngine, openRuntime } from './engine.ts';
import { resolveModel } from './model-source.ts';
import type { Terminal } from './terminal.ts';

const pathOf = (command: Command, terminal: Terminal): Promise<string> =>
  resolveModel(command.opts<{ model: string }>().model, terminal);

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
  const path = await pathOf(command, terminal),
    runtime = await openRuntime(await chooseEngine(command, terminal.cwd, resident), terminal.cwd);
  await closing(runtime, async () => use(await loadModel(path, { runtime })));
}

/** The same with caches on the host, whatever multiplies. */
export async function withHostModel(
  command: Command,
  terminal: Terminal,
  use: (model: HostModel) => Promise<void>,
): Promise<void> {
  const path = await pathOf(command, terminal),
    engine = await openEngine(await chooseHostEngine(command, terminal.cwd), terminal.cwd);
  await closing(engine, async () => use(await loadModel(path, { engine })));
}

async function closing(opened: Closing, run: () => Promise<void>): Promise<void> {
  try {
    await run();
  } finally {
    opened.close();
  }
}
