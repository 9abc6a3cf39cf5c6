import { describe, test } from 'vitest';
import { allocatorLaws, each } from '@kv/laws';
import { pyramidal, pyramidkv } from '../src/index.ts';

describe('pyramidal()', () => {
  each(allocatorLaws(pyramidal()), test);
});
describe('pyramidal(beta=2)', () => {
  each(allocatorLaws(pyramidal({ beta: 2 })), test);
});
// every layer is rounded by itself
describe('pyramidkv(window=2)', () => {
  each(allocatorLaws(pyramidkv({ window: 2 }), { slack: (layers, heads) => (layers * heads) / 2 }), test);
});
