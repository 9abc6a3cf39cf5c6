/** A special token within a text of a conversation. */
export interface Mark {
  readonly mark: string;
}

/** A text of a conversation with special tokens in it, which stay such: the rest is the conversation's, and stays text. */
export class MarkedText {
  readonly parts: readonly (string | Mark)[];

  constructor(parts: readonly (string | Mark)[]) {
    this.parts = parts;
  }
}
