/**
 * When to use each method, what to take instead, and when. What is measured is what docs/evidence.md and the studies
 * show; the rest says what the method's idea suits. A test holds that every method is here, and every name is one.
 */
export interface Use {
  /** When to use it, as a sentence. */
  readonly when: string;
  /** Names of others, and when those are better. */
  readonly instead: Readonly<Record<string, string>>;
  /** What was measured here, as sentences. */
  readonly measured?: string;
  /** Its text with options that suit the embedded model. The default: a window of 16, and wide maxima where it pools. */
  readonly policy?: string;
}

const QUESTION_LATER = 'the question comes after the eviction, as in a chat',
  PROSE = 'prose is asked about and whole sentences should stay',
  CODES = 'codes and credentials must survive, whatever is asked later',
  CHEAPEST = 'only the recent text matters, or an event must cost next to nothing',
  SIMPLER = 'the plain method is enough: try it first';

export const uses: Readonly<Record<string, Use>> = {
  // by the attention of the last queries
  snapkv: {
    when: 'The prompt ends in its question, so that the last queries show what the answer needs.',
    instead: { outstandingSentences: QUESTION_LATER, attendedSentences: PROSE, taFast: CODES },
    measured:
      'The embedded model finds a code in 512 tokens in 100 % of prompts with an eighth of them kept, if the question is in the prompt, and in 4 % if it comes later. Options must suit the model: with the default ones SmolLM2-135M finds a number in 1,024 tokens of a novel in 2 % of 50 prompts.',
  },
  snapkvCaote: {
    when: 'As SnapKV, at small budgets: among tokens that are attended alike it keeps those whose values change the output most.',
    instead: { snapkv: SIMPLER, snapkvFastCaote: 'the event must cost less', attendedSentences: PROSE },
    measured:
      'On needles it answers as SnapKV does: 100 % with an eighth kept, and 4 % where the question comes later.',
  },
  snapkvFastCaote: {
    when: 'As SnapKV with CAOTE, where an event must cost less: it takes the mean value instead of the attended one.',
    instead: { snapkvCaote: 'budgets are small and the event may cost more', snapkv: SIMPLER },
    measured: 'Its ranking agrees with that of CAOTE (rank correlations above .97).',
  },
  criticalkv: {
    when: 'As SnapKV, for models whose values differ much in size: half of the budget goes by how much a value adds to the output.',
    instead: { snapkv: SIMPLER, snapkvCaote: 'the change of the whole output should count, not the size of one value' },
  },
  adakv: {
    when: 'As SnapKV, for models whose heads need different numbers of slots: the slots of a layer go to its best scores.',
    instead: {
      snapkv: 'all heads must keep as many slots as each other',
      layerDefensivekv: 'layers should share as well',
    },
  },
  pyramidal: {
    when: 'As SnapKV, for models whose first layers attend to more tokens than the last ones.',
    instead: { snapkv: SIMPLER, cake: 'budgets should follow the prompt, not a fixed line', dynamickv: 'the same' },
    measured: 'With a code in 512 tokens it needs half of the cache for 100 %; SnapKV alone has 100 % with an eighth.',
  },
  pyramidkv: {
    when: "PyramidKV as kvpress computes it, to compare with kvpress' numbers.",
    instead: { pyramidal: "the authors' own budgets are wanted", snapkv: SIMPLER },
  },
  dynamickv: {
    when: 'As SnapKV, where layers need different numbers of slots, and which ones depends on the prompt.',
    instead: { snapkv: SIMPLER, cake: 'the spread of attention should decide, not the best scores' },
  },
  cake: {
    when: 'Layers differ much in how widely they attend: those with wide and changing attention get more slots.',
    instead: { snapkv: SIMPLER, dynamickv: 'the best scores of the model should decide' },
  },
  defensivekv: {
    when: 'What matters changes from query to query: a token that any one of the last queries looked at stays.',
    instead: {
      snapkv: 'the mean of the last queries is a good guide',
      layerDefensivekv: 'layers should share slots too',
    },
  },
  layerDefensivekv: {
    when: 'As DefensiveKV, where some layers need far more slots than others.',
    instead: {
      defensivekv: 'every layer must keep as many slots',
      adakv: 'the mean of the last queries is a good guide',
    },
  },
  chunkkv: {
    when: 'Neighbouring tokens belong together, and the prompt ends in its question.',
    instead: { attendedSentences: 'the text has sentences', entropyChunkkv: 'only some chunks hang together' },
    measured:
      'On SmolLM2-135M chunks of 20 in place of sentences find a number in 86 % of 50 prompts with a quarter kept, and in 50 % with a tenth; attendedSentences in 99 and 96.5 % of 200.',
  },
  entropyChunkkv: {
    when: 'As ChunkKV, where a chunk may hold one token that matters and nine that do not.',
    instead: { chunkkv: 'chunks should stay whole', snapkv: SIMPLER },
  },
  snapkvMerge: {
    when: 'As SnapKV, where what is dropped should leave a trace: its values are folded into the nearest kept token.',
    instead: { snapkv: SIMPLER, snapkvCaote: 'less should be lost by choosing better' },
  },
  alpha: {
    when: 'SnapKV keeps many near-copies of one token, as in repetitive text.',
    instead: {
      snapkv: SIMPLER,
      h2o: 'the model reasons at length',
      alphaTriattention: 'the model has calibrated statistics',
    },
    measured:
      'While a small model reasons with 192 slots it is right in 28.3 % of 299 problems, its base in 20.2 %, H2O in 54.6 %.',
  },
  shotkv: {
    when: 'The prompt is a row of examples that a blank line ends, and the answer is long: examples stay or go as wholes, and the answer never evicts them.',
    instead: { chunkkv: 'the prompt has no such parts', snapkv: SIMPLER },
    policy: 'shotkv(window=4,every=8)',
  },
  phases: {
    when: 'An agent thinks, calls tools and reads their answers in turn: what one of these looks at should not go because another one spoke last.',
    instead: { snapkv: SIMPLER, taFast: CODES },
  },
  lazyEviction: {
    when: 'The model reasons at length and comes back to what it has not looked at for a while.',
    instead: { h2o: 'it was ahead of R-KV in our one measurement of reasoning', rkv: 'the model repeats itself' },
    policy: 'lazyEviction(recent=8,every=8)',
  },
  rkv: {
    when: 'The model reasons at length and repeats itself: copies of what is kept go first.',
    instead: { h2o: 'it was ahead in our one measurement', alpha: 'near-copies are in the prompt' },
    measured: 'While a small model reasons with 192 slots it is right in 25.9 % of 299 problems, H2O in 54.6 %.',
  },
  finch: {
    when: 'A long document, then a question that you know: it keeps what the question looks at, and turns keys to positions within the cache.',
    instead: {
      attendedSentences: PROSE,
      snapkv: 'keys may stay at their positions in the text',
      outstandingSentences: QUESTION_LATER,
    },
    policy: 'finch(question=8)',
  },
  attendedSentences: {
    when: 'The prompt ends in its question and the text is prose: whole sentences stay.',
    instead: { outstandingSentences: QUESTION_LATER, taFast: CODES, snapkv: 'the text has no sentences' },
    measured:
      'SmolLM2-135M finds a number in 1,024 tokens of a novel in 96.5 % of 200 prompts with a tenth kept, in 99 % with a quarter.',
    policy: 'attendedSentences',
  },

  // by attention summed up, or of the newest query
  h2o: {
    when: 'Text goes on and on, or the model reasons at length, and no question says what matters: what was attended to most so far stays, and the recent half.',
    instead: { snapkv: 'the prompt ends in its question', streaming: CHEAPEST, outstandingSentences: QUESTION_LATER },
    measured:
      'While a small model reasons with 192 slots it is ahead of all others: 54.6 % of 299 problems. It finds a code in 512 tokens in 33 % of prompts with half of them kept.',
  },
  h2oCaote: {
    when: 'As H2O, where values differ much: the change of the output decides among tokens attended alike.',
    instead: { h2o: SIMPLER, h2oFastCaote: 'the event must cost less' },
  },
  h2oFastCaote: {
    when: 'As H2O with CAOTE, where an event must cost less.',
    instead: { h2oCaote: 'the event may cost more', h2o: SIMPLER },
  },
  h2oJoint: {
    when: 'A yardstick for CAOTE on short prompts: it counts the error of all that left together. Its time grows with the square of the slots.',
    instead: { h2oCaote: 'the cache has more than some hundred slots' },
    measured:
      'Over a cache of 8 bits it keeps 95.0 % of the slots that it keeps over f32 (SmolLM2-135M, a quarter of 600 tokens): it removes one slot after another, and a first one that differs changes the error of all that follow.',
  },
  meanAttention: {
    when: 'As H2O without a recent window: late tokens are not at a disadvantage for having been seen by fewer queries.',
    instead: { h2o: 'the recent half should be safe', snapkv: 'the prompt ends in its question' },
  },
  tova: {
    when: 'Something simple while text is generated: the newest query decides, one set a layer.',
    instead: { snapkv: 'more than one query should decide', h2o: 'the past should count', streaming: CHEAPEST },
    measured:
      'It finds a code in 512 tokens in 75 % of prompts with half of them kept, in none with an eighth; SmolLM2-135M a number in a novel in 40 % with a quarter.',
  },
  tovaCaote: {
    when: 'As TOVA, where values differ much: the change of the output decides.',
    instead: { tova: SIMPLER, snapkvCaote: 'more than one query should decide' },
  },
  tovaFastCaote: {
    when: 'As TOVA with CAOTE, where an event must cost less.',
    instead: { tovaCaote: 'the event may cost more', tova: SIMPLER },
  },
  scissorhands: {
    when: 'As H2O, where a few large weights should not outvote many small ones: it counts how often a token was important.',
    instead: { h2o: 'the size of the weights should count', snapkv: 'the prompt ends in its question' },
  },

  // without attention
  streaming: {
    when: 'Only the recent text matters, or an event must cost next to nothing.',
    instead: { taFast: CODES, outstandingSentences: QUESTION_LATER, h2o: 'the far past matters too' },
    measured:
      'It finds a code in 512 tokens in 7 % of prompts with an eighth of them kept: whatever lies in the middle is gone.',
  },
  streamingRerotated: {
    when: 'StreamingLLM as its authors run it: keys are turned to their positions within the cache after every eviction.',
    instead: {
      streaming: 'the cache may keep the positions of the text: it does the same past the window, at less cost',
    },
  },
  taFast: {
    when: 'Credentials, order numbers and ids must survive whole, whatever is asked later: it reads them in speech, JSON, logs, tables, URLs and environment files.',
    instead: { outstandingSentences: 'facts do not follow such words', attendedSentences: PROSE, streaming: CHEAPEST },
    measured:
      'The embedded model finds every code with an eighth of the cache, before and after the question; SmolLM2-135M a number in a novel in 98 % of 200 prompts with 32 of 1,024 tokens, under taFast(reach=10,slots=12), the paper’s with a longer reach.',
  },
  fullTa: {
    when: 'As TA-Fast, where attention should count as well.',
    instead: { taFast: 'an event should read no attention: in our measurements attention adds nothing' },
    measured:
      "Without attention, recency, structure and frequency it answers the same (60 prompts, a screening). Over a cache of 8 bits it keeps 97.4 % of the slots that it keeps over f32 (SmolLM2-135M, a quarter of 600 tokens): scores that lie close together change places at the budget's edge.",
    policy: 'fullTa(reach=12,slots=24)',
  },
  outstandingSentences: {
    when: 'The question comes after the eviction, as in a chat or with a document that is read once: sentences that the rest of the text does not predict stay.',
    instead: { attendedSentences: 'the question is there already', taFast: CODES, streaming: CHEAPEST },
    measured:
      'SmolLM2-135M answers 93 % of 200 questions about 4,096 tokens with a tenth of them kept, and 92.5 % with all. Compactor answers 32.5 % about 1,024 tokens with a tenth, KVzip none.',
  },
  compactor: {
    when: 'The question comes later, and the text is not made of sentences: it combines keys unlike all others with attention that looks both ways.',
    instead: { outstandingSentences: 'the text has sentences', kvzip: 'reading the text twice is affordable' },
    measured:
      "Asked after the eviction about 1,024 tokens, SmolLM2-135M is right in 65.5 % of 200 prompts with a quarter kept, and in 97 % under outstandingSentences(kind=max). Over a cache of 8 bits it keeps 97.0 % of the slots that it keeps over f32 (SmolLM2-135M, a quarter of 600 tokens): scores that lie close together change places at the budget's edge.",
    policy: 'compactor(chunk=64)',
  },
  leverage: {
    when: 'The question comes later: keys that no other keys account for stay. It reads no attention.',
    instead: {
      outstandingSentences: 'the text has sentences: it keeps them whole by this score',
      compactor: 'attention should count too',
    },
    measured:
      "Over a cache of 8 bits it keeps 97.0 % of the slots that it keeps over f32 (SmolLM2-135M, a quarter of 600 tokens): scores that lie close together change places at the budget's edge.",
  },
  keydiff: {
    when: 'The question comes later and the engine gives no attention weights: keys unlike the mean key stay.',
    instead: {
      outstandingSentences: 'the text has sentences',
      taFast: CODES,
      snapkv: 'the prompt ends in its question',
    },
    measured:
      'SmolLM2-135M finds a number in 1,024 tokens of a novel in 60 % of 50 prompts with a quarter kept, in 12 % with a tenth.',
  },
  knorm: {
    when: 'A floor to compare with: keys of small norm stay, at the least cost. Models differ in whether their norms say anything.',
    instead: { keydiff: 'the engine gives keys only', snapkv: 'the prompt ends in its question' },
    measured: 'On the embedded model it finds no code, at any budget that was tried.',
  },
  lagkv: {
    when: 'The engine gives keys and values only, and text is read in blocks: a token is compared with the block after it.',
    instead: { keydiff: 'one direction per head is enough', outstandingSentences: 'the text has sentences' },
  },
  cur: {
    when: 'The engine gives keys and values only, and both should count.',
    instead: { leverage: 'keys are enough', keydiff: 'an event must cost less' },
  },
  random: {
    when: 'The floor for comparison: a policy that is not better has learnt nothing from the text.',
    instead: { streaming: CHEAPEST },
  },

  // by the model's further reading, or by statistics
  kvzip: {
    when: 'A document is read once and asked often, and reading it a second time is affordable: what the model needs to repeat it stays.',
    instead: {
      outstandingSentences: 'one reading must do',
      kvzipModelWide: 'layers and heads should share slots, as the authors do',
    },
    measured:
      'Asked after the eviction about 1,024 tokens, SmolLM2-135M is right in 3.5 % of 200 prompts with a quarter kept, and in 97 % under outstandingSentences(kind=max).',
  },
  kvzipModelWide: {
    when: "KVzip with its authors' budgets: all layers and heads share one budget.",
    instead: { kvzip: 'every head must keep as many slots as each other', outstandingSentences: 'one reading must do' },
  },
  kvcompose: {
    when: 'As KVzip, where one set of positions per layer is wanted: composite tokens keep layers rectangular.',
    instead: { kvzipModelWide: 'heads may keep different positions', outstandingSentences: 'one reading must do' },
  },
  expectedAttention: {
    when: 'The question comes later, and future queries resemble past ones.',
    instead: {
      expectedAttentionStats: 'the model has calibrated statistics',
      outstandingSentences: 'the text has sentences',
    },
  },
  expectedAttentionStats: {
    when: 'As expected attention, with statistics of the queries that were calibrated once for the model.',
    instead: { expectedAttention: 'there are no statistics', outstandingSentences: 'the text has sentences' },
  },
  triattention: {
    when: 'The model reasons at length, and statistics of its queries were calibrated: no attention is read.',
    instead: { h2o: 'it was ahead in our one measurement', expectedAttention: 'there are no statistics' },
    measured: 'While a small model reasons with 192 slots it is right in 33.4 % of 299 problems, H2O in 54.6 %.',
  },
  alphaTriattention: {
    when: 'As TriAttention, where one set is kept for the whole model, without near-copies.',
    instead: { triattention: 'it was ahead in our one measurement', alpha: 'there are no statistics' },
  },
  qfilter: {
    when: 'The engine gives keys only, and filters were calibrated once for the model.',
    instead: { keydiff: 'there are no filters', snapkv: 'the prompt ends in its question' },
  },
  capkv: {
    when: 'Values that add nothing new to what is kept should go first.',
    instead: {
      expectedAttention: 'the attention of future queries is the better guide',
      keydiff: 'an event must cost less',
    },
  },
  dropkv: {
    when: 'The exact change of the output should decide, for the last queries.',
    instead: { snapkvCaote: 'scores of SnapKV are a good guide already', snapkv: SIMPLER },
  },

  // units of a text
  crystalcache: {
    when: 'Facts that need each other lie in different sentences: linked sentences stay together. Keeps at least 132 slots.',
    instead: { attendedSentences: 'the prompt ends in its question', outstandingSentences: QUESTION_LATER },
    measured:
      'It links facts where H2O, SnapKV and ChunkKV do not (60 prompts, a screening), and on single needles was behind the best of them in 4 of 12 comparisons, ahead in none.',
  },
  crystalcacheBreath: {
    when: 'As CrystalCache, while a long answer is generated: what matters is looked at again every few tokens.',
    instead: { crystalcache: 'answers are short' },
  },

  // views: nothing is evicted
  quest: {
    when: 'Memory is enough, and decoding must be faster: every query reads only the pages that may matter.',
    instead: {
      snapkv: 'memory must be bounded: a view evicts nothing',
      doubleSparsity: 'single tokens should be chosen, not pages',
    },
    policy: 'quest(slots=64)',
  },
  doubleSparsity: {
    when: 'As Quest, token by token: a few channels decide which tokens a query reads.',
    instead: { quest: 'whole pages are enough', hshare: 'choosing must cost less', snapkv: 'memory must be bounded' },
    policy: 'doubleSparsity(slots=64)',
  },
  hshare: {
    when: 'As Double Sparsity, where choosing costs too much: tokens, layers and heads share their sets.',
    instead: { doubleSparsity: 'every query should choose for itself', cpe: 'sets should be shared by likeness' },
  },
  cpe: {
    when: 'As HShare, with sets shared between similar queries, and early tokens frozen.',
    instead: { doubleSparsity: 'every query should choose for itself', snapkv: 'memory must be bounded' },
  },
  topKOracle: {
    when: 'A yardstick for views: it reads the tokens that truly weigh most, and so saves nothing.',
    instead: { quest: 'decoding must be faster' },
    policy: 'topKOracle(slots=64)',
  },
  full: {
    when: 'The cache fits: nothing is evicted. What every policy is compared with.',
    instead: {
      snapkv: 'memory must be bounded, and the prompt ends in its question',
      outstandingSentences: QUESTION_LATER,
    },
  },
};
