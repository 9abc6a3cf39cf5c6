import type { Arm, Contrast, Row } from '../types.ts';

/** 128 of 4,096 to 32,768 tokens in the paper, so 8 of 512. */
const RECENT = 8;
const at = (policy: string, budget: `${number}%`): Arm => ({ policy, budget });
const CRYSTAL = `crystalcache(recent=${RECENT})`;
const BASELINES = ['h2o', 'snapkv(window=16)', 'chunkkv(window=16)'];
const beats = (task: string): readonly Contrast[] =>
  (['30%', '50%'] as const).flatMap((budget) =>
    BASELINES.map(
      (policy): Contrast => ({ task, metric: 'hit', a: at(CRYSTAL, budget), b: at(policy, budget), threshold: 0 }),
    ),
  );
const NEEDLES = [...beats('needle-prose'), ...beats('needle-filler')],
  ASSOCIATIONS = [...beats('association-high'), ...beats('association-low')];

/** The default's pieces, one of them replaced. */
const impact = (scores: string): string => `${scores} ∘ clip(low=0.1,high=20) ∘ mandatory(sinks=4,recent=${RECENT})`;
const BOTH = impact('weighted(10*saliency,10*rarity)');
const ABLATIONS = [
  `${impact('weighted(20*saliency)')} ∘ trunks ∘ crystallization ∘ branchDissolution`,
  `${BOTH} ∘ trunks(maxSize=1) ∘ crystallization ∘ branchDissolution`,
  `${BOTH} ∘ trunks ∘ centrality ∘ branchDissolution`,
  `${BOTH} ∘ trunks ∘ standout ∘ branchDissolution`,
];

export const crystalcache: readonly Row[] = [
  {
    id: 'crystal-needle',
    paper: 'CrystalCache',
    claim: 'CrystalCache beats the best baseline',
    promise: '.767 / .767 vs .683 / .583',
    rule: 'all',
    n: { embedded: 60, real: 12 },
    contrasts: NEEDLES,
    differs: `512 tokens of a novel and of repeated filler, the question in the prompt, recent window ${RECENT}; beats each baseline`,
  },
  {
    id: 'crystal-association',
    paper: 'CrystalCache',
    claim: '... delayed association',
    promise: '.850 / .900 vs .833 / .850',
    rule: 'all',
    n: { embedded: 60, real: 12 },
    contrasts: ASSOCIATIONS,
    differs: '512 tokens, asked after the eviction; the embedded model is asked for its own form of fact',
  },
  {
    id: 'crystal-cells',
    paper: 'CrystalCache',
    claim: '... in all cells',
    promise: 'mean +.099, least +.016',
    rule: 'signs',
    n: { embedded: 60, real: 12 },
    contrasts: [...NEEDLES, ...ASSOCIATIONS],
    differs: 'signs of the differences of the two rows above',
  },
  {
    id: 'crystal-ablation',
    paper: 'CrystalCache',
    claim: 'ablation',
    promise: 'no rarity .367; tokens .433; D only .417; M only .617',
    rule: 'all',
    n: { embedded: 60, real: 12 },
    contrasts: ABLATIONS.map(
      (policy): Contrast => ({
        task: 'needle-prose',
        metric: 'hit',
        a: at(CRYSTAL, '50%'),
        b: at(policy, '50%'),
        threshold: 0,
      }),
    ),
    differs: 'on the novel, at half of the cache: the default (default .750) beats each',
  },
  {
    id: 'crystal-longbench',
    paper: 'CrystalCache',
    claim: 'it costs on LongBench',
    promise: '.117 vs .139',
    rule: 'all',
    n: { embedded: 30, real: 12 },
    contrasts: [
      {
        task: 'prose',
        metric: 'nll',
        a: at(CRYSTAL, '50%'),
        b: at('snapkv(window=16)', '50%'),
        threshold: 0,
        direction: 'worse',
      },
    ],
    differs: 'a proxy: likelihood of the next 128 tokens of a novel against SnapKV',
  },
  {
    id: 'crystal-overhead',
    paper: 'CrystalCache',
    claim: 'overhead',
    promise: '29.8 / 63.7 % of prefill',
    rule: 'all',
    n: { embedded: 12, real: 6 },
    contrasts: [{ task: 'costs', metric: 'eventShare', a: { policy: CRYSTAL, budget: 512 }, threshold: 0.298 }],
    differs: '1,024 tokens, at most 29.8 % of the rest of prefill; ours streams the first layer',
  },
];
