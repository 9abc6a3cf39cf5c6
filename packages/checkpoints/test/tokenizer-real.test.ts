import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { createTokenizer } from '../src/tokenizer/tokenizer.ts';
import { fixtureJson } from '@kv/model-testing/fixture';
import { expectOffsets } from '@kv/model-testing/offsets';
import { excerpt } from '@kv/model-testing/reference';

/** The Rust library's encoding of a text; offsets in pairs of UTF-16 units. */
interface Encoded {
  readonly ids: readonly number[];
  readonly offsets: readonly number[];
}
interface Reference {
  readonly sha256: string;
  readonly texts: readonly (Encoded & { readonly text: string })[];
  readonly excerpts: readonly (Encoded & { readonly file: string; readonly start: number; readonly length: number })[];
}

const file = (name: string): string => fileURLToPath(new URL(`../../../.kv/tokenizers/${name}.json`, import.meta.url));
const all = Object.entries(fixtureJson<Record<string, Reference>>('real-tokenizers.json')),
  here = all.filter(([name]) => existsSync(file(name)));
if (here.length < all.length)
  console.info(
    `${all.length - here.length} of ${all.length} tokenizers of real checkpoints left out: they are not here ('node tools/tokenizers.mjs' fetches them, 37 MB)`,
  );

describe.each(all)('%s', (name, { sha256, texts, excerpts }) => {
  test.skipIf(!existsSync(file(name)))(
    'ids and offsets of hard texts and of prose are those of the Rust library',
    () => {
      const bytes = readFileSync(file(name));
      expect(createHash('sha256').update(bytes).digest('hex')).toBe(sha256);
      const tokenizer = createTokenizer(JSON.parse(bytes.toString()) as object, name);
      const prose = excerpts.map(({ file, start, length, ...encoded }) => ({
        ...encoded,
        text: excerpt(file, start, length),
      }));
      for (const { text, ids, offsets } of [...texts, ...prose]) {
        expect(tokenizer.encode(text).ids, text).toEqual(ids);
        expectOffsets(tokenizer, text, offsets);
      }
    },
  );
});
