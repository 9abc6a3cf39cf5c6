import { cpuRuntime, generate, loadModel } from '@kv/models';
import { parsePolicy } from '@kv/policies';

/** What the page answers, as plain numbers. */
export interface Answered {
  readonly isolated: boolean;
  readonly engine: string;
  readonly tokens: readonly number[];
  readonly kept: readonly (readonly (readonly number[])[])[];
  readonly logits: readonly number[];
  readonly said: readonly string[];
}

declare global {
  /** Called by the test. */
  var answer: (threads: number) => Promise<Answered>;
}

export async function answered(model: string, threads: number): Promise<Omit<Answered, 'isolated'>> {
  const said: string[] = [],
    loaded = await loadModel(model, {
      runtime: cpuRuntime({ exact: true, threads, warn: (sentence) => void said.push(sentence) }),
    });
  const { tokens, report, logits } = await generate(loaded, {
    ids: Array.from({ length: 300 }, (_, i) => (i * 37) % 500),
    policy: parsePolicy('h2o'),
    budget: 64,
    block: 100,
    maxNewTokens: 20,
    logits: 1,
  });
  loaded.destroy();
  return { engine: loaded.engine, tokens, kept: report.kept, logits: [...logits![0]], said };
}

if (typeof document === 'object')
  globalThis.answer = async (threads) => ({
    isolated: globalThis.crossOriginIsolated,
    ...(await answered(new URL('llama/', location.href).href, threads)),
  });
