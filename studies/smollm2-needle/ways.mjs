// What plan.md says, as data: which policies see which prompts at which budgets.
const attention = 'snapkv(window=8,kernel=1)',
  sinks = 'mandatory(sinks=4)',
  units = 'sentences(maxSize=32)',
  whole = 'wholeUnits(last=fill)';
const chain = (...pieces) => pieces.join(' ∘ ');

/** The policies of the claims. */
const SENTENCES = chain(attention, sinks, units, whole);
const VOUCHERS = 'taFast(reach=10,slots=12)';

const SHARES = ['25%', '10%'],
  SMALL = [64, 48, 32];
const over = (policy, budgets, name) => budgets.map((budget) => ({ name, policy, budget }));

const CLAIMS = {
  number: [...over(SENTENCES, SHARES, 'attended sentences'), ...over(VOUCHERS, [...SHARES, ...SMALL], 'TA-Fast')],
  code: over(VOUCHERS, SMALL, 'TA-Fast'),
};

/** Ablations: one piece removed or replaced; the last ones are whole policies for comparison. */
const ABLATIONS = [
  ...over(chain(attention, sinks, 'topK'), SHARES, 'without sentences: single slots'),
  ...over(chain(attention, sinks, 'chunks(size=20)', whole), SHARES, 'chunks of 20 in the place of sentences'),
  ...over(
    chain('random', 'mandatory(sinks=4,recent=8)', units, whole),
    SHARES,
    'without attention: sentences at random',
  ),
  ...over(
    chain('snapkv(window=64,kernel=1)', sinks, units, whole),
    SHARES,
    'window of 64 in the place of the question',
  ),
  ...over(chain(attention, units, whole), ['10%'], 'without sinks'),
  ...over(chain(attention, sinks, 'sentences', whole), ['10%'], 'without the limit of 32 tokens'),
  ...over(chain(attention, sinks, units, 'wholeUnits'), ['10%'], 'without filling the rest'),
  ...over('taFast(reach=10,slots=12,strength=0)', ['10%', 32], 'TA-Fast without vouchers'),
  ...over('taFast(reach=10,slots=0)', ['10%', 32], 'TA-Fast without the protected partition'),
  ...over('taFast(reach=6,slots=4)', ['10%', 32], "TA-Fast with the paper's reach of 6 and 4 slots"),
  ...over('snapkv(window=64,kernel=5)', SHARES, 'SnapKV'),
  ...over('keydiff', SHARES, 'KeyDiff'),
  ...over('tova', [...SHARES, 64], 'TOVA'),
];

/** Number of prompts of each form, in order; the first of a form also see the ablations. */
export const STAGES = [
  { form: 'number', from: 50, to: 200, ablations: [] },
  { form: 'number', from: 0, to: 50, ablations: ABLATIONS },
  { form: 'code', from: 0, to: 200, ablations: [] },
].map((stage) => ({ ...stage, claims: CLAIMS[stage.form] }));

export const TOKENS = 1024;
/** Seed of a prompt: those of the plan were never run before it was committed. */
export const seedOf = (set, form, i) => `smollm2-needle/${set}/${form}/${i}`;
/** Ten depths in turn, from 5 % to 95 % of the prose. */
export const depthOf = (i) => ((i % 10) + 0.5) / 10;
const ASKED = { number: (key) => `special magic ${key} number`, code: (key) => `${key} code` };
/** The question and the beginning of its answer, as RULER asks. */
export const questionOf = (form, key) =>
  `\nQuestion: What is the ${ASKED[form](key)}?\nAnswer: The ${ASKED[form](key)} is`;
