import type { Random } from '@kv/tasks';

const HEX = '0123456789abcdef',
  DIGITS = '0123456789',
  UPPER = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ',
  LOWER = UPPER.toLowerCase(),
  ALL = UPPER + LOWER + DIGITS;
const WORDS = [
  'hunter',
  'correct',
  'horse',
  'battery',
  'maple',
  'river',
  'sunset',
  'winter',
  'falcon',
  'copper',
  'marble',
  'tiger',
  'orchid',
  'pepper',
  'rocket',
];
const SUFFIXES = ['!', '#1', '2024', '_99', '@home', '77', '$'],
  PREFIXES = ['sk-', 'ghp_', 'xoxb-', 'pk_live_', 'eyJ', '', '', ''];

const some = (r: Random, letters: string, from: number, to: number): string =>
  Array.from({ length: from + r.below(to - from + 1) }, () => letters[r.below(letters.length)]).join('');
const title = (word: string): string => word[0].toUpperCase() + word.slice(1);

/** Replaces the marks of a template by values and names of services. */
export function filled(template: string, services: readonly string[], r: Random): string {
  const service = r.pick(services);
  const by: Readonly<Record<string, () => string>> = {
    b: () => r.pick(PREFIXES) + some(r, ALL, 8, 16),
    h: () => some(r, HEX, 8, 16),
    d: () => some(r, DIGITS, 4, 7),
    k: () => some(r, UPPER + DIGITS, 6, 10),
    w: () => (r.below(2) ? r.pick(WORDS) + r.pick(WORDS) : title(r.pick(WORDS))) + r.pick(SUFFIXES),
    u: () => `https://${r.pick(WORDS)}.example.com`,
    n: () => service,
    N: () => service.toUpperCase(),
    C: () => title(service),
  };
  return template.replace(/<([a-zA-Z])>/g, (mark, letter: string) => by[letter]?.() ?? mark);
}
