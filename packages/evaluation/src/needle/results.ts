/** The result of one arm on one prompt. */
export interface NeedleAnswer {
  /** Index of the arm. */
  readonly arm: number;
  readonly answer: string;
  readonly hit: boolean;
  /** Share of layers and KV heads that still hold every token of the value. */
  readonly retained: number;
  /** Tokens generated, and the milliseconds they took. */
  readonly tokens: number;
  readonly ms: number;
  /** Bytes of the cache and of the policy's state: the mean while answering, and the peak of such a run. */
  readonly mean: number;
  readonly peak: number;
}

/** The results of all arms on one prompt. */
export interface NeedleResult {
  readonly id: string;
  readonly depth: number;
  readonly trial: number;
  readonly value: string;
  readonly outcomes: readonly NeedleAnswer[];
  readonly example?: NeedleSample;
}

/** The text of one prompt and, for each arm, the number of layers and KV heads that kept each token. */
export interface NeedleSample {
  readonly text: string;
  readonly offsets: readonly (readonly [number, number])[];
  readonly valueTokens: readonly number[];
  readonly question: string;
  /** Layers times KV heads. */
  readonly rows: number;
  /** For each arm: counts for document and question tokens, one byte each, base64. */
  readonly kept: readonly string[];
}
