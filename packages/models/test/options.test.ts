import { cpu } from '@kv/cpu';
import { beforeAll, expect, test } from 'vitest';
import {
  cpuRuntime,
  createPrefixStore,
  decode,
  generate,
  hostRuntime,
  loadCache,
  loadModel,
  onnxRuntime,
  Sampler,
  Sequence,
} from '../src/index.ts';
import { exportOnnx, onnxEngine } from '@kv/engine-onnx';
import type { Model } from '../src/index.ts';

let model: Model, sequence: Sequence;
beforeAll(async () => {
  model = await loadModel('embedded');
  sequence = new Sequence(model);
});
/** In a variable, since types refuse an unknown name only in a literal. */
const wrong = { cadence: 2 } as object;

test.each<[string, () => unknown, string]>([
  [
    'generate',
    () => generate(model, { ids: [1], ...wrong }),
    "generate: has no option 'cadence': it has prompt, messages, chatTemplateKwargs, ids, policy, budget, decodePolicy, decodeBudget, protect, block, schema, logits, certify, backend, cache, maxNewTokens, stop, signal, temperature, topK, topP, minP, repetitionPenalty, frequencyPenalty, presencePenalty, logitBias, seed, grammar, stopAtEos, turn, every, inFlight, remember",
  ],
  [
    'generate',
    () => generate(model, { ids: [1], ...{ maxTokens: 2 } }),
    "generate: has no option 'maxTokens' (did you mean maxNewTokens?)",
  ],
  ['decode', () => decode(sequence, wrong).next(), "decode: has no option 'cadence'"],
  [
    'new Sequence',
    () => new Sequence(model, cpu, wrong),
    "sequence: has no option 'cadence': it has window, cache, mostOperations, snapshots, start",
  ],
  ['prefill', () => sequence.prefill([1], wrong), "prefill: has no option 'cadence'"],
  ['prefillParts', () => sequence.prefillParts([1], wrong).next(), "prefill: has no option 'cadence'"],
  ['append', () => sequence.append([1], wrong), "append: has no option 'cadence': it has rows"],
  [
    'createPrefixStore',
    () => createPrefixStore(model, { maxBytes: 1, ...wrong }),
    "createPrefixStore: has no option 'cadence'",
  ],
  ['loadCache', () => loadCache(model, new Uint8Array(), wrong), "loadCache: has no option 'cadence'"],
  ['loadModel', () => loadModel('embedded', wrong), "loadModel: has no option 'cadence'"],
  ['sampler', () => new Sampler(wrong), "sampler: has no option 'cadence': it has temperature, topK, topP, minP"],
  ['cpuRuntime', () => cpuRuntime(wrong), "cpuRuntime: has no option 'cadence'"],
  ['hostRuntime', () => hostRuntime(wrong as never), "hostRuntime: has no option 'cadence'"],
  ['onnxRuntime', () => onnxRuntime(wrong), "onnxRuntime: has no option 'cadence'"],
  ['onnxEngine', () => onnxEngine({} as never, wrong), "onnxEngine: has no option 'cadence'"],
  ['exportOnnx', () => exportOnnx('embedded', '/nowhere', wrong), "exportOnnx: has no option 'cadence'"],
])('%s refuses an option that it does not have', async (_, call, sentence) => {
  await expect((async () => call())()).rejects.toThrow(sentence);
});
