import { compile } from '@kv/core/engine';
import { policy as policyOf } from '@kv/policies';
import type { Choice } from '../choice.ts';
import { refusedBy } from '../targets.ts';
import type { Target } from '../targets.ts';
import { losesMost } from './sentence.ts';

/** How a choice is used in one place. */
export interface UseLine {
  /** `kv run`, `kv serve`, `generate`, `Sequence`, `transformers.js` or `node-llama-cpp`. */
  readonly where: string;
  /** A command or line of code; absent where it cannot run there. */
  readonly line?: string;
  /** Why it cannot. */
  readonly why?: string;
  /** In what it differs from what was measured. */
  readonly note?: string;
}

/** Returns a text as one word of a shell. */
export const shellWord = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
/** Returns a value as JavaScript writes it, texts in single quotes. */
const code = (value: string | number): string =>
  typeof value === 'number'
    ? String(value)
    : `'${JSON.stringify(value).slice(1, -1).replaceAll('\\"', '"').replaceAll("'", "\\'")}'`;

/** Said where slots are dropped once the question has been read, too. */
const LATER =
  'It drops slots once the whole prompt has been read, its question included; the loss above is of questions asked later. kv choose --question inside measures this.';

/** Returns the line that reads a context under a policy, and asks about it later; as a turn of a chat if prompts were. */
function sequenceLine(load: string, given: string, template: boolean): string {
  const [turn, context, question] = template
    ? [
        ', turn = cutTurn(model.chatTemplate(), context, question)',
        'renderedIds(model.tokenizer, turn.context)',
        'renderedIds(model.tokenizer, turn.question)',
      ]
    : ['', 'model.tokenizer.encode(context).ids', 'model.tokenizer.encode(question, { special: false }).ids'];
  return `const model = await ${load}, sequence = new Sequence(model)${turn}; await sequence.prefill(${context}, { ${given} }); await sequence.append(${question}); for await (const { text } of decode(sequence)) process.stdout.write(text)`;
}

/**
 * Returns the lines that use a choice: `kv serve` and `generate`, or, where questions came after the event, `kv run` and a
 * `Sequence`, which read the context first; and what transformers.js and node-llama-cpp are given, or why they cannot run
 * it. Empty where nothing was chosen, and where it loses half or more.
 *
 * @param model as `--model` names it
 */
export function useLines(
  choice: Pick<Choice, 'rows' | 'chosen' | 'prompts' | 'form' | 'kind'>,
  model: string,
): readonly UseLine[] {
  const row = choice.rows[choice.chosen ?? -1];
  if (row === undefined || losesMost(choice, row)) return [];
  const { policy, budget, share } = row,
    { tokens, question, template } = choice.prompts,
    after = question !== 'inside',
    compiled = compile(policyOf(policy)),
    called = `policy: ${code(policy)}`,
    isSlots = typeof budget === 'number' || /^[\d.]+%$/.test(budget),
    // bytes hold other numbers of slots in another form
    form = isSlots ? undefined : choice.form,
    // a model whose weights are not stored in few bits keeps its cache in f32 unless told otherwise
    cache = choice.form === undefined ? '' : `, { cache: ${code(choice.form)} }`,
    flags = `--policy ${shellWord(policy)} --budget ${shellWord(String(budget))}${form === undefined ? '' : ` --cache ${form}`}`,
    slots = isSlots ? budget : Math.max(1, Math.floor(share * tokens)),
    reads = compiled.needs.some(({ id }) => /^(queries|attention)/.test(id)),
    text = compiled.needs.some(({ id }) => id === 'tokens'),
    parts = reads ? ', source' : text ? ', tokenizer' : '',
    note = after ? { note: LATER } : {},
    other = (where: Exclude<Target, 'kv'>, line: string): UseLine => {
      const why = refusedBy(where, compiled);
      return why === undefined ? { where, line, ...note } : { where, why };
    };
  const given = `${called}, budget: ${code(budget)}`;
  return [
    ...(after
      ? [
          {
            where: 'kv run',
            line: `kv run --model ${shellWord(model)} --document context.txt --question 'Your question' ${flags}${template ? '' : ' --raw'}`,
          },
        ]
      : []),
    { where: 'kv serve', line: `kv serve --model ${shellWord(model)} ${flags}`, ...note },
    after
      ? {
          where: 'Sequence',
          line: sequenceLine(`loadModel(${code(model)}${cache})`, given, template),
        }
      : {
          where: 'generate',
          line: `await generate(await loadModel(${code(model)}${cache}), { ${template ? "messages: [{ role: 'user', content: prompt }]" : 'prompt'}, ${given} })`,
        },
    other('transformers.js', `await withPolicy(loaded, { ${called}, budget: ${code(slots)}${parts} })`),
    other(
      'node-llama-cpp',
      `await sequence.eraseContextTokenRanges(await retainTokens(sequence, { policy: policy(${code(policy)}), budget: ${code(slots)} }))`,
    ),
  ];
}
