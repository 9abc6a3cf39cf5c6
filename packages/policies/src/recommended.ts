/** A policy worth trying first. */
export interface RecommendedPolicy {
  /** When to use it, as a phrase: `the prompt ends in its question`. */
  readonly when: string;
  /** Its text, for `policy()`, `generate`, the command line and the server. */
  readonly policy: string;
}

/**
 * Five policies to try first, with the options under which they were measured to work (docs/evidence.md). Methods of
 * papers keep their authors' defaults, which suit larger models.
 */
export const recommendedPolicies: readonly RecommendedPolicy[] = [
  { when: 'the prompt ends in its question', policy: 'snapkv(window=16,kernel=17,pooling=max) | caote | topK' },
  {
    when: 'credentials and order numbers must survive, whatever comes later',
    policy: 'taFast',
  },
  { when: 'prose is asked about; whole sentences should stay', policy: 'attendedSentences' },
  { when: 'the question comes after the eviction, as in a chat', policy: 'outstandingSentences' },
  { when: 'only the recent text matters, at the least cost', policy: 'streaming' },
];
