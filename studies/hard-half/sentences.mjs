// The sentences that policies of this study see, for scripts that look at them.
import * as core from '@kv/core';
import { catalogue } from '@kv/policies';

/** Creates a piece of the catalogue by name. */
export const piece = (name, options) => core.lookUp(catalogue, name)(options);

/**
 * Steps to append to a scorer: they keep whole sentences, and after an eviction `units` holds the sentences' positions.
 */
export function sentencesSeen() {
  let units = [];
  const look = core.unitTransform('look', { source: '', says: '' }, ({ units: { byPosition }, unitScores }) => {
    units = [];
    byPosition.forEach((u, p) => (units[u] ??= []).push(p));
    return unitScores;
  });
  return {
    pieces: [piece('sentences', { maxSize: 20, top: 0 }), look(), piece('wholeUnits')],
    units: () => units,
  };
}
