/** What one way made of one prompt. */
export interface Answer {
  /** Index into the ways. */
  readonly way: number;
  readonly answer: string;
  readonly hit: boolean;
  /** Share of layers and KV heads that still hold every token of the value. */
  readonly retained: number;
  /** Tokens generated, and milliseconds they took. */
  readonly tokens: number;
  readonly ms: number;
}

/** One prompt in all ways. */
export interface PromptResult {
  readonly id: string;
  readonly depth: number;
  readonly trial: number;
  readonly value: string;
  readonly outcomes: readonly Answer[];
  readonly example?: Example;
}

/** One way by itself on one prompt: bytes of its cache and of what its policy remembers. */
export interface AloneResult {
  readonly id: string;
  readonly way: number;
  /** While answering. */
  readonly mean: number;
  readonly peak: number;
}
export type NeedleResult = PromptResult | AloneResult;
export const isAlone = (result: NeedleResult): result is AloneResult => 'peak' in result;

/** The text of one prompt and, for each way, how many layers and KV heads kept each token. */
export interface Example {
  readonly text: string;
  readonly offsets: readonly (readonly [number, number])[];
  readonly valueTokens: readonly number[];
  readonly question: string;
  /** Layers times KV heads. */
  readonly rows: number;
  /** Counts of document and question tokens, one byte each, base64; by way. */
  readonly kept: readonly string[];
}
