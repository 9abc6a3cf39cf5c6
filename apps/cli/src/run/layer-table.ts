import type { RecordedEvent } from '@kv/engine';
import type { Report } from '@kv/models';
import { colors as pc } from '../colors.ts';
import { levelsOverHeads } from './levels-text.ts';
import { fitColumns } from '../columns.ts';

const THIRDS = ['first', 'second', 'last'] as const;

/**
 * Formats what the last event of every layer kept, a row each: how many slots, of which part of the text, and at which
 * levels, the least and the most of its heads.
 */
export function layerTable(events: readonly RecordedEvent[], width: number, levels?: Report['levels']): string {
  const layers = [...new Set(events.map(({ layer }) => layer))].sort((a, b) => a - b),
    rows = layers.flatMap((layer) => {
      const own = events.filter((event) => event.layer === layer),
        last = own[own.length - 1],
        kept = keptPositions(last);
      if (kept.length === 0) return [];
      const sizes = kept.map((row) => row.length),
        [least, most] = [Math.min(...sizes), Math.max(...sizes)];
      return [
        [
          String(layer),
          String(own.length),
          String(Math.max(...last.positions.map((row) => row.length))),
          least === most ? String(most) : `${least} to ${most}`,
          ...THIRDS.map((_, third) => shareOf(last, kept, third)),
          ...(levels ? [levelsOverHeads(levels[layer])] : []),
        ],
      ];
    });
  const head = ['layer', 'events', 'slots', 'kept', ...THIRDS.map((third) => `of ${third} third`)];
  return fitColumns([[...head, ...(levels ? ['levels'] : [])].map(pc.dim), ...rows], new Set(head.keys()), width);
}

/** Returns the positions that every KV head kept. */
const keptPositions = ({ positions, steps }: RecordedEvent): readonly (readonly number[])[] => {
  const kept = steps.at(-1)?.kept;
  return kept === undefined
    ? []
    : positions.map((row, head) => Array.from(kept[Math.min(head, kept.length - 1)], (slot) => row[slot]));
};

/** Formats the share kept of the slots with positions in one third of the text. */
function shareOf({ positions, length }: RecordedEvent, kept: readonly (readonly number[])[], third: number): string {
  const inside = (position: number): boolean => Math.floor((3 * position) / length) === third,
    all = positions.reduce((sum, row) => sum + row.filter(inside).length, 0),
    stayed = kept.reduce((sum, row) => sum + row.filter(inside).length, 0);
  return all === 0 ? '' : `${Math.round((100 * stayed) / all)} %`;
}
