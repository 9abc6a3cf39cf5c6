interface Labelled {
  readonly label: string;
  readonly called?: string;
}
const PRINTED = {
  toString(this: Labelled): string {
    return this.label || this.called || 'full';
  },
  // what Node's console shows; by its registered name, since core imports nothing
  [/* @__PURE__ */ Symbol.for('nodejs.util.inspect.custom')](this: Labelled): string {
    return String(this);
  },
};

/** What is made of fields, which text and Node's console print by its label. */
export const withLabel = <T extends Labelled>(fields: T): T => Object.assign(Object.create(PRINTED) as object, fields);
