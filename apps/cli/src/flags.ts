import { KvError } from '@kv/core';
import { fitValue } from '@kv/core/engine';
import type { Option, Options } from '@kv/core';
import { Option as Flag } from 'commander';
import type { Command } from 'commander';

/** Returns the flag of an option: `--max-new-tokens` for `maxNewTokens`. */
export const flagOf = (name: string): string => `--${name.replace(/[A-Z]/g, (c) => `-${c.toLowerCase()}`)}`;

/** Short forms of flags. */
const SHORT: Readonly<Record<string, string>> = { model: '-m' };

/** Adds a flag for each of these options to a command, with the option's help, default and check. */
export function withFlags(command: Command, options: Options): Command {
  for (const [name, option] of Object.entries(options)) {
    const flag = flagOf(name),
      isFlag = option.form.sort === 'flag',
      long = Object.hasOwn(SHORT, name) ? `${SHORT[name]}, ${flag}` : flag,
      made = new Flag(isFlag ? long : `${long} <${placeholder(option)}>`, helpOf(option, options)),
      mandatory = option.required === true;
    if (!isFlag)
      made.argParser((text, before: unknown) => parsed(flag, option, text, before === option.default ? [] : before));
    if (option.default !== undefined && !mandatory)
      made.default(option.default, Array.isArray(option.default) ? option.default.join(', ') : undefined);
    command.addOption(made.makeOptionMandatory(mandatory));
  }
  return command;
}

/**
 * Calls a library and renames options in its errors to the command's flags.
 * @param only names of options that are renamed. @defaultValue all
 */
export async function withFlagNames<T>(
  command: Command,
  ask: () => T | Promise<T>,
  only?: readonly string[],
): Promise<T> {
  const { options } = command;
  try {
    return await ask();
  } catch (cause) {
    if (!KvError.is(cause) || only?.includes(cause.at) === false) throw cause;
    const named = (name: string): string | undefined =>
        options.find((option) => option.attributeName() === name)?.long ?? undefined,
      // --policies, of which --policy is another name, unless that one was given
      flag =
        (cause.at === 'policy' && command.getOptionValueSource('policy') !== 'cli' && named('policies')) ||
        named(cause.at);
    if (flag === undefined) throw cause;
    const sentence = cause.message.slice(cause.at.length + 2);
    throw new KvError(
      flag,
      sentence.replace(/`(\w+)`/g, (quoted, name: string) => named(name) ?? quoted),
    );
  }
}

/** Returns the placeholder of a value: its unit, else the noun of what it must be. */
const placeholder = ({ form }: Option<unknown>): string =>
  'of' in form && form.of !== undefined
    ? form.of
    : form.sort === 'number'
      ? 'n'
      : form.sort === 'value'
        ? form.each
          ? 'list'
          : 'text'
        : (/^(?:an? )?(\w+)/.exec(form.want)?.[1] ?? 'name');

/** Returns an option's help text, with names of options as flags. */
function helpOf({ says, otherwise, form }: Option<unknown>, options: Options): string {
  const text = [
    says.replace(/^[A-Z](?![A-Z])/, (c) => c.toLowerCase()).replace(/\.$/, ''),
    ...(form.sort === 'value' && form.each ? ['(between commas)'] : []),
    ...(form.sort === 'value' && form.texts ? ['(may be given again)'] : []),
    ...(otherwise === undefined ? [] : [`(by default ${otherwise})`]),
  ].join(' ');
  return text.replace(/`(\w+)`/g, (quoted, name: string) => (Object.hasOwn(options, name) ? flagOf(name) : quoted));
}

/** Parses the text of an option; options of several texts or values add them to those `before`. */
function parsed(flag: string, option: Option<unknown>, text: string, before: unknown): unknown {
  const { form } = option;
  if (form.sort === 'value') {
    const { each, words } = form,
      parts = each || words ? splitOutside(text, ',').map((part) => part.trim()) : [],
      values = each
        ? parts.map((part) => parsed(flag, each, part, []))
        : words && parts.every((part) => words.includes(part))
          ? parts
          : [text];
    return fitValue(flag, option, [...new Set([...((before as readonly unknown[] | undefined) ?? []), ...values])]);
  }
  // the name of a file, a model or a policy; a text may be empty
  if (text === '' && form.sort === 'text' && !form.read && !form.want.endsWith('text'))
    throw new KvError(flag, `expected ${form.want}, got an empty text`);
  const isNumber = form.sort === 'number' && form.whole ? /^[+-]?\d+$/ : /^[+-]?(?:\d+\.?\d*|\.\d+)$/;
  const counts = form.sort === 'number' || (form.sort === 'text' && form.read && form.read(text) === undefined);
  return fitValue(flag, option, counts && isNumber.test(text) ? Number(text) : text);
}

const UNITS: Readonly<Record<string, number>> = {
  '': 1,
  K: 10 ** 3,
  M: 10 ** 6,
  G: 10 ** 9,
  KI: 2 ** 10,
  MI: 2 ** 20,
  GI: 2 ** 30,
};

/** Lets an option in bytes also be written `512MB`, `2GB` or `1.5GiB`. */
export const sized = (option: Option<number>): Option<number> => ({
  ...option,
  form: {
    sort: 'text',
    of: 'bytes',
    want: 'a number of bytes such as 512MB, 2GB or 1.5GiB',
    read(x) {
      const [, count, unit = ''] = /^(\d+(?:\.\d+)?) ?(?:([KMG]i?)?B)?$/i.exec(String(x)) ?? [],
        bytes = Math.floor(Number(count) * (UNITS[unit.toUpperCase()] ?? Number.NaN));
      return Number.isSafeInteger(bytes) && bytes > 0 ? bytes : undefined;
    },
  },
});

/** Splits at a separator outside brackets and double quotes. */
function splitOutside(text: string, separator: string): readonly string[] {
  const parts: string[] = [];
  let depth = 0,
    quoted = false,
    from = 0;
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if (quoted) {
      if (c === '\\') i++;
      else if (c === '"') quoted = false;
    } else if (c === '"') quoted = true;
    else if (c === '(') depth++;
    else if (c === ')') depth = Math.max(0, depth - 1);
    else if (c === separator && depth === 0) {
      parts.push(text.slice(from, i));
      from = i + 1;
    }
  }
  return [...parts, text.slice(from)];
}
