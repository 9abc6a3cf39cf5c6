import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { writeEmbeddedGguf } from '@kv/model-testing/embedded-gguf';
import { getLlama, LlamaLogLevel } from 'node-llama-cpp';
import type { LlamaContextOptions, LlamaContextSequence, LlamaModel, Token } from 'node-llama-cpp';
import { afterAll } from 'vitest';
import { writeHybridGguf } from './hybrid-gguf.ts';

export const folder = mkdtempSync(join(tmpdir(), 'kv-llama-'));
// the process that ends gives the library's memory back: disposing of it sometimes does not come to an end
afterAll(() => rmSync(folder, { recursive: true }));

/** The embedded model in node-llama-cpp, on the processor that every machine has. */
export const embeddedLlama = (): Promise<LlamaModel> => llamaOf(writeEmbeddedGguf(join(folder, 'embedded.gguf')));

/** A small model with a layer that is not attention. */
export const hybridLlama = (): Promise<LlamaModel> => llamaOf(writeHybridGguf(join(folder, 'hybrid.gguf')));

export async function llamaOf(modelPath: string): Promise<LlamaModel> {
  const llama = await getLlama({ gpu: false, build: 'never', skipDownload: true, logLevel: LlamaLogLevel.error });
  return llama.loadModel({ modelPath });
}

export async function sequenceOf(
  model: LlamaModel,
  contextSize: number,
  options: Parameters<Awaited<ReturnType<LlamaModel['createContext']>>['getSequence']>[0] = {},
): Promise<LlamaContextSequence> {
  const settings: LlamaContextOptions = { contextSize, threads: 1 }; // more would wait for one another in spin locks
  return (await model.createContext(settings)).getSequence(options);
}

export const textOf = ({ model, contextTokens }: LlamaContextSequence): string => model.detokenize(contextTokens, true);

/** Generates greedily up to a full stop. */
export async function answered(sequence: LlamaContextSequence, question: string): Promise<string> {
  const ids: Token[] = [];
  for await (const id of sequence.evaluate(sequence.model.tokenize(question), { temperature: 0 })) {
    ids.push(id);
    const text = sequence.model.detokenize(ids);
    if (text.includes('.') || ids.length === 16) return text.split('.')[0].trim();
  }
  return sequence.model.detokenize(ids);
}
