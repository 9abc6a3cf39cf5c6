import { describe, test } from 'vitest';
import { compose, mandatory, values, scorer } from '@kv/core';
import { each, scoreAllocatorLaws, transformLaws } from '@kv/laws';
import { protectedPartition } from '../src/index.ts';

const marks = scorer('marks', { needs: [values] }, ({ ops, values: v }) => ops.reduce('sum', v, 'channels'))();
describe('as an allocator', () => {
  each(scoreAllocatorLaws(protectedPartition(marks, { slots: 3 })), test);
});
// it leaves scores as they are and forces, as a transform may
describe('as a transform', () => {
  each(transformLaws(compose(mandatory({ sinks: 1, recent: 2 }), protectedPartition(marks, { slots: 3 }))), test);
});
