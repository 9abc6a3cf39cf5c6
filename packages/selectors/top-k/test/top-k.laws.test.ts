import { test } from 'vitest';
import { each, selectorLaws } from '@kv/laws';
import { topK } from '../src/index.ts';

each(selectorLaws(topK(), { nested: true }), test);
