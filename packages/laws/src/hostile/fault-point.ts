import type { Policy } from '@kv/core';
import type { FaultContext, FaultyValue } from './faulty-values.ts';

/** Returns the correct value, or a fault instead. */
export type FaultSupplier = (good: unknown, where: FaultContext) => never;
/** When a piece runs, and what a failure leaves of the sequence. */
export type FailurePoint =
  /** Before anything runs: the sequence is unchanged. */
  | 'policy'
  /** In an event, before anything is compacted: the sequence is unchanged. */
  | 'event'
  /** The same, in an engine that has providers. */
  | 'provider'
  /** The same, in an engine that compacts. */
  | 'compact'
  /** After a token: the sequence becomes unusable. */
  | 'step'
  /** While a token or a prompt is processed: the sequence becomes unusable. */
  | 'decode'
  | 'prefill';
/** A point where a piece gives something to an engine. */
export interface FaultPoint {
  readonly name: string;
  readonly when: FailurePoint;
  readonly takes: 'tensor' | 'anything';
  /** The tensor may have any number of columns. @defaultValue false */
  readonly wide?: boolean;
  /** Faulty numbers for it. @defaultValue none */
  readonly numbers?: readonly FaultyValue[];
  /** Faults that are harmless here, by name, and why. */
  readonly harmless?: Readonly<Record<string, string>>;
  policy(supply: FaultSupplier): Policy;
}
