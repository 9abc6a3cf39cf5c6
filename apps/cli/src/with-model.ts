import { loadModel } from '@kv/models';
import type { HostModel, Model, Running, Runtime } from '@kv/models';
import type { Command } from 'commander';
import type { Closing } from './device.ts';
import { chooseEngine, chooseHostEngine, openHostRuntime, openRuntime } from './engine.ts';
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
  await closing(runtime, async () => use(await loaded(path, runtime, terminal)));
}

/** The same with caches on the host, whatever multiplies. */
export async function withHostModel(
  command: Command,
  terminal: Terminal,
  use: (model: HostModel) => Promise<void>,
): Promise<void> {
  const path = await pathOf(command, terminal),
    runtime = await openHostRuntime(await chooseHostEngine(command, terminal.cwd), terminal.cwd);
  await closing(runtime, async () => use(await loaded(path, runtime, terminal)));
}

/** The model, once it is said what runs it. */
async function loaded<M extends Running>(
  path: string,
  runtime: Runtime<M>,
  { stderr, signal }: Terminal,
): Promise<Model & M> {
  const model = await loadModel(path, { runtime, signal });
  stderr.write(`engine: ${model.engine}\n`);
  return model;
}

async function closing(opened: Closing, run: () => Promise<void>): Promise<void> {
  try {
    await run();
  } finally {
    opened.close();
  }
}
