import { KvError } from '@kv/core';

/** The module cannot hold or run a model; another engine may. */
export class UnsupportedModelError extends KvError {
  /** What was expected, and what was found. */
  readonly why: string;

  constructor(why: string) {
    super('wasm', `expected ${why}`);
    this.why = why;
  }
}
