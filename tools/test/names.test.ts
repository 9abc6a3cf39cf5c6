import { createSourceFile, ScriptTarget } from 'typescript';
import { expect, test } from 'vitest';
import { parsed, undocumented, unknownNames } from '../lib/documented.mjs';
import { census, nameFaults } from '../lib/names.mjs';

/** What names and documents are read from, once for all tests. */
const counted = census(),
  sources = parsed();

test('an exported type has one meaning over all packages and says what it is; comments use the words of the field', () => {
  expect(nameFaults(counted)).toEqual([]);
});

test('the census sees names that are there: it cannot pass over nothing', () => {
  const { exported, several } = counted;
  expect(exported).toBeGreaterThan(2000);
  expect(several).toContain('Fields'); // a type in two adapters' files, exported by neither
});

test('every export of a published package and every field of its options has a docstring, with its default', () => {
  expect(undocumented(sources)).toEqual([]);
});

test('what has no docstring is found: an export of another file, an option, and one without its default', () => {
  const sources = new Map(
    Object.entries({
      'packages/one/src/index.ts': "export type { OneOptions } from './one.ts';\nexport * from './two.ts';",
      'packages/one/src/one.ts':
        '/** Options. */\nexport interface OneOptions {\n  /** Width. */\n  a?: number;\n  b: number;\n  /** Ends it. */\n  signal?: AbortSignal;\n}\n' +
        'export const hidden = 1;',
      'packages/one/src/two.ts': 'export function two(): void {}',
    }).map(([path, text]) => [path, createSourceFile(path, text, ScriptTarget.Latest, true)]),
  );
  const manifest = { name: 'one', exports: { '.': { '@kv/source': './src/index.ts' } } };
  expect(undocumented(sources, [{ folder: 'packages/one', manifest }])).toEqual([
    'packages/one/src/one.ts: OneOptions.a may be left out and has no @defaultValue',
    'packages/one/src/one.ts: OneOptions.b has no docstring',
    'packages/one/src/two.ts: two has no docstring',
  ]);
});

test('every name in backticks in a document is one that a source has', () => {
  expect(unknownNames(sources)).toEqual([]);
});

test('a name that no source has is found, and not one in a block of code, a path or of another library', () => {
  const text = '`topK`, `noSuchPiece(a=1)`, `x/noSuchPath`, `TextStreamer`\n```\n`noSuchCode`\n```\n';
  expect(unknownNames(sources, [{ path: 'docs/a.md', text }])).toEqual([
    'docs/a.md names noSuchPiece, which no source has',
  ]);
});
