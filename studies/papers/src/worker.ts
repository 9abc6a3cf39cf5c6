import { serve } from '@kv/evaluation';
import { openBench } from '../../../apps/cli/src/open-bench.ts';
import { paperJobs } from './work.ts';

serve(openBench, paperJobs);
