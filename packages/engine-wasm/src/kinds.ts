import type { TensorType } from '@kv/checkpoints';
import { UnsupportedModelError } from './unsupported-model.ts';

/** Numbers of kernel/kinds.ts. */
export const kinds = {
  F32: 0,
  F16: 1,
  BF16: 2,
  Q8_0: 3,
  Q4_0: 4,
  Q4_1: 5,
  Q5_0: 6,
  Q5_1: 7,
  Q4_K: 8,
  Q5_K: 9,
  Q6_K: 10,
} as const satisfies Partial<Record<TensorType, number>>;

/** Returns the number of a type. @throws UnsupportedModelError for one that the module has no kernel for */
export function kindOf(type: TensorType): number {
  const kind = (kinds as Partial<Record<TensorType, number>>)[type];
  if (kind === undefined) throw new UnsupportedModelError(`weights of types that the module multiplies, got ${type}`);
  return kind;
}

/** Returns whether a kind holds numbers rather than codes. */
export const isFloat = (kind: number): boolean => kind <= kinds.BF16;
