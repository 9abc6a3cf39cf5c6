import { AutoModelForCausalLM, AutoTokenizer, env, Tensor } from '@huggingface/transformers';
import { parsePolicy } from '@kv/policies';
import { withPolicy } from '../src/index.ts';
import { generated, type Prompted } from './generated.ts';

/** What the test asks of a page, and of Node for comparison. */
export interface Asked {
  readonly text: string;
  readonly policy: string;
  readonly device: 'wasm' | 'webgpu' | 'cpu';
  readonly block?: number;
}
/** What they answer, as plain numbers. */
export interface Answered {
  /** What the model writes without a policy. */
  readonly alone: readonly number[];
  readonly tokens: readonly number[];
  /** The likeliest token after another one, for a fork of the cache and for the cache after one more event. */
  readonly next: readonly number[];
  readonly kept: readonly (readonly (readonly number[])[])[];
  readonly events: number;
  /** Where the cache lies before and after an event. */
  readonly places: readonly string[];
}

declare global {
  /** Called by the test. */
  var underPolicy: (asked: Asked) => Promise<Answered>;
}

/** Models that were loaded, by device: a software adapter takes half a minute to compile one's kernels. */
const models = new Map<string, ReturnType<typeof AutoModelForCausalLM.from_pretrained>>();
function modelOf(folder: string, device: Asked['device']): ReturnType<typeof AutoModelForCausalLM.from_pretrained> {
  const model = models.get(device) ?? AutoModelForCausalLM.from_pretrained(folder, { device, dtype: 'fp32' } as never);
  models.set(device, model);
  return model;
}

/** A generation, one more event of its cache, and a fork that does not see it. */
export async function answered(folder: string, { text, policy, device, block }: Asked): Promise<Answered> {
  const model = await modelOf(folder, device),
    tokenizer = await AutoTokenizer.from_pretrained(folder),
    kept = await withPolicy(model, {
      policy: parsePolicy(policy),
      budget: 40,
      every: 4,
      tokenizer,
      source: folder,
      ...(block !== undefined && { block }),
    }),
    inputs = tokenizer(text) as Prompted,
    { past_key_values: cache } = (await kept.generate({
      ...inputs,
      do_sample: false,
      max_new_tokens: 10,
      return_dict_in_generate: true,
    } as never)) as unknown as { past_key_values: Parameters<typeof kept.fork>[0] },
    stats = kept.stats(cache),
    place = (): string => (cache as unknown as Record<string, { location: string }>)['past_key_values.0.key'].location,
    before = place(),
    fork = kept.fork(cache);
  await kept.evict(cache, 30);
  const places = [before, place()],
    one = { input_ids: new Tensor('int64', [5n], [1, 1]) },
    next = async (from: typeof cache): Promise<number> => {
      const { logits } = (await kept.forward({ ...one, past_key_values: from } as never)) as { logits: Tensor };
      return (logits.data as Float32Array).indexOf(Math.max(...(logits.data as Float32Array)));
    };
  return {
    alone: await generated(model, inputs, { max_new_tokens: 10 }),
    tokens: await generated(kept, inputs, { max_new_tokens: 10 }),
    next: [await next(fork), await next(cache)],
    kept: stats.kept,
    events: stats.events,
    places,
  };
}

if (typeof document === 'object') {
  const here = new URL('.', location.href).href;
  env.allowLocalModels = true;
  env.allowRemoteModels = false;
  env.localModelPath = '/';
  const { wasm } = env.backends.onnx;
  if (wasm) wasm.wasmPaths = `${here}ort/`;
  globalThis.underPolicy = (asked) => answered('model', asked);
}
