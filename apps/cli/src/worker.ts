import { serve } from '@kv/evaluation';
import { openBench } from './open-bench.ts';

serve(openBench);
