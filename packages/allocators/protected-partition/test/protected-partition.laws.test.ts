import { test } from 'vitest';
import { compose, mandatory, scorer, values } from '@kv/core';
import { each, transformLaws } from '@kv/laws';
import { protectedPartition } from '../src/index.ts';

const marks = scorer('marks', [values], ({ ops, values: v }) => ops.reduce('sum', v, 'channels'));
each(transformLaws(compose(mandatory({ sinks: 1, recent: 2 }), protectedPartition(marks, { slots: 3 }))), test);
