/** What one way made of one prompt. */
export interface NeedleAnswer {
  /** Index into the ways. */
  readonly way: number;
  readonly answer: string;
  readonly hit: boolean;
  /** Share of layers and KV heads that still hold every token of the value. */
  readonly retained: number;
  /** Tokens generated, and milliseconds they took. */
  readonly tokens: number;
  readonly ms: number;
  /** Bytes of the cache and of what the policy remembers: mean while answering, and the most that such a run holds. */
  readonly mean: number;
  readonly peak: number;
}

/** One prompt in all ways. */
export interface NeedleResult {
  readonly id: string;
  readonly depth: number;
  readonly trial: number;
  readonly value: string;
  readonly outcomes: readonly NeedleAnswer[];
  readonly example?: NeedleSample;
}

/** The text of one prompt and, for each way, how many layers and KV heads kept each token. */
export interface NeedleSample {
  readonly text: string;
  readonly offsets: readonly (readonly [number, number])[];
  readonly valueTokens: readonly number[];
  readonly question: string;
  /** Layers times KV heads. */
  readonly rows: number;
  /** Counts of document and question tokens, one byte each, base64; by way. */
  readonly kept: readonly string[];
}
