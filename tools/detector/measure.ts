import { wilson } from '@kv/tasks';
import { tokensOf } from './states.ts';
import type { Seen } from './states.ts';

/** Finds the tokens of a document that are anchors. */
export type Finds = (seen: Seen) => ReadonlySet<number>;
/** A proportion, with Wilson's 95 % interval. */
export interface Share {
  readonly hits: number;
  readonly of: number;
  readonly share: number;
  readonly low: number;
  readonly high: number;
}
export interface Measured {
  /** Anchors with a token found between their sign and their value. */
  readonly recall: Share;
  /** Precision: found anchors among all spans where something was found. */
  readonly precision: Share;
  /** Lines without an anchor, and stretches of prose, where a token was found. */
  readonly beside: Share;
  readonly prose: Share;
  /** Found tokens that are between the sign of an anchor and its value. */
  readonly tokens: Share;
  readonly byForm: Readonly<Record<string, Share>>;
  /** Patterns of which less than half were found. */
  readonly missed: readonly string[];
  /** Patterns without an anchor of which more than a fifth were mistaken for one. */
  readonly mistaken: readonly string[];
}

/** Tokens of a stretch of prose. */
const STRETCH = 8;

export function shareOf(hits: number, of: number): Share {
  const { low, high } = wilson(hits, of),
    round = (x: number): number => Math.round(x * 1000) / 1000;
  return { hits, of, share: round(of === 0 ? 0 : hits / of), low: round(low), high: round(high) };
}

/**
 * Measures a detector on documents with lines and on prose, with at most `spans` lines without an anchor and the same
 * number of stretches.
 */
export function measure(documents: readonly Seen[], prose: readonly Seen[], spans: number, finds: Finds): Measured {
  const anchors: { readonly form: string; readonly pattern: string; readonly hit: boolean }[] = [],
    beside: { readonly pattern: string; readonly hit: boolean }[] = [];
  let found = 0,
    right = 0;
  for (const seen of documents) {
    const flagged = finds(seen),
      good = new Set<number>();
    for (const line of seen.lines) {
      const { all, sign, until } = tokensOf(seen, line),
        own = all.filter((i) => i >= sign && i <= until);
      if (line.kind === 'anchor') {
        for (const i of own) good.add(i);
        anchors.push({ ...line, hit: own.some((i) => flagged.has(i)) });
      } else if (beside.length < spans) beside.push({ ...line, hit: all.some((i) => flagged.has(i)) });
    }
    found += flagged.size;
    right += [...flagged].filter((i) => good.has(i)).length;
  }
  const stretches = prose
    .flatMap((seen) => {
      const flagged = finds(seen);
      return Array.from({ length: Math.floor(seen.ids.length / STRETCH) }, (_, s) =>
        Array.from({ length: STRETCH }, (_t, k) => s * STRETCH + k).some((i) => flagged.has(i)),
      );
    })
    .slice(0, spans);
  const hits = (of: readonly { readonly hit: boolean }[]): number => of.filter(({ hit }) => hit).length,
    wrong = hits(beside) + stretches.filter(Boolean).length,
    all = hits(anchors);
  const patterns = <T extends { readonly pattern: string; readonly hit: boolean }>(
    of: readonly T[],
    like: (share: number) => boolean,
  ): string[] =>
    [...new Set(of.map(({ pattern }) => pattern))].filter((p) => {
      const same = of.filter(({ pattern }) => pattern === p);
      return like(hits(same) / same.length);
    });
  return {
    recall: shareOf(all, anchors.length),
    precision: shareOf(all, all + wrong),
    beside: shareOf(hits(beside), beside.length),
    prose: shareOf(stretches.filter(Boolean).length, stretches.length),
    tokens: shareOf(right, found),
    byForm: Object.fromEntries(
      [...new Set(anchors.map(({ form }) => form))].map((form) => {
        const of = anchors.filter((a) => a.form === form);
        return [form, shareOf(hits(of), of.length)];
      }),
    ),
    missed: patterns(anchors, (share) => share < 0.5),
    mistaken: patterns(beside, (share) => share > 0.2),
  };
}
