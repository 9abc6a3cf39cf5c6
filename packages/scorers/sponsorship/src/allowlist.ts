import { count, maybe, value } from '@kv/core';
import { compilePattern, detector, expression, anchorsOf } from './detector.ts';
import type { MatchFinder } from './detector.ts';
import { explicitKeys } from './regex.ts';

const isFinder = (x: unknown): x is MatchFinder => typeof x === 'function';
const isPlace = (x: unknown): x is (position: number) => boolean => typeof x === 'function';

/**
 * Detector of anchors that are also on an allowlist: others sponsor nothing, so injected anchors take no slot.
 *
 * @remarks Transactional Attention, section 5.3, for pattern and place; the limit for each text is ours.
 */
export const allowed = detector(
  'allowed',
  {
    source: 'Basu 2026, arXiv:2604.11288, section 5.3',
    says: 'Anchors that are allowed by text and place, up to a number of each.',
    options: {
      find: value('a finder such as explicitKeys', 'What finds anchors; else explicit keys.', isFinder),
      pattern: maybe(expression('password', 'Which anchors may sponsor, by their text; else all.')),
      place: value(
        'a function of a position',
        'Which anchors may sponsor, by the token in which they end: a system prompt, say, and not what a tool sent.',
        isPlace,
      ),
      most: maybe(
        count(
          1,
          'anchors',
          'Most anchors of one text, the first ones; letters and digits count, case does not. Else no limit.',
        ),
      ),
    },
  },
  ({ find = explicitKeys, pattern, place, most = Infinity }) => {
    const given = pattern === undefined ? undefined : compilePattern(pattern);
    const may = given && new RegExp(given.source, given.flags.replace(/[gy]/g, ''));
    return (tokens) => {
      const seen = new Map<string, number>();
      return anchorsOf(
        find(tokens).filter(({ text, position }) => {
          if ((may && !may.test(text)) || (place && !place(position))) return false;
          const key = text.toLowerCase().replace(/[^\p{L}\p{N}]/gu, '');
          const times = (seen.get(key) ?? 0) + 1;
          seen.set(key, times);
          return times <= most;
        }),
        tokens,
      );
    };
  },
);
