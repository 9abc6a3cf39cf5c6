import type { Arm, Contrast, Row } from '../types.ts';

/** CIS of CPE alone: sinks 8, local window 32, the rest of 64 retrieved. */
const CIS: Arm = { policy: 'cpe(budget=64,phi=1,psi=1)', budget: 64 };
const TASK = 'prose-steps';

export const prhs: readonly Row[] = [
  {
    id: 'cis-hshare',
    paper: 'PrHS',
    claim: 'CIS against HShare',
    promise: '.1804 (ρ̂ .087) vs .1803 (.281); dense .2297',
    rule: 'all',
    n: { embedded: 16, real: 8 },
    contrasts: [
      { task: TASK, metric: 'retrievals', a: CIS, threshold: 0.281 },
      { task: TASK, metric: 'nll', a: CIS, b: { policy: 'full' }, threshold: -0.05 },
    ],
    differs:
      "HShare: piece missing, so CIS' retrieval ratio against HShare's printed one, and its likelihood at most .05 nats a token below the full cache's; 64 of 448 slots, blocks of 8",
  },
  {
    id: 'cis-cosine',
    paper: 'PrHS',
    claim: 'cosine of queries, not keys or states',
    promise: 'key .1547, hidden .1303',
    excuse: 'piece missing: CIS compares queries, and neither keys nor hidden states can be chosen',
  },
  {
    id: 'cpe-longbench',
    paper: 'PrHS',
    claim: 'CIS, CPE on LongBench',
    promise: 'dense 32.90, CIS 32.40, CPE 32.11, HShare 31.97',
    excuse: "LongBench's data is not part of this repository, and its tasks are beyond 135M parameters",
  },
  {
    id: 'psaw-etf',
    paper: 'PrHS',
    claim: 'PSAW; ETF alone',
    promise: '6.12; 6.16',
    rule: 'all',
    n: { embedded: 40, real: 8 },
    contrasts: [
      {
        task: 'prose-prefill',
        metric: 'nll',
        a: { policy: 'psaw(phi=0.5)' },
        b: { policy: 'etf(psi=0.5,gamma=1.5)' },
        threshold: 0,
      },
    ] satisfies readonly Contrast[],
    differs: 'PSAW below ETF, on 512 tokens of a novel while they are prefilled',
  },
  {
    id: 'prhs-throughput',
    paper: 'PrHS',
    claim: 'operator; throughput',
    promise: '9.9x; 2.82x',
    rule: 'all',
    n: { embedded: 16, real: 8 },
    contrasts: [{ task: TASK, metric: 'keyBytes', a: CIS, threshold: 1 / 2.82 }],
    differs:
      'counted, as no GPU is there to time: keys and values read a token, at most 1 / 2.82 of the full cache, at 64 of 448 slots',
  },
];
