import type { Arm, Contrast, Row } from '../types.ts';

const at = (policy: string, budget: number): Arm => ({ policy, budget });
const BASE = 'snapkv(window=16,kernel=5)';
const diverse = (lambda: number): string => `alpha(lambda=${lambda},window=16,kernel=5)`;
const gains = (lambda: number, budget: number): Contrast => ({
  task: 'code-aware',
  metric: 'hit',
  a: at(diverse(lambda), budget),
  b: at(BASE, budget),
  threshold: 0,
});

export const alpha: readonly Row[] = [
  {
    id: 'alpha-base',
    paper: 'alpha',
    claim: 'alpha against its base',
    promise: 'Qwen b64 +1.56 (p .20), b128 +4.79 (.0022); Llama +2.23 (.0054), -.22 (.86)',
    rule: 'all',
    n: { embedded: 150, real: 24 },
    contrasts: [gains(0.5, 128), gains(0.5, 256)],
    differs:
      'a different task: needles in 512 tokens over SnapKV at n/4 and n/2 (TriAttention: piece missing; at 64 both arms stood at 0 in development)',
  },
  {
    id: 'alpha-shrink',
    paper: 'alpha',
    claim: 'effects shrink from n = 50',
    promise: '+5.6 -> +.2 to .5 points',
    rule: 'shrink',
    n: { embedded: 150, real: 60 },
    contrasts: [0.5, 1, 2].map((lambda): Contrast => ({ ...gains(lambda, 256), on: 'embedded' })),
    differs: 'the best of three lambdas on the first 50 prompts: its gain there less its gain on the others',
  },
];
