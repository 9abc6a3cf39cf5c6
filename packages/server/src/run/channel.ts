/** An unbounded queue with one writer and one asynchronous reader. */
export class Channel<T> {
  readonly #items: T[] = [];
  #ended = false;
  #failure: unknown;
  #wake: (() => void) | undefined;
  /** Called after an item is read. */
  onRead: (() => void) | undefined;

  /** Number of unread items. */
  get waiting(): number {
    return this.#items.length;
  }
  get ended(): boolean {
    return this.#ended;
  }

  push(item: T): void {
    if (this.#ended) return;
    this.#items.push(item);
    this.#wake?.();
  }
  /** Closes the channel; with `failure`, the reader throws it after the last item. */
  end(failure?: unknown): void {
    if (this.#ended) return;
    [this.#ended, this.#failure] = [true, failure];
    this.#wake?.();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void> {
    for (;;) {
      const [item] = this.#items.splice(0, 1);
      if (item !== undefined) {
        this.onRead?.();
        yield item;
      } else if (this.#ended) {
        if (this.#failure !== undefined) throw this.#failure;
        return;
      } else
        await new Promise<void>((resolve) => {
          this.#wake = () => {
            this.#wake = undefined;
            resolve();
          };
        });
    }
  }
}
