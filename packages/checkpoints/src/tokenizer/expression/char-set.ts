/** Code points in a page, which is filled on first access. */
const PAGE = 256;

/** A set of characters. */
export interface CharSet {
  has(codePoint: number): boolean;
}

/** Returns the set of a single-character element: a class, an escape, a character. */
export function charSet(raw: string): CharSet {
  const test = new RegExp(`^(?:${raw})$`, 'u');
  return paged((codePoint) => test.test(String.fromCodePoint(codePoint)));
}

/** Returns the union of sets. */
export function union(sets: readonly CharSet[]): CharSet {
  return paged((codePoint) => sets.some((set) => set.has(codePoint)));
}

function paged(contains: (codePoint: number) => boolean): CharSet {
  const pages: (Uint8Array | undefined)[] = new Array<undefined>(0x110000 / PAGE).fill(undefined);
  const fill = (page: number): Uint8Array =>
    (pages[page] = Uint8Array.from({ length: PAGE }, (_, i) => (contains(page * PAGE + i) ? 1 : 0)));
  return { has: (codePoint) => (pages[codePoint >> 8] ?? fill(codePoint >> 8))[codePoint & 255] === 1 };
}
