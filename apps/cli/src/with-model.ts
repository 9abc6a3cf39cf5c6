import { loadModel } from '@kv/models';
import type { CacheForm, HostModel, Model, RunningModel, Runtime } from '@kv/models';
import type { Command } from 'commander';
import { engineText } from './cache-text.ts';
import type { Closable } from './device.ts';
import { chooseCpuEngine, chooseEngine, openCpuRuntime, openRuntime } from './engine.ts';
import { withFlagNames } from './flags.ts';
import { resolveModel } from './model-source.ts';
import { readText } from './run/questions.ts';
import type { Terminal } from './terminal.ts';

interface ModelFlags {
  readonly model: string;
  readonly cache?: CacheForm | undefined;
  /** A file with a chat template. */
  readonly chatTemplate?: string | undefined;
  /** Saved caches, which have a form of their own. */
  readonly load?: string | undefined;
  readonly loadCache?: string | undefined;
}

const pathOf = (command: Command, terminal: Terminal): Promise<string> =>
  resolveModel(command.opts<ModelFlags>().model, terminal);

/**
 * Calls a function with the model of `--model` on the device and engine of `--device` and `--engine`, and releases the
 * device afterwards.
 *
 * @param reason why only the CPU will do, if so
 */
export async function withModel(
  command: Command,
  terminal: Terminal,
  reason: string | undefined,
  use: (model: Model) => Promise<void>,
): Promise<void> {
  const path = await pathOf(command, terminal),
    runtime = await openRuntime(await chooseEngine(command, terminal.cwd, reason), terminal.cwd);
  await closing(runtime, async () => {
    const model = await loaded(path, runtime, command, terminal);
    await withFlagNames(command, () => use(model), FITTED);
  });
}

/** The same on the CPU, for commands that inspect the model. */
export async function withHostModel(
  command: Command,
  terminal: Terminal,
  use: (model: HostModel) => Promise<void>,
): Promise<void> {
  const path = await pathOf(command, terminal),
    runtime = await openCpuRuntime(
      chooseCpuEngine(command, `'kv ${command.name()}' looks inside the model`),
      terminal.cwd,
    );
  await closing(runtime, async () => {
    const model = await loaded(path, runtime, command, terminal);
    await withFlagNames(command, () => use(model), FITTED);
  });
}

/** Options that a model or an event refuses, once the text is known. */
const FITTED = ['policy', 'budget', 'decodeBudget', 'protect'];

/**
 * Loads the model, and reports what runs it and how its caches are stored, unless the command loads one: it says that
 * itself.
 */
async function loaded<M extends RunningModel>(
  path: string,
  runtime: Runtime<M>,
  command: Command,
  { stderr, signal, cwd }: Terminal,
): Promise<Model & M> {
  const { cache, chatTemplate: file, load, loadCache } = command.opts<ModelFlags>(),
    chatTemplate = file === undefined ? undefined : readText(file, cwd),
    model = await withFlagNames(command, () => loadModel(path, { runtime, cache, chatTemplate, signal }));
  if (load === undefined && loadCache === undefined) stderr.write(engineText(model));
  return model;
}

async function closing(opened: Closable, run: () => Promise<void>): Promise<void> {
  try {
    await run();
  } finally {
    opened.close();
  }
}
