import patterns from './patterns.json' with { type: 'json' };

/**
 * Lines in nine forms: anchors, whose value follows the mark ¦, and lines beside them, which hold nothing secret. `<b>`
 * a key, `<h>` hexadecimal digits, `<d>` digits, `<w>` a password, `<k>` a code, `<u>` an address; `<n>`, `<N>`, `<C>`
 * a name of a service in lower, upper and title case. What is learned from and what is held out have neither template
 * in common.
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
 * Lines, the services that secrets belong to (ids of gitleaks' rules among them), and what no model can tell apart that
 * reads from the left: the sign is there, the value is not.
 */
interface Patterns {
  readonly services: { readonly learned: readonly string[]; readonly heldOut: readonly string[] };
  readonly forms: readonly Form[];
  readonly withoutValue: readonly string[];
}
export const { forms, services, withoutValue }: Patterns = patterns;
