/** Present names of pieces by their former names, some of which only methods have now. */
const PRESENT: Readonly<Record<string, string>> = {
  cake: 'entropyVarianceBudgets',
  cap: 'capkv',
  clip: 'clipToRange',
  criticalkv: 'twoStageScores',
  defensive: 'worstCaseAttention',
  dots: 'queryKeyProducts',
  dynamickv: 'topScoreBudgets',
  exact: 'newestQueryAttention',
  finch: 'questionAttention',
  given: 'fixedBudgets',
  importance: 'groupMaxAttention',
  kvcompose: 'rereadingAttention',
  labels: 'heavyChannelProducts',
  noncausal: 'noncausalAttention',
  observed: 'meanAttention',
  pyramidal: 'linearBudgets',
  pyramidkv: 'roundedLinearBudgets',
  standout: 'unitLogMinMax',
  triattention: 'futureQueryScores',
};

/** Returns the present name of a piece that had another, or undefined. */
export const presentName = (former: string): string | undefined =>
  Object.hasOwn(PRESENT, former) ? PRESENT[former] : undefined;
