/** Seeded random numbers, the same on every machine. */
export interface Random {
  /** Returns a number in [0, 1), with 32 random bits. */
  next(): number;
  /** Returns a whole number from 0 up to, not including, `n`. */
  below(n: number): number;
  /** Returns one of the given values. */
  pick<T>(of: readonly T[]): T;
  /** Returns `count` different elements, in random order. */
  sample<T>(of: readonly T[], count: number): T[];
}

/** Returns sfc32 seeded by FNV-1a hashes of the seed's text. */
export function random(seed: number | string): Random {
  let [a, b, c, d] = [0, 1, 2, 3].map((i) => fnv(`${i}/${seed}`)) as [number, number, number, number];
  const next = (): number => {
    const t = (((a + b) | 0) + d) | 0;
    d = (d + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (((c << 21) | (c >>> 11)) + t) | 0;
    return (t >>> 0) / 2 ** 32;
  };
  for (let i = 0; i < 12; i++) next();
  const below = (n: number): number => Math.floor(next() * n);
  return {
    next,
    below,
    pick: (of) => of[below(of.length)],
    sample(of, count) {
      const rest = [...of];
      return Array.from({ length: Math.min(count, rest.length) }, () => rest.splice(below(rest.length), 1)[0]);
    },
  };
}

function fnv(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return hash >>> 0;
}
