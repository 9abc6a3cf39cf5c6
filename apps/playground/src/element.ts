/** Returns the element of the page with this id. @throws if the page has none of that kind */
export function element<T extends HTMLElement>(id: string, kind: new () => T): T {
  const found = document.getElementById(id);
  if (!(found instanceof kind))
    throw new TypeError(
      `expected a ${kind.name} with the id '${id}', got ${found === null ? 'none' : found.constructor.name}`,
    );
  return found;
}

/** Creates an element with properties and children. */
export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  properties: Partial<HTMLElementTagNameMap[K]> = {},
  ...children: readonly (Node | string)[]
): HTMLElementTagNameMap[K] {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}
