import { KvError } from '@kv/core';
import { expect, test } from 'vitest';
import { loadModel, type PageLoadOptions } from '../src/load-model.ts';

const refused = (from: unknown, options?: PageLoadOptions): Promise<unknown> =>
  loadModel(from as string, options).then(
    () => 'loaded',
    (error: unknown) => (KvError.is(error) ? error.message : error),
  );

test.each(['SmolLM2-135M-Instruct', 'model.gguf', '', undefined, null, 5, {}, [[1]], 'http://', 'https://a b/'])(
  '%j, which is no address, no files and no name of the hub, is refused in one sentence',
  async (from) => {
    expect(await refused(from)).toMatch(
      /^loadModel: expected an address \(a relative one begins with \.\/\), .* \(org\/name\), got /,
    );
  },
);

test('no files are refused', async () => {
  expect(await refused([])).toBe("loadModel: expected a .gguf file, or a checkpoint's files, got none");
});

test.each([
  ['onProgress', { onProgress: () => {} }],
  ['onPlan', { onPlan: () => {} }],
  ['revision', { revision: 'main' }],
  ['offline', { offline: false }],
  ['attempts', { attempts: 2 }],
] satisfies [string, PageLoadOptions][])(
  'of an address or a file, %s is refused, since the hub alone has it',
  async (name, options) => {
    for (const [from, shown] of [
      [new URL('https://example.org/m/'), 'https://example.org/m/'],
      ['https://example.org/m/', 'https://example.org/m/'],
      [new File([], 'm.gguf'), 'm.gguf'],
    ] as const)
      expect(await refused(from, options)).toBe(
        `${name}: expected a name of the hub, org/name, to use it for, got '${shown}': leave it out`,
      );
  },
);
