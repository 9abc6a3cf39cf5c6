interface Labelled {
  readonly label: string;
  readonly called?: string;
}
const PRINTED = {
  toString(this: Labelled): string {
    return this.label || this.called || 'full';
  },
  // how Node's console prints it; by its registered symbol, since core imports nothing
  [/* @__PURE__ */ Symbol.for('nodejs.util.inspect.custom')](this: Labelled): string {
    return String(this);
  },
};

/** Returns an object with these fields that prints as its label, as text and in Node's console. */
export const withLabel = <T extends Labelled>(fields: T): T => Object.assign(Object.create(PRINTED) as object, fields);
