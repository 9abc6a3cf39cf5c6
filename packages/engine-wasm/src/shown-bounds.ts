import { runView } from '@kv/core/engine';
import type { LayerContext, ViewHook } from '@kv/core';
import type { HostState, PassOptions } from '@kv/engine';

/** Bounds of what a query at position t sees: positions below `sinks`, those from `lower(t)` on, and its own. */
export interface ShownBounds {
  readonly sinks: number;
  lower(t: number): number;
}

/** Returns what pieces may know of a layer once the next m tokens have joined its text and its cache. */
export function joinedContext(
  { slots, context }: HostState,
  layer: number,
  active: PassOptions['active'],
  m: number,
): LayerContext {
  const before = slots.layerContext(layer, active),
    joined = before.slots + m;
  return {
    ...before,
    length: context.progress.length + m,
    slots: joined,
    budget: active.budget?.slots ?? joined,
  };
}

/**
 * Returns the bounds that a view without signals gives in a layer; undefined if it shows slots in another way.
 *
 * @throws KvError for a view that breaks its promises
 */
export function boundsOf(hook: ViewHook, at: LayerContext, caches: HostState): readonly ShownBounds[] | undefined {
  const place = { at, ops: caches.context.backend.ops, read: caches.reader(at.layer) },
    { mask, state, checks = [], lower, sinks = 0 } = runView(hook, place);
  if (mask || state || checks.length > 0) return undefined;
  return lower ? [{ sinks, lower }] : [];
}
