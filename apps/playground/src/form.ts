import { readBudget, whole } from './address.ts';
import { DEFAULT, DEVICES, FORMS, LENGTHS, LIMITS, type Choice, type Example } from './choice.ts';
import { element, make } from './element.ts';
import { policyField } from './policy-field.ts';

export interface ChoiceForm {
  read(): Choice;
  write(choice: Choice): void;
  /** Whether it can be run; if not, fields say why, and the first of them has the focus. */
  check(): boolean;
  /** Turns to the next example. */
  another(): void;
  /** Takes a text over into the field for own ones, unless a person wrote there. */
  suggest(text: string): void;
}

/** What of inputs, lists and groups of radio buttons is used here. */
interface Field {
  value: string;
  checked: boolean;
  append(...options: readonly Node[]): void;
  setAttribute(name: string, value: string): void;
  focus(): void;
}

/** The form as a choice and back. */
export function choiceForm(): ChoiceForm {
  const form = element('choice', HTMLFormElement),
    wrong = element('wrong-budget', HTMLParagraphElement),
    own = element('text', HTMLTextAreaElement);
  const field = (name: string): Field => form.elements.namedItem(name) as unknown as Field;
  const policies = [policyField(0), policyField(1)] as const;
  let suggested = '';
  field('tokens').append(...LENGTHS.map((length) => make('option', { value: String(length) }, String(length))));

  const show = (): void => {
    const isOwn = field('source').value === 'text';
    element('example', HTMLDivElement).hidden = isOwn;
    element('own', HTMLDivElement).hidden = !isOwn;
    element('another', HTMLButtonElement).hidden = isOwn;
    element('depth-value', HTMLOutputElement).value = `${field('depth').value} %`;
  };
  const checkBudget = (): boolean => {
    const right = readBudget(field('budget').value) !== undefined;
    wrong.textContent = right
      ? ''
      : `budget: expected a share above 0% and up to 100%, or slots from 1 to ${LIMITS.slots}, got '${field('budget').value}'`;
    field('budget').setAttribute('aria-invalid', String(!right));
    return right;
  };
  const example = (): Example => {
    const { form, tokens, depth, seed } = DEFAULT.source as Example;
    return {
      kind: 'needle',
      form: FORMS.find((name) => name === field('form').value) ?? form,
      tokens: LENGTHS.find((length) => String(length) === field('tokens').value) ?? tokens,
      depth: whole(field('depth').value, 0, 100) ?? depth,
      seed: whole(field('seed').value, 0, LIMITS.seed) ?? seed,
    };
  };
  form.addEventListener('input', () => {
    show();
    checkBudget();
  });

  return {
    read: () => ({
      source: field('source').value === 'text' ? { kind: 'text', text: own.value } : example(),
      late: field('late').checked,
      policies: [policies[0].get(), policies[1].get()],
      budget: readBudget(field('budget').value) ?? DEFAULT.budget,
      newTokens: whole(field('newTokens').value, 1, LIMITS.newTokens) ?? DEFAULT.newTokens,
      device: DEVICES.find((device) => device === field('device').value) ?? DEFAULT.device,
    }),
    write({ source, late, policies: texts, budget, newTokens, device }) {
      const { form, tokens, depth, seed } = source.kind === 'needle' ? source : (DEFAULT.source as Example);
      for (const [name, value] of Object.entries({
        source: source.kind,
        form,
        tokens,
        depth,
        seed,
        budget,
        newTokens,
        device,
      }))
        field(name).value = String(value);
      if (source.kind === 'text') own.value = source.text;
      field('late').checked = late;
      for (const [side, text] of texts.entries()) policies[side].set(text);
      show();
      checkBudget();
    },
    check() {
      const fields = [
        ...policies.map(({ check }, side) => [check(), `policy-${side}`] as const),
        [checkBudget(), 'budget'] as const,
      ];
      const first = fields.find(([right]) => !right);
      if (first) field(first[1]).focus();
      return first === undefined && form.reportValidity();
    },
    another() {
      field('seed').value = String(((whole(field('seed').value, 0, LIMITS.seed) ?? 0) + 1) % (LIMITS.seed + 1));
    },
    suggest(text) {
      if (own.value === suggested) own.value = suggested = text;
    },
  };
}
