import type { Embeddings } from '@kv/core';
import type { Model } from '../load-model.ts';

/** One a model: what is measured once is found again. */
const known = new WeakMap<Model, Embeddings>();

/** A model's input embeddings, as pieces read them. */
export function embeddingsOf(model: Model): Embeddings {
  const made = known.get(model) ?? {
    width: model.config.hidden,
    encode: (text: string) => model.tokenizer.encode(text, { special: false }).ids,
    rows: (ids: readonly number[]) => model.decoder.embed(ids),
  };
  known.set(model, made);
  return made;
}
