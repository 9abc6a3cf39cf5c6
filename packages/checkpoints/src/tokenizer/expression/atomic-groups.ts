/** Begins the name of a group that gives nothing back. */
const ATOMIC = 'atomic__';

/** Returns whether a group of this name gives nothing back of what it matched. */
export const isAtomic = (name: string | null): boolean => name?.startsWith(ATOMIC) === true;

/** An escape, the beginning of a group, a count with how it is tried, or one character. */
const PART =
  /(?<escape>\\(?:[pPxu]\{[^}]*\}|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|c[A-Za-z]|.))|(?<open>\((?:\?(?:<[=!]|<\w+>|[=!:>]|[a-z]+:))?)|(?<count>(?:[*+?]|(?<braces>\{(?:\d+(?:,\d*)?|,\d+)\}))(?<how>[?+])?)|./suy;

/**
 * Writes atomic groups and possessive counts of an Oniguruma expression, which JavaScript has none of, as groups with
 * names that `compile` knows. As in Ruby, a `+` after braces repeats what they count.
 */
export function nameAtomicGroups(regex: string): string {
  const groups: number[] = [];
  let [out, atom, names, counted] = ['', -1, 0, false];
  const named = (): string => `(?<${ATOMIC}${names++}>`;
  for (let at = 0; at < regex.length; ) {
    if (regex[at] === '[') {
      const end = classEnd(regex, at);
      [atom, counted] = [out.length, false];
      out += regex.slice(at, end);
      at = end;
      continue;
    }
    PART.lastIndex = at;
    const { 0: text, groups: { open, count, braces, how } = {} } = PART.exec(regex) as RegExpExecArray;
    if (open !== undefined) {
      groups.push(out.length);
      out += open === '(?>' ? named() : open;
      [atom, counted] = [-1, false];
    } else if (count !== undefined && atom >= 0) {
      const own = braces !== undefined && how === '+' ? braces : count;
      if (counted) out = `${out.slice(0, atom)}(?:${out.slice(atom)})`;
      out =
        how === '+' && braces === undefined
          ? `${out.slice(0, atom)}${named()}${out.slice(atom)}${count.slice(0, -1)})`
          : out + own;
      counted = how !== '+' || braces !== undefined;
      at += own.length;
      continue;
    } else {
      atom = text === ')' ? (groups.pop() ?? -1) : text === '|' ? -1 : out.length;
      counted = false;
      out += text;
    }
    at += text.length;
  }
  return out;
}

/** Returns where the character class ends that begins at `start`; Oniguruma's may hold others. */
function classEnd(regex: string, start: number): number {
  let depth = 0;
  for (let at = start; at < regex.length; at++) {
    if (regex[at] === '\\') at++;
    else if (regex[at] === '[') {
      depth++;
      if (regex[at + 1] === '^') at++;
      if (regex[at + 1] === ']') at++;
    } else if (regex[at] === ']' && --depth === 0) return at + 1;
  }
  return regex.length;
}
