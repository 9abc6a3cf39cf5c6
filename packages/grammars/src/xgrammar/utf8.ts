/** Ranges of the byte that may not follow a byte in UTF-8: overlong forms, surrogates, what lies beyond U+10FFFF. */
const never: ReadonlyMap<number, readonly [from: number, to: number]> = new Map([
  [0xe0, [0x80, 0x9f]],
  [0xed, [0xa0, 0xbf]],
  [0xf0, [0x80, 0x8f]],
  [0xf4, [0x90, 0xbf]],
]);
const follows = (before: number, byte: number): boolean => {
  const [from, to] = never.get(before) ?? [256, 0];
  return byte < from || byte > to;
};

/** Whether bytes may be part of a text in UTF-8. */
export const isPart = (bytes: Uint8Array): boolean =>
  bytes.every(
    (byte, i) => byte < 0xf5 && byte !== 0xc0 && byte !== 0xc1 && (i === 0 || follows(bytes[i - 1] as number, byte)),
  );

/** What tokens a token may not be followed by, which xgrammar does not see: it takes any byte of a character's rest. */
export class ByteRules {
  readonly #last: Uint8Array;
  /** The tokens that may not come after each of the bytes above, as bits. */
  readonly #banned = new Map<number, Int32Array>();

  constructor(tokens: readonly Uint8Array[]) {
    this.#last = Uint8Array.from(tokens, (bytes) => bytes.at(-1) ?? 0);
    for (const before of never.keys()) {
      const banned = new Int32Array(Math.ceil(tokens.length / 32));
      for (const [id, bytes] of tokens.entries())
        if (bytes.length > 0 && !follows(before, bytes[0] as number))
          banned[id >> 5] = (banned[id >> 5] as number) | (1 << (id & 31));
      this.#banned.set(before, banned);
    }
  }

  /** Takes out of a mask what may not follow a token. */
  apply(mask: Int32Array, before: number): void {
    const banned = this.#banned.get(this.#last[before] as number);
    if (banned) for (const [i, bits] of banned.entries()) mask[i] = (mask[i] as number) & ~bits;
  }
}
