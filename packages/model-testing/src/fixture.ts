import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** Logits of transformers at some positions of a sequence. */
export interface GoldenOutput {
  readonly ids: number[];
  readonly logits: Readonly<Record<string, number[]>>;
}

/** Returns the path of a file of a tiny checkpoint made by tools/reference-models. */
export const fixture = (path: string): string => fileURLToPath(new URL(`../fixtures/${path}`, import.meta.url));

/** Names of the tiny checkpoints, one for each family or variant of a configuration. */
export const families: readonly string[] = readdirSync(fixture('.')).filter((name) =>
  existsSync(fixture(`${name}/config.json`)),
);

/** Checkpoints that differ from another of their family in shapes or options alone; long tests leave them to `KV_FULL=1`. */
const variants: ReadonlySet<string> = new Set([
  ...['ministral3', 'olmo3-biased', 'lfm3-plain', 'granitemoehybrid-biased', 'granitemoehybrid-untied'],
]);

/** One or more checkpoints of each family, for long tests; `KV_FULL=1` takes all of them. */
export const leadingFamilies: readonly string[] = families.filter(
  (name) => process.env.KV_FULL === '1' || !variants.has(name),
);

/** Checkpoints with their formats: the folder, and `model.gguf` if there is one. */
export const familyFiles: readonly (readonly [name: string, file: string])[] = families.flatMap((name) =>
  ['.', 'model.gguf'].filter((file) => existsSync(fixture(`${name}/${file}`))).map((file) => [name, file] as const),
);

export const fixtureJson = <T>(path: string): T => JSON.parse(readFileSync(fixture(path), 'utf8')) as T;

/** Whether every layer of a checkpoint has attention. */
export const hasOnlyAttention = (name: string): boolean =>
  !/"(?:conv|linear_attention|mamba)"/.test(readFileSync(fixture(`${name}/config.json`), 'utf8'));

/** Whether the heads of a checkpoint have learned sinks. */
export const hasSinks = (name: string): boolean =>
  ['granite_swa', 'gpt_oss'].includes(fixtureJson<{ model_type: string }>(`${name}/config.json`).model_type);

/** Whether layers of a checkpoint have routed experts. */
export const hasExperts = (name: string): boolean =>
  /"num_(?:local_)?experts": [1-9]/.test(readFileSync(fixture(`${name}/config.json`), 'utf8'));

/** Whether the queries of a checkpoint are scaled by their position. */
export const hasScaledQueries = (name: string): boolean =>
  readFileSync(fixture(`${name}/config.json`), 'utf8').includes('"llama_4_scaling_beta"');

/** Returns the outputs of transformers for a checkpoint, limited to what a GGUF file can represent if `file` is one. */
export function goldenOutputs(name: string, file: string): readonly GoldenOutput[] {
  const { sequences, gguf } = fixtureJson<{ sequences: GoldenOutput[]; gguf?: GoldenOutput[] }>(`${name}/golden.json`);
  return file.endsWith('.gguf') ? (gguf ?? sequences) : sequences;
}

/** Greedy continuation of some tokens by transformers. */
export interface Greedy {
  readonly after: number[];
  readonly tokens: number[];
}

/** Returns a checkpoint's greedy continuation; for a GGUF file, of what it can represent. */
export function greedy(name: string, file: string): Greedy {
  const golden = fixtureJson<{ greedy: Greedy; ggufGreedy?: Greedy }>(`${name}/golden.json`);
  return file.endsWith('.gguf') ? (golden.ggufGreedy ?? golden.greedy) : golden.greedy;
}
