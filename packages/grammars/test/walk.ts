import type { Matcher, VocabularyModel } from '../src/index.ts';

/** Numbers in [0, 1) of a seed (mulberry32). */
function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t ^= t + Math.imul(t ^ (t >>> 7), 61 | t);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Returns the ids that a mask allows. */
export function allowedIds(mask: Int32Array): number[] {
  const ids: number[] = [];
  for (const [word, bits] of mask.entries())
    for (let left = bits, bit = 0; left !== 0; left >>>= 1, bit++) if (left & 1) ids.push(32 * word + bit);
  return ids;
}

/** Draws allowed ids until an end token comes: any at first, then what closes brackets and strings. */
export function walk({ tokenizer, config }: VocabularyModel, matcher: Matcher, seed: number): string {
  const draw = random(seed),
    bytes: number[] = [],
    patience = Math.floor(draw() * 30);
  for (let step = 0; step < 3000; step++) {
    const ids = allowedIds(matcher.allowed());
    if (ids.some((id) => config.eosIds.includes(id)) && (step > patience || ids.length === 1 || draw() < 0.2))
      return new TextDecoder().decode(Uint8Array.from(bytes));
    const open = ids.filter((id) => !config.eosIds.includes(id)),
      closing = step > patience ? open.filter((id) => /^["\]},:@.]+$/.test(tokenizer.decode([id]).trim())) : [],
      from = closing.length > 0 && draw() < 0.8 ? closing : open,
      id = from[Math.floor(draw() * from.length)] as number;
    matcher.accept(id);
    bytes.push(...tokenizer.bytesOf(id));
  }
  throw new Error(`no end after 3000 tokens: ${new TextDecoder().decode(Uint8Array.from(bytes.slice(-200)))}`);
}
