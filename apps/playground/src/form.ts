import { readBudget, whole } from './address.ts';
import {
  CACHES,
  DEFAULT,
  DEVICES,
  FORMS,
  LENGTHS,
  LIMITS,
  MODELS,
  type RunChoice,
  type NeedlePrompt,
  type ModelChoice,
} from './choice.ts';
import { element, make } from './element.ts';
import { policyField, type PolicyField } from './policy-field.ts';
import { firstPresets } from './presets.ts';

export interface ChoiceForm {
  read(): RunChoice;
  /** The files of a model that the user chose. */
  files(): readonly File[];
  write(choice: RunChoice): void;
  /** Whether the choice can be run; if not, fields show why, and the first of them gets the focus. */
  check(): boolean;
  /** Turns to the next example, also from the user's own text. */
  another(): void;
  /** Puts a text into the user's own text field unless the user has written there. */
  suggest(text: string): void;
}

/** The used members of inputs, lists and groups of radio buttons. */
interface Field {
  value: string;
  checked: boolean;
  append(...options: readonly Node[]): void;
  setAttribute(name: string, value: string): void;
}

/** Creates the form, which converts to a choice and back. */
export function choiceForm(): ChoiceForm {
  const form = element('choice', HTMLFormElement),
    wrong = element('wrong-budget', HTMLParagraphElement),
    own = element('text', HTMLTextAreaElement);
  const field = (name: string): Field => form.elements.namedItem(name) as unknown as Field;
  const policies: PolicyField[] = [],
    add = element('add', HTMLButtonElement),
    more = element('more', HTMLDetailsElement),
    files = element('file', HTMLInputElement);
  let suggested = '',
    /** The file that the link names, until the user chooses another. */
    named = '',
    /** Whether the prompt is the user's own text. */
    isOwn = false;
  const place = (): void => {
    for (const [side, each] of policies.entries()) each.place(side, policies.length <= 2);
    add.disabled = policies.length >= LIMITS.policies;
  };
  const remove = (field: PolicyField | undefined): void => {
    field?.list.remove();
    field?.text.remove();
  };
  /** Moves the focus to a field, which may lie under "More". */
  const reveal = (target: HTMLElement): void => {
    if (more.contains(target)) more.open = true;
    target.focus();
  };
  const setPolicies = (texts: readonly string[]): void => {
    while (policies.length > texts.length) remove(policies.pop());
    for (const [side, text] of texts.entries()) {
      const each = policies[side] ?? policyField(() => drop(each), reveal);
      if (!policies[side]) {
        policies.push(each);
        element('policies', HTMLDivElement).append(each.list);
        element('texts', HTMLDivElement).append(each.text);
      }
      each.set(text);
    }
    place();
  };
  const changed = (): void => void form.dispatchEvent(new Event('input', { bubbles: true }));
  const drop = (gone: PolicyField): void => {
    setPolicies(policies.filter((each) => each !== gone).map(({ input }) => input.value));
    policies[0].input.focus();
    changed();
  };
  add.addEventListener('click', () => {
    const there = policies.map(({ input }) => input.value);
    setPolicies([...there, firstPresets.find(([text]) => !there.includes(text))?.[0] ?? 'random']);
    policies.at(-1)?.input.focus();
    changed();
  });
  const readModel = (): ModelChoice => {
    const kind = MODELS.find((each) => each === field('model').value) ?? 'embedded';
    if (kind === 'embedded') return DEFAULT.model;
    return { kind, name: kind === 'hub' ? field('hub').value.trim() : (files.files?.[0]?.name ?? named) };
  };
  field('tokens').append(...LENGTHS.map((length) => make('option', { value: String(length) }, String(length))));

  const show = (): void => {
    element('example', HTMLDivElement).hidden = isOwn;
    element('own', HTMLDivElement).hidden = !isOwn;
    const { kind } = readModel();
    element('model-file', HTMLDivElement).hidden = kind !== 'file';
    element('model-hub', HTMLDivElement).hidden = kind !== 'hub';
    element('trained', HTMLParagraphElement).hidden = kind !== 'embedded';
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
  const example = (): NeedlePrompt => {
    const { form, tokens, depth, seed } = DEFAULT.source as NeedlePrompt;
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
  element('write', HTMLButtonElement).addEventListener('click', () => {
    isOwn = true;
    changed();
    own.select();
  });

  const checkModel = (): boolean => {
    const { kind, name } = readModel(),
      chosen = files.files?.length ?? 0,
      says =
        kind === 'hub' && name === ''
          ? 'model: expected the name of a repository, such as org/name, got none'
          : kind === 'file' && chosen === 0
            ? `model: expected a file${name === '' ? '' : ` (${name} again, since a link cannot hold it)`}, got none`
            : '';
    element('wrong-model', HTMLParagraphElement).textContent = says;
    return says === '';
  };

  return {
    files: () => [...(files.files ?? [])],
    read: () => ({
      model: readModel(),
      source: isOwn ? { kind: 'text', text: own.value } : example(),
      late: field('late').checked,
      policies: policies.map(({ input }) => input.value.trim()),
      budget: readBudget(field('budget').value) ?? DEFAULT.budget,
      maxNewTokens: whole(field('maxNewTokens').value, 1, LIMITS.maxNewTokens) ?? DEFAULT.maxNewTokens,
      device: DEVICES.find((device) => device === field('device').value) ?? DEFAULT.device,
      cache: CACHES.find((cache) => cache === field('cache').value) ?? DEFAULT.cache,
    }),
    write({ model, source, late, policies: texts, budget, maxNewTokens, device, cache }) {
      const { form, tokens, depth, seed } = source.kind === 'needle' ? source : (DEFAULT.source as NeedlePrompt);
      for (const [name, value] of Object.entries({
        model: model.kind,
        hub: model.kind === 'hub' ? model.name : '',
        form,
        tokens,
        depth,
        seed,
        budget,
        maxNewTokens,
        device,
        cache,
      }))
        field(name).value = String(value);
      isOwn = source.kind === 'text';
      if (source.kind === 'text') own.value = source.text;
      field('late').checked = late;
      named = model.kind === 'file' ? model.name : '';
      setPolicies(texts);
      show();
      checkBudget();
    },
    check() {
      const fields = [
        ...policies.map(({ check }, side) => [check(), `policy-${side}`] as const),
        [checkBudget(), 'budget'] as const,
        [checkModel(), field('model').value] as const,
      ];
      const first = fields.find(([right]) => !right);
      if (first) reveal(form.elements.namedItem(first[1]) as HTMLElement);
      return first === undefined && form.reportValidity();
    },
    another() {
      isOwn = false;
      show();
      field('seed').value = String(((whole(field('seed').value, 0, LIMITS.seed) ?? 0) + 1) % (LIMITS.seed + 1));
    },
    suggest(text) {
      if (own.value === suggested) own.value = suggested = text;
    },
  };
}
