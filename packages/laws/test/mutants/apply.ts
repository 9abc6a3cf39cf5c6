import { KvError } from '@kv/core';
import { apply } from '@kv/cpu';
import type { DenseArray } from '@kv/core';
import { application } from '../../src/apply.ts';
import type { Apply } from '../../src/apply.ts';
import { field } from './field.ts';
import type { Field } from './field.ts';

/** Ignores values: keys alone decide. */
const valueless: Apply = (piece, { values, ...inputs }) => {
  if (!values) return apply(piece, inputs);
  const { data, shape } = values as DenseArray;
  return apply(piece, { ...inputs, values: { data: new Float32Array(data.length), shape } });
};
/** Keeps what is forced, whatever the budget. */
const generous: Apply = (piece, inputs) => {
  try {
    return apply(piece, inputs);
  } catch (error) {
    if (!(error instanceof KvError && error.message.includes('slots are forced'))) throw error;
    return generous(piece, { ...inputs, budget: (inputs.budget ?? 0) + 1 });
  }
};
const silent: Apply = (piece, inputs) => ({ ...apply(piece, inputs), notes: [] });
/** Uses one array for every signal that is read by its name. */
const shared: Apply = (piece, { attention, ...inputs }) =>
  apply(piece, attention ? { ...inputs, 'attention.last': attention, 'attention.window(w=2)': attention } : inputs);

export const applications: Field = field('application', application, {
  good: apply,
  mutants: { kept: valueless, forced: generous, told: silent, apart: shared },
});
