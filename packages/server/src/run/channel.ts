/** What one side says and another reads later. */
export class Channel<T> {
  readonly #items: T[] = [];
  #ended = false;
  #failure: unknown;
  #wake: (() => void) | undefined;
  /** Called when something was read. */
  onRead: (() => void) | undefined;

  /** Said and not read. */
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
  /** Nothing follows; with a cause, reading fails where the items end. */
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
