import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { referenceJson } from '@kv/model-testing/reference';
import { expect, test } from 'vitest';
import { createTokenizer } from '../src/tokenizer/tokenizer.ts';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;
/** Bytes of the heap once what can be freed is freed. */
const heapBytes = (): number => {
  collect();
  return process.memoryUsage().heapUsed;
};

test('words that a tokenizer remembers do not keep the documents that they came in', () => {
  const path = 'data/models/retriever-1.3m/tokenizer.json',
    tokenizer = createTokenizer(referenceJson(path), path);
  const encode = (i: number): void => {
    const word = `incomprehensible${String.fromCharCode(97 + (i % 26), 97 + Math.floor(i / 26))}`;
    tokenizer.encode(`${'a — '.repeat(20_000)}${word} ${'c d '.repeat(10)}`);
  };
  encode(0);
  const before = heapBytes();
  for (let i = 1; i <= 20; i++) encode(i);
  expect(heapBytes() - before).toBeLessThan(1e6); // the documents have 3 MB
});
