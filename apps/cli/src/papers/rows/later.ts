import type { Arm, Contrast, Metric, Row } from '../types.ts';

const at = (policy: string, budget: Arm['budget']): Arm => ({ policy, budget: budget! });
const against = (task: string, metric: Metric, a: Arm, b: string, threshold: number): Contrast => ({
  task,
  metric,
  a,
  b: at(b, a.budget),
  threshold,
});
const ta = (anchors: string, reach: number, slots: number): string =>
  `taFast(reach=${reach},slots=${slots},anchors=${anchors})`;
const DETECTORS = ['semantic', 'embedding'];

const RECENT = 8,
  CRYSTAL = `crystalcache(recent=${RECENT})`;
const triattention = (task: string, budget: number, lambda: number): Contrast =>
  against(task, 'hit', at(`alphaTriattention(lambda=${lambda})`, budget), 'triattention', 0);

const TASK = 'prose-steps';
const cis = (slots: number): Arm => at(`cpe(budget=${slots},phi=1,psi=1)`, slots);
/**
 * CIS of CPE alone, and HShare sharing a quarter of the heads and of the layers over two tokens: 3/4 3/4 1/2 = .281
 * retrieved.
 */
const sharing = (slots: number): readonly Contrast[] =>
  (
    [
      ['retrievals', 0],
      ['nll', -0.02],
      ['overlap', 0],
      ['hiddenMass', 0],
    ] as const
  ).map(([metric, threshold]) =>
    against(TASK, metric, cis(slots), `hshare(slots=${slots},heads=0.25,layers=0.25)`, threshold),
  );
const KEYS =
  'view(budget=64,of=dots ∘ mandatory(sinks=8,recent=32) ∘ topK ∘ cis(block=8,compare=keys,sinks=8,local=32))';

export const later: readonly Row[] = [
  {
    id: 'ta-detectors',
    paper: 'TA',
    claim: 'TA keeps credentials where attention policies lose them',
    promise: '100 vs 0 %',
    rule: 'all',
    n: { embedded: 150, real: 24 },
    contrasts: DETECTORS.map((anchors) => against('code-agnostic', 'hit', at(ta(anchors, 8, 8), 16), 'tova', 0.5)),
    differs:
      'by communication verbs and by input embeddings at K = 16, on 512 tokens of a novel, asked after the eviction',
  },
  {
    id: 'ta-detectors-room',
    paper: 'TA',
    claim: 'TA keeps credentials where attention policies lose them',
    promise: '100 vs 0 %',
    rule: 'all',
    n: { embedded: 150, real: 24 },
    contrasts: DETECTORS.map((anchors) => against('code-agnostic', 'hit', at(ta(anchors, 8, 64), 96), 'tova', 0.2)),
    differs:
      'the same at K = 96 with 64 protected slots, since both detectors find anchors in a novel: better by more than 20 points',
  },
  {
    id: 'ta-tool-calls-embedding',
    paper: 'TA',
    claim: 'tool calls',
    promise: 'semantic 100, regex 91, TOVA 0',
    rule: 'all',
    n: { embedded: 150, real: 24 },
    contrasts: [
      against('tool-call', 'retained', at(ta('embedding', 16, 16), 32), 'tova', 0.5),
      against('tool-call', 'retained', at(ta('embedding', 16, 64), 96), 'tova', 0.5),
    ],
    differs: 'by input embeddings at K = 32 and 96, by retention',
  },
  {
    id: 'ta-tool-calls-room',
    paper: 'TA',
    claim: 'tool calls',
    promise: 'semantic 100, regex 91, TOVA 0',
    rule: 'all',
    n: { embedded: 150, real: 24 },
    contrasts: ['semantic', 'regex'].map((anchors) =>
      against('tool-call', 'retained', at(ta(anchors, 16, 64), 96), 'tova', 0.5),
    ),
    differs:
      'K = 96 with 64 protected slots, by retention: at 32 the verbs of the novel took the slots (first plan: 29.5 %)',
  },
  {
    id: 'ta-decoys-learnrank',
    paper: 'TA',
    claim: 'decoys',
    promise: 'LearnRank 80, regex 35, TOVA 0',
    excuse:
      'the learned detector is trained on hidden states of SmolLM2; the embedded model has none, and no text named LearnRank when this plan was made',
  },
  {
    id: 'crystal-association-framed',
    paper: 'CrystalCache',
    claim: '... delayed association',
    promise: '.850 / .900 vs .833 / .850',
    rule: 'all',
    n: { embedded: 60, real: 12 },
    contrasts: ['association-high', 'association-low'].flatMap((task) =>
      (['30%', '50%'] as const).flatMap((budget) =>
        ['h2o', 'snapkv(window=16)', 'chunkkv(window=16)'].map((policy) =>
          against(task, 'hit', at(CRYSTAL, budget), policy, 0),
        ),
      ),
    ),
    differs:
      "a framing sentence before the fact, as in appendix B.2, so that the sinks do not hold it; 512 tokens, asked after the eviction, in the model's own form of fact",
  },
  {
    id: 'alpha-triattention',
    paper: 'alpha',
    claim: 'alpha against its base',
    promise: 'Qwen b64 +1.56 (p .20), b128 +4.79 (.0022); Llama +2.23 (.0054), -.22 (.86)',
    rule: 'all',
    n: { embedded: 150, real: 24 },
    contrasts: [
      triattention('number-aware', 256, 0.5),
      triattention('number-aware', 384, 0.5),
      triattention('code-aware', 384, 0.5),
    ],
    differs:
      "a different task: needles in 512 tokens over the paper's own base, TriAttention, at n/2 and 3n/4 (at 64 to 128 every arm stood at 0 in development)",
  },
  {
    id: 'alpha-triattention-shrink',
    paper: 'alpha',
    claim: 'effects shrink from n = 50',
    promise: '+5.6 -> +.2 to .5 points',
    rule: 'shrink',
    n: { embedded: 150, real: 60 },
    contrasts: [0.5, 1, 2].map((lambda) => triattention('number-aware', 256, lambda)),
    differs:
      'over TriAttention, the best of three lambdas on the first 50 prompts: its gain there less its gain on the others',
  },
  {
    id: 'cis-hshare',
    paper: 'PrHS',
    claim: 'CIS against HShare',
    promise: '.1804 (ρ̂ .087) vs .1803 (.281); dense .2297',
    rule: 'all',
    n: { embedded: 12, real: 4 },
    contrasts: [64, 112].flatMap(sharing),
    differs:
      'against HShare itself at n/8 and n/4 of 448 tokens: fewer retrievals, likelihood not more than .02 nats a token below, more overlap with the heaviest slots and less hidden mass; slots are those that a query sees',
  },
  {
    id: 'cis-cosine',
    paper: 'PrHS',
    claim: 'cosine of queries, not keys or states',
    promise: 'key .1547, hidden .1303',
    rule: 'all',
    n: { embedded: 12, real: 4 },
    contrasts: (['overlap', 'hiddenMass', 'nll'] as const).map((metric) => against(TASK, metric, cis(64), KEYS, 0)),
    differs:
      'queries against keys at threshold .8 and blocks of 8, each with the retrievals that it comes to: overlap, hidden mass and likelihood; hidden states cannot be compared here',
  },
];
