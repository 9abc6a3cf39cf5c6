import type { Arm, Contrast, Metric, Planned, Row } from '../types.ts';

/** The value's eight tokens, and protected slots for one value. */
const TA = 'taFast(reach=8,slots=8)';
const at = (policy: string, budget: number): Arm => ({ policy, budget });
const against = (
  task: string,
  metric: Metric,
  a: Arm,
  others: readonly string[],
  threshold: number,
  on?: Contrast['on'],
): readonly Contrast[] =>
  others.map((policy) => ({ task, metric, a, b: at(policy, a.budget as number), threshold, ...(on && { on }) }));
/** By retention on the embedded model, by answers on a checkpoint. */
const both = (task: string, a: Arm, others: readonly string[], threshold: number): readonly Contrast[] => [
  ...against(task, 'retained', a, others, threshold, 'embedded'),
  ...against(task, 'hit', a, others, threshold, 'real'),
];
const CALL = 'reach=16,slots=16',
  THREE = at('taFast(reach=20,slots=60)', 96);

/** The order of the policies by perplexity. */
export const perplexity = (n: Planned['n']): Planned => ({
  id: 'ta-perplexity',
  paper: 'TA',
  claim: 'perplexity at K = 16',
  promise: 'TA 30.4, TOVA 31.2, H2O 45.3, StreamingLLM 52.1',
  rule: 'all',
  n,
  contrasts: [
    ['taFast', 'tova'],
    ['tova', 'h2o'],
    ['h2o', 'streaming'],
  ].flatMap(([a, b]) => against('prose-at-16', 'nll', at(a, 16), [b], 0)),
  differs: 'the order of neighbours on a novel: 256 tokens, then 64 with an event every 4',
});

export const ta: readonly Row[] = [
  {
    id: 'ta-credentials',
    paper: 'TA',
    claim: 'TA keeps credentials where attention policies lose them',
    promise: '100 vs 0 %',
    rule: 'all',
    n: { embedded: 200, real: 24 },
    contrasts: [
      ...['code-agnostic', 'code-aware'].flatMap((task) =>
        against(task, 'hit', at(TA, 16), ['tova', 'h2o', 'snapkv(window=8)', 'streaming'], 0.5),
      ),
      ...against(
        'code-agnostic',
        'hit',
        at('taFast(reach=8,slots=16)', 64),
        ['tova', 'h2o', 'snapkv(window=16)', 'streaming'],
        0.5,
      ),
    ],
    differs:
      'TA-Fast with L = 8 on 512 tokens of a novel, K = 16 with the question before and after the eviction, K = 64 after it',
  },
  {
    id: 'ta-tokenizer',
    paper: 'TA',
    claim: "TA's limit is the tokenizer",
    promise: '5 -> 100 %',
    rule: 'all',
    n: { embedded: 200, real: 24 },
    contrasts: against('code-agnostic', 'hit', at(TA, 16), ['taFast(reach=6,slots=8)'], 0.5),
    differs: 'L = 8 against 6 at K = 16 on codes of eight tokens, not K = 24 against 16',
  },
  {
    id: 'ta-tool-calls',
    paper: 'TA',
    claim: 'tool calls',
    promise: 'semantic 100, regex 91, TOVA 0',
    rule: 'all',
    n: { embedded: 200, real: 24 },
    contrasts: [
      ...both('tool-call', at(`taFast(${CALL})`, 32), ['tova'], 0.5),
      ...both('tool-call', at(`taFast(${CALL},anchors=semantic)`, 32), ['tova'], 0.5),
    ],
    differs: 'a credential of 12 characters in a call, 512 tokens; the embedded model by retention',
  },
  {
    id: 'ta-decoys',
    paper: 'TA',
    claim: 'decoys',
    promise: 'LearnRank 80, regex 35, TOVA 0',
    rule: 'all',
    n: { embedded: 200, real: 24 },
    contrasts: against('decoys', 'hit', at('taFast(reach=8,slots=48)', 64), ['tova'], 0.2),
    differs:
      'regex against TOVA at K = 64 with protected slots for all six values (LearnRank: no trained ranker, piece missing)',
  },
  {
    id: 'ta-multi-slot',
    paper: 'TA',
    claim: 'multi-slot',
    promise: 'TA 90, TOVA 65, H2O 0',
    rule: 'all',
    n: { embedded: 100, real: 24 },
    contrasts: [...both('three-credentials', THREE, ['tova'], 0), ...both('three-credentials', THREE, ['h2o'], 0.5)],
    differs: 'an API key, an endpoint and a token at K = 96; the embedded model by retention of all three',
  },
  perplexity({ embedded: 40, real: 12 }),
  {
    id: 'ta-latency',
    paper: 'TA',
    claim: 'latency, memory',
    promise: '.361 / .358 s; 2.7 / 5.8 GB',
    rule: 'all',
    n: { embedded: 12, real: 6 },
    contrasts: [
      { task: 'costs', metric: 'eventShare', a: at('taFast', 64), threshold: 0.01 },
      ...against('costs', 'peakBytes', at('taFast', 64), ['fullTa'], 0),
    ],
    differs:
      "ratios: TA-Fast's event against the rest of prefill (at most 1 %), and peak bytes of cache and all that is remembered below Full-TA's, which is without n x n weights here",
  },
];
