import { KvError } from '@kv/core';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseJson } from '../src/read/json.ts';
import { bytesSource, readJson } from '../src/read/source.ts';

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const parse = (text: string, depth?: number): unknown => parseJson(bytes(text), 'f', depth);

/** Returns the nesting depth of a value. */
function levels(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  return 1 + Math.max(0, ...Object.values(value).map(levels));
}

describe('parseJson', () => {
  test('gives what JSON.parse gives, to the depth and not deeper', () => {
    fc.assert(
      fc.property(
        fc.jsonValue({ maxDepth: 6 }),
        fc.nat(6),
        fc.constantFrom(undefined, 1, '\t\r\n '),
        (value, depth, space) => {
          const text = JSON.stringify(value, null, space);
          if (levels(value) > depth)
            expect(() => parse(text, depth)).toThrow(`expected at most ${depth} levels of lists and objects, got more`);
          else expect(parse(text, depth)).toEqual(JSON.parse(text));
        },
      ),
    );
  });

  test('refuses exactly the texts that JSON.parse refuses, and names that come twice in one object', () => {
    const pieces = fc.array(
      fc.constantFrom(
        '{',
        '}',
        '[',
        ']',
        ':',
        ',',
        '"a"',
        '"\\u0061"',
        '"\\',
        '"',
        'a',
        '1',
        ' ',
        'null',
        '"b\\""',
        '\\',
      ),
      { maxLength: 12 },
    );
    fc.assert(
      fc.property(pieces, (list) => {
        const text = list.join('');
        let want: unknown;
        try {
          want = JSON.parse(text);
        } catch {
          expect(() => parse(text)).toThrow(KvError);
          return;
        }
        try {
          expect(parse(text)).toEqual(want);
        } catch (error) {
          // A name that occurs only once in the text cannot be repeated in an object.
          if (!KvError.is(error) || !error.message.includes('twice')) throw error;
          expect(text.match(/"a"|"\\u0061"|"b\\""/g)!.length).toBeGreaterThan(1);
        }
      }),
      { numRuns: 3000 },
    );
  });

  test.each<[string, string]>([
    ['a name twice', '{"a": 1, "b": {"a": 1}, "a": 2}'],
    ['a name twice, once in escapes', '{"a": 1, "\\u0061": 2}'],
    ['__proto__ twice', '{"__proto__": 1, "__proto__": 2}'],
    ['no end', '{"a": '],
    ['a million levels', '['.repeat(1e6)],
  ])('refuses %s', (_, text) => {
    expect(() => parse(text)).toThrowErrorMatchingSnapshot();
  });

  test.each([
    ['hello', 'an invalid text, at "h"'],
    ['{"a": 1 "b"}', 'an invalid text, at character 9'],
    ['{\n"a": 1 "b"}\n', 'an invalid text, at character 8 of line 2'],
    ['{"a": \u001b}', 'an invalid text, at " "'],
    ['{} x', 'an invalid text, at character 4'],
    ['', 'text that ends too early'],
  ])('says what %j is in a sentence', (text, got) => {
    expect(() => parse(text)).toThrow(`f: expected JSON, got ${got}`);
  });

  test('the same name in several objects, and as a value, is right', () => {
    const text = '{"a": "a", "b": [{"a": "a"}, {"a": ["a", "a"]}], "c": {"a": {"a": "a"}}}';
    expect(parse(text)).toEqual(JSON.parse(text));
    expect(Object.getPrototypeOf(parse('{"__proto__": {"x": 1}}'))).toBe(Object.prototype);
  });

  test('refuses bytes that are no UTF-8', () => {
    expect(() => parseJson(Uint8Array.of(34, 255, 34), 'f')).toThrowErrorMatchingInlineSnapshot(
      `[KvError: f: expected JSON in UTF-8, got "\\"�\\""]`,
    );
  });
});

test('readJson refuses a file too long before it reads it', async () => {
  await expect(
    readJson({ ...bytesSource(bytes('{}'), 'f'), size: 2 ** 40 }),
  ).rejects.toThrowErrorMatchingInlineSnapshot(
    `[KvError: f: expected JSON of at most 134217728 bytes, got 1099511627776]`,
  );
});
