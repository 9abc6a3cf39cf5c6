import { parsePolicy } from '@kv/policies';
import { element, make } from './element.ts';
import { presetGroups } from './presets.ts';

export interface PolicyField {
  get(): string;
  set(text: string): void;
  /** Whether the text is a policy; if not, the field says why. */
  check(): boolean;
}

/** A list to pick from, over a field whose text counts. */
export function policyField(side: 0 | 1): PolicyField {
  const list = element(`preset-${side}`, HTMLSelectElement),
    input = element(`policy-${side}`, HTMLInputElement),
    wrong = element(`wrong-${side}`, HTMLParagraphElement);
  for (const { label, presets } of presetGroups)
    list.append(make('optgroup', { label }, ...presets.map(([value, text]) => make('option', { value }, text))));
  list.append(make('option', { value: '' }, 'as written below'));
  const check = (): boolean => {
    const sentence = refusal(input.value);
    wrong.textContent = sentence;
    input.setAttribute('aria-invalid', String(sentence !== ''));
    return sentence === '';
  };
  const show = (): void => {
    list.value = input.value;
    if (list.selectedIndex < 0) list.value = '';
    check();
  };
  list.addEventListener('input', () => {
    if (list.value === '') input.focus();
    else input.value = list.value;
    check();
  });
  input.addEventListener('input', show);
  return {
    get: () => input.value.trim(),
    set: (text) => {
      input.value = text;
      show();
    },
    check,
  };
}

/** What is wrong with the text of a policy, or nothing. */
function refusal(text: string): string {
  try {
    parsePolicy(text);
    return '';
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
