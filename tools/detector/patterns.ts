import patterns from './patterns.json' with { type: 'json' };

/**
 * Lines in nine forms: anchors, whose value follows the mark ¦, and other lines, which contain no secret. `<b>`
 * a key, `<h>` hexadecimal digits, `<d>` digits, `<w>` a password, `<k>` a code, `<u>` an address; `<n>`, `<N>`, `<C>`
 * a name of a service in lower, upper and title case. What is learned from and what is held out share no
 * template.
 */
export interface Form {
  readonly name: string;
  readonly join: string;
  readonly open: string;
  readonly close: string;
  readonly learned: Lines;
  readonly heldOut: Lines;
}
interface Lines {
  readonly anchors: readonly string[];
  readonly beside: readonly string[];
}

/**
 * Lines, the services that secrets belong to (including ids of gitleaks' rules), and texts that a model reading from
 * the left cannot tell from anchors: they have the sign, but no value.
 */
interface Patterns {
  readonly services: { readonly learned: readonly string[]; readonly heldOut: readonly string[] };
  readonly forms: readonly Form[];
  readonly withoutValue: readonly string[];
}
export const { forms, services, withoutValue }: Patterns = patterns;
