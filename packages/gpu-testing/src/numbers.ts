/** Returns a generator of seeded numbers in [0, 1): mulberry32. */
export function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b_79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Returns `count` f32 numbers of the kind that the operation should be tested on. */
export function numbers(seed: number, count: number, kind: 'any' | 'weights' | 'ties' = 'any'): Float32Array {
  const next = random(seed);
  return Float32Array.from({ length: count }, () => {
    if (kind === 'weights') return -Math.log(1 - next()) / Math.max(1, count);
    if (kind === 'ties') return Math.floor(next() * 5) * (next() < 0.5 ? 1 : -1); // including -0
    return (next() * 2 - 1) * 4 ** Math.floor(next() * 3);
  });
}
