import type { Random } from '@kv/tasks';
import { tokensOf } from './states.ts';
import type { Seen } from './states.ts';
import type { Examples } from './mlp.ts';

/**
 * The share of tokens outside anchors that is learned from: all signs and names, a part of values, of lines without an
 * anchor and of prose.
 */
const SHARE = { value: 0.5, beside: 0.8, other: 0.5 };

/** Selects the hidden states to learn from; tokens between a sign and its value have neither label. */
export function collector(width: number, random: Random): { add(seen: Seen): void; take(): Examples } {
  const rows: Float32Array[] = [],
    labels: number[] = [];
  return {
    add(seen) {
      const chance = new Float32Array(seen.ids.length).fill(SHARE.other),
        anchors = new Set<number>();
      for (const line of seen.lines) {
        const { all, sign, until } = tokensOf(seen, line);
        for (const i of all)
          chance[i] =
            line.kind === 'beside'
              ? i === sign
                ? 1
                : SHARE.beside
              : i < sign
                ? 1
                : i === sign
                  ? 1
                  : i <= until
                    ? 0
                    : SHARE.value;
        if (line.kind === 'anchor') anchors.add(sign);
      }
      for (const [i, share] of chance.entries())
        if (random.next() < share) {
          rows.push(seen.states.slice(i * width, (i + 1) * width));
          labels.push(anchors.has(i) ? 1 : 0);
        }
    },
    take() {
      const out = new Float32Array(rows.length * width);
      rows.forEach((row, i) => out.set(row, i * width));
      return { width, rows: out, labels: Uint8Array.from(labels) };
    },
  };
}
