import { test } from 'vitest';
import { each, scorerLaws } from '@kv/laws';
import { knorm } from '../src/index.ts';

each(scorerLaws(knorm()), test);
