import { headDims } from '@kv/checkpoints';
import { id, KvError } from '@kv/core';
import type { Budget } from '@kv/core';
import { compile, formNames } from '@kv/core/engine';
import type { CompiledPolicy } from '@kv/core/engine';
import { fitsHeads, predictCache } from '@kv/engine';
import type { CachePrediction } from '@kv/engine';
import type { CacheForm, ModelConfig } from '@kv/models';

/** Bytes in another form. */
export interface OtherForm extends Pick<CachePrediction, 'before'> {
  readonly form: CacheForm;
  /** Null where the budget holds fewer slots in it than the policy forces. */
  readonly after: number | null;
}

/** Predicts the bytes in every other form that the model's heads fit. */
export const otherForms = (
  policy: CompiledPolicy,
  config: ModelConfig,
  length: number,
  given: Budget,
  form: CacheForm,
): readonly OtherForm[] =>
  formNames
    .filter((other) => other !== form && fitsHeads(other, headDims(config)))
    .map((other) => {
      const { before } = predictCache(compile(id), config, length, '100%', other);
      try {
        return { form: other, before, after: predictCache(policy, config, length, given, other).after };
      } catch (error) {
        if (!KvError.is(error)) throw error;
        return { form: other, before, after: null };
      }
    });
