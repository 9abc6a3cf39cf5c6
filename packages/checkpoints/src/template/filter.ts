import type { Arguments } from './arguments.ts';
import type { Value } from './values.ts';
import type { RenderWork } from './work.ts';

export type Filter = (value: Value, given: Arguments, work: RenderWork) => Value;

/** A filter and the names of what it takes. */
export type Named = readonly [names: readonly string[], filter: Filter];
