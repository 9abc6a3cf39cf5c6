import { compile } from '@kv/core/engine';
import { policy as policyOf } from '@kv/policies';
import type { Candidate } from '../candidate.ts';
import { refusedBy } from '../targets.ts';
import type { Target } from '../targets.ts';

/** How a choice is used in one place. */
export interface UseLine {
  /** `kv serve`, `generate`, `transformers.js` or `node-llama-cpp`. */
  readonly where: string;
  /** A command or line of code; absent where it cannot run there. */
  readonly line?: string;
  /** Why it cannot. */
  readonly why?: string;
}

/** Returns a text as one word of a shell. */
const quoted = (text: string): string => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);
/** Returns a value as JavaScript writes it, texts in single quotes. */
const code = (value: string | number): string =>
  typeof value === 'number'
    ? String(value)
    : `'${JSON.stringify(value).slice(1, -1).replaceAll('\\"', '"').replaceAll("'", "\\'")}'`;

/**
 * Returns the lines that use a choice: the command of `kv serve`, the call of `generate`, and what transformers.js and
 * node-llama-cpp are given, or why they cannot run it.
 * @param model as `--model` names it
 * @param tokens mean length of a prompt, for engines that take no bytes
 */
export function useLines(
  { policy, budget, share }: Pick<Candidate, 'policy' | 'budget' | 'share'>,
  model: string,
  tokens: number,
): readonly UseLine[] {
  const compiled = compile(policyOf(policy)),
    called = `policy: ${code(policy)}`,
    slots = typeof budget === 'number' || /^[\d.]+%$/.test(budget) ? budget : Math.max(1, Math.floor(share * tokens)),
    reads = compiled.needs.some(({ id }) => /^(queries|attention)/.test(id)),
    text = compiled.needs.some(({ id }) => id === 'tokens'),
    parts = reads ? ', source' : text ? ', tokenizer' : '',
    other = (where: Exclude<Target, 'kv'>, line: string): UseLine => {
      const why = refusedBy(where, compiled);
      return why === undefined ? { where, line } : { where, why };
    };
  return [
    {
      where: 'kv serve',
      line: `kv serve --model ${quoted(model)} --policy ${quoted(policy)} --budget ${quoted(String(budget))}`,
    },
    {
      where: 'generate',
      line: `await generate(await loadModel(${code(model)}), { prompt, ${called}, budget: ${code(budget)} })`,
    },
    other('transformers.js', `await withPolicy(loaded, { ${called}, budget: ${code(slots)}${parts} })`),
    other(
      'node-llama-cpp',
      `await retainTokens(sequence, { policy: policy(${code(policy)}), budget: ${code(slots)} })`,
    ),
  ];
}
