import type { ChatTemplate } from '../chat-template.ts';

/** Returns a function that looks at a template once, and from then on returns what it found. */
export function onceEach<T>(look: (template: ChatTemplate) => T): (template: ChatTemplate) => T {
  const known = new WeakMap<ChatTemplate, { readonly found: T }>();
  return (template) => {
    const before = known.get(template) ?? { found: look(template) };
    known.set(template, before);
    return before.found;
  };
}
