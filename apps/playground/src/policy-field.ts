import { parsePolicy } from '@kv/policies';
import { letterOf, LIMITS } from './choice.ts';
import { make } from './element.ts';
import { presetGroups } from './presets.ts';

export interface PolicyField {
  readonly root: HTMLElement;
  readonly input: HTMLInputElement;
  set(text: string): void;
  /** Labels the field by its position in the list. */
  place(side: number, alone: boolean): void;
  /** Whether the text is a valid policy; if not, the field shows why. */
  check(): boolean;
}

/**
 * Creates a list of presets above a text field, whose text counts. @param remove called when the field is to be removed
 */
export function policyField(remove: () => void): PolicyField {
  const list = make('select'),
    input = make('input', { spellcheck: false, autocomplete: 'off', maxLength: LIMITS.policy }),
    wrong = make('p', { className: 'wrong' }),
    label = make('label'),
    name = make('label', { className: 'unseen' }),
    away = make('button', { type: 'button', className: 'away' }, '×');
  input.setAttribute('autocapitalize', 'off');
  wrong.setAttribute('role', 'alert');
  away.addEventListener('click', remove);
  for (const { label: said, presets } of presetGroups)
    list.append(make('optgroup', { label: said }, ...presets.map(([value, text]) => make('option', { value }, text))));
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
    root: make(
      'div',
      { className: 'field' },
      make('div', { className: 'head' }, label, away),
      list,
      name,
      input,
      wrong,
    ),
    input,
    set: (text) => {
      input.value = text;
      show();
    },
    place(side, alone) {
      const letter = letterOf(side);
      label.textContent = `Policy ${letter}`;
      name.textContent = `Policy ${letter} as text`;
      list.id = label.htmlFor = `preset-${side}`;
      input.id = name.htmlFor = `policy-${side}`;
      wrong.id = `wrong-${side}`;
      input.setAttribute('aria-describedby', wrong.id);
      away.hidden = alone;
      away.title = `Remove policy ${letter}`;
      away.setAttribute('aria-label', away.title);
    },
    check,
  };
}

/** Returns the error in a policy's text, or an empty text. */
function refusal(text: string): string {
  try {
    parsePolicy(text);
    return '';
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
