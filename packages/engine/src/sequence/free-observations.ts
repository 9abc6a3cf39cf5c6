import { onlyEventsRead } from './policy-schedule.ts';
import type { Sequence } from './sequence.ts';

/** Frees what only events read, and stops recording it. Call it when no more evictions will follow. */
export function freeObservations({ memory, active, observer }: Sequence): void {
  memory.expectUsable();
  if (onlyEventsRead(active.policy, observer !== undefined)) memory.caches.stopObserving();
}
