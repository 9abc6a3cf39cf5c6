/** Memoises the variants of a kernel by their arguments. */
export function variants<A extends readonly unknown[], K>(make: (...args: A) => K): (...args: A) => K {
  const made = new Map<string, K>();
  return (...args) => {
    const key = JSON.stringify(args);
    let found = made.get(key);
    if (found === undefined) made.set(key, (found = make(...args)));
    return found;
  };
}
