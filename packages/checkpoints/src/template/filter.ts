import type { Arguments } from './arguments.ts';
import type { TemplateValue } from './values.ts';
import type { RenderWork } from './render-limit.ts';

/** Computes a filter of a value with its arguments. */
export type Filter = (value: TemplateValue, given: Arguments, work: RenderWork) => TemplateValue;

/** A filter and the names of its parameters. */
export type FilterEntry = readonly [names: readonly string[], filter: Filter];
