import { headDims } from '@kv/checkpoints';
import { availableParallelism, totalmem } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ResolvedOptions } from '@kv/core';
import { bytesText } from '@kv/core/shared';
import { cachedModels, modelsIn } from '@kv/hub';
import { fitsHeads, stateBytes, tokenBytes } from '@kv/engine';
import { loadModel } from '@kv/models';
import type { CacheForm, Model } from '@kv/models';
import { Command } from 'commander';
import { colors as pc } from '../colors.ts';
import { fitColumns, reflow, wrapColumns } from '../columns.ts';
import { adapterOf, gpuFolder } from '../device.ts';
import { openRuntime, withoutOnnx } from '../engine.ts';
import type { EngineChoice } from '../engine.ts';
import { howToInstall } from '../optional-package.ts';
import { bestSpeed } from '../doctor/speed.ts';
import type { DoctorSpeed } from '../doctor/speed.ts';
import { withFlags } from '../flags.ts';
import { withExamples } from '../help.ts';
import { modelOption, resolveModel } from '../model-source.ts';
import { plain } from '../plain.ts';
import { installedPieces, versionOf } from '../policy/installed.ts';
import { on } from '../shared-options.ts';
import { lineWidth } from '../terminal.ts';
import type { Terminal } from '../terminal.ts';

/** The flags that select each engine. */
const ENGINES: readonly (readonly [flag: string, choice: EngineChoice])[] = [
  ['--engine fast', 'fast'],
  ['--engine f32', 'f32'],
  ['--engine onnx', 'onnx'],
  ['--device webgpu', 'webgpu'],
];
/** Optional packages, and what each is for. */
const OPTIONAL: readonly (readonly [name: string, gain: string])[] = [
  ['onnxruntime-node', '--engine onnx'],
  ['@kv/engine-webgpu', '--device webgpu'],
  ['webgpu', '--device webgpu in Node'],
];

/** Folder in which a clone's tools put models. */
const HERE = '.kv/models';

/** How an engine stores the caches of a model. */
interface CacheFinding {
  /** Its choice without --cache, and why it is that. */
  readonly form: CacheForm;
  readonly why: string;
  /** Bytes that a token adds to a full cache, in each form that it offers for this model. */
  readonly bytesPerToken: Readonly<Partial<Record<CacheForm, number>>>;
  /** Bytes of the states of layers that keep no slots, whatever the length. */
  readonly stateBytes: number;
}
interface Engine extends Partial<DoctorSpeed> {
  readonly flag: string;
  readonly cache?: CacheFinding;
  /** The engine, or a sentence on why there is none. */
  readonly engine: string;
}
interface Findings {
  readonly machine: Readonly<Record<'kv' | 'node' | 'platform' | 'cores' | 'memory', string>>;
  readonly model: string;
  readonly engines: readonly Engine[];
  readonly adapter: Awaited<ReturnType<typeof adapterOf>>;
  readonly models: Awaited<ReturnType<typeof cachedModels>>;
  /** Models in `.kv/models`, by path. */
  readonly here: Awaited<ReturnType<typeof modelsIn>>;
  /** Versions by name; undefined for an optional package that is not installed. */
  readonly packages: Readonly<Record<string, string | undefined>>;
  readonly failed: readonly string[];
}

/** Flags of `kv doctor`. */
export const DOCTOR = {
  model: modelOption,
  json: on('Print one object {machine, model, engines, adapter, models, here, packages, failed}.'),
};

/** `kv doctor`: what is installed, and how fast it is. */
export const doctorCommand = (terminal: Terminal): Command =>
  withExamples(
    withFlags(new Command('doctor'), DOCTOR)
      .description('Say what engines, adapters, models and packages are here, and how fast each engine is.')
      .action(async ({ model, json }: ResolvedOptions<typeof DOCTOR>) => {
        const { stdout } = terminal,
          findings = await examine(model, terminal);
        stdout.write(json ? `${JSON.stringify(findings, undefined, 1)}\n` : `${told(findings, lineWidth(stdout))}\n`);
      }),
    ['kv doctor', 'with speeds of the embedded model'],
    ['kv doctor --model model.gguf', 'with those of a checkpoint'],
  );

async function examine(model: string, terminal: Terminal): Promise<Findings> {
  const { cwd } = terminal,
    here = dirname(fileURLToPath(import.meta.url)),
    adapter = await adapterOf(cwd),
    path = await resolveModel(model, terminal),
    engines: Engine[] = [];
  for (const [flag, choice] of ENGINES) {
    terminal.signal.throwIfAborted();
    const why = choice === 'onnx' ? await withoutOnnx(cwd) : undefined,
      missing = choice === 'webgpu' && typeof adapter === 'string' ? adapter : why;
    engines.push({ flag, ...(missing ? { engine: missing } : await measured(choice, path, terminal)) });
  }
  const { versions, failed } = await installedPieces(cwd);
  return {
    machine: {
      kv: versionOf('@kv/core', here) ?? '0.0.0',
      node: process.version,
      platform: `${process.platform} ${process.arch}`,
      cores: String(availableParallelism()),
      memory: bytesText(totalmem()),
    },
    model,
    engines,
    adapter,
    models: await cachedModels(),
    here: await modelsIn(join(cwd, HERE), HERE),
    packages: {
      ...Object.fromEntries(
        OPTIONAL.map(([name]) => [
          name,
          versionOf(name, cwd) ?? versionOf(name, here) ?? versionOf(name, gpuFolder(cwd) ?? here),
        ]),
      ),
      ...Object.fromEntries(versions),
    },
    failed,
  };
}

async function measured(choice: EngineChoice, path: string, { cwd, signal }: Terminal): Promise<Omit<Engine, 'flag'>> {
  const runtime = await openRuntime(choice, cwd);
  try {
    const model = await loadModel(path, { runtime, signal });
    return { engine: model.engine, cache: cacheOf(model), ...(await bestSpeed(model, signal)) };
  } finally {
    runtime.close();
  }
}

/** Returns how an engine stores the caches of a model. */
function cacheOf({ cacheForm: form, cacheForms, config }: Model): CacheFinding {
  const forms = cacheForms.filter((each) => fitsHeads(each, headDims(config)));
  return {
    form,
    why:
      forms.length === 1
        ? 'the only form that it has'
        : form !== 'f32'
          ? 'since it multiplies the weights as they are stored'
          : 'since its products are f32',
    bytesPerToken: Object.fromEntries(forms.map((each) => [each, tokenBytes(each, config)])),
    stateBytes: stateBytes(config),
  };
}

/** Describes how an engine stores caches: its choice, why, and what else it offers. */
function cacheLine({ form, why, bytesPerToken }: CacheFinding): string {
  const [own, others] = [true, false].map((chosen) =>
    Object.entries(bytesPerToken)
      .filter(([each]) => (each === form) === chosen)
      .map(([each, bytes]) => `${each} ${bytes.toLocaleString('en')}`),
  );
  return `${own.join('')}, ${why}${others.length === 0 ? '' : `; --cache also ${others.join(', ')}`}`;
}

function told({ machine, model, engines, adapter, models, here, packages, failed }: Findings, width: number): string {
  const rate = (tokens: number | undefined): string =>
      tokens === undefined ? '' : String(Number(tokens.toPrecision(3))),
    section = (title: string, text: string): string => `${pc.bold(title)}\n${text}`,
    listed = (all: Findings['here']): string =>
      wrapColumns(
        all.map(({ name, bytes }) => [bytesText(bytes), plain(name)]),
        width,
      ),
    states = engines.find(({ cache }) => cache)?.cache?.stateBytes ?? 0,
    tokens = engines.find(({ promptTokens }) => promptTokens !== undefined)?.promptTokens ?? 0,
    optional = new Set(OPTIONAL.map(([name]) => name)),
    pieces = Object.entries(packages).filter(([name]) => !optional.has(name)),
    others = pieces.filter(([name]) => !name.startsWith('@kv/'));
  const text = [
    `kv ${machine.kv} on Node ${machine.node}, ${machine.platform}, ${machine.cores} cores, ${machine.memory} of memory`,
    section(
      `Engines, tokens a second of ${plain(model)}: in a prompt of ${tokens} tokens, and in an answer to it`,
      fitColumns(
        [
          ['option', 'prompt', 'answer', 'engine'].map(pc.dim),
          ...engines.map(({ flag, engine, prefill, decode }) => [
            flag,
            rate(prefill),
            rate(decode),
            engine === adapter ? 'none, see Adapter' : prefill === undefined ? 'none, see Packages' : plain(engine),
          ]),
        ],
        new Set([1, 2]),
        width,
      ),
    ),
    section(
      `Caches of ${plain(model)}, in bytes a token${states === 0 ? '' : `, and ${states.toLocaleString('en')} of states`}`,
      wrapColumns(
        engines.flatMap(({ flag, cache }) => (cache ? [[flag, cacheLine(cache)]] : [])),
        width,
      ),
    ),
    section(
      'Adapter',
      typeof adapter === 'string'
        ? adapter
        : `${plain(adapter.name)}${adapter.software ? ', a software adapter, which --device auto passes over' : ''}`,
    ),
    section(
      `Models: embedded, and in ${plain(models.folder)}`,
      models.models.length === 0 ? 'none; --model org/name downloads one' : listed(models.models),
    ),
    ...(here.length > 0 ? [section(`Models in ${HERE}`, listed(here))] : []),
    section(
      `Packages: ${pieces.length} with pieces, ${others.length} of them by others`,
      wrapColumns(
        [
          ...others.map(([name, version = '']) => [`${name}@${version}`, "pieces, listed by 'kv pieces'"]),
          ...OPTIONAL.map(([name, gain]) =>
            packages[name] === undefined
              ? [name, `not here (${howToInstall(name)}): ${gain}`]
              : [`${name}@${packages[name]}`, gain],
          ),
        ],
        width,
      ),
    ),
    ...(failed.length > 0 ? [section('Not usable', failed.map(plain).join('\n'))] : []),
  ].join('\n\n');
  return reflow(text, width);
}
