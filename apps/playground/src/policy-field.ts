import { parsePolicy } from '@kv/policies';
import { letterOf, LIMITS } from './choice.ts';
import { make } from './element.ts';
import { presetGroups } from './presets.ts';

export interface PolicyField {
  /** The list of presets. */
  readonly list: HTMLElement;
  /** The policy as text, which counts. */
  readonly text: HTMLElement;
  readonly input: HTMLInputElement;
  set(text: string): void;
  /** Labels the field by its position in the list. */
  place(side: number, alone: boolean): void;
  /** Whether the text is a valid policy; if not, the field shows why. */
  check(): boolean;
}

/**
 * Creates a list of presets, and a text field for any policy. @param remove called when the field is to be removed
 * @param write called when the user wants to write a policy as text
 */
export function policyField(remove: () => void, write: (input: HTMLInputElement) => void): PolicyField {
  const select = make('select'),
    written = make('option'),
    input = make('input', { spellcheck: false, autocomplete: 'off', maxLength: LIMITS.policy }),
    wrong = make('p', { className: 'wrong' }),
    letter = make('span'),
    label = make('label', {}, make('span', { className: 'unseen' }, 'Policy '), letter),
    name = make('label'),
    away = make('button', { type: 'button', className: 'away' }, '×');
  input.setAttribute('autocapitalize', 'off');
  wrong.setAttribute('role', 'alert');
  away.addEventListener('click', remove);
  for (const { label: heading, presets } of presetGroups)
    select.append(
      make('optgroup', { label: heading }, ...presets.map(([value, text]) => make('option', { value }, text))),
    );
  select.append(make('option', { value: '' }, 'Write one …'));
  const check = (): boolean => {
    const sentence = refusal(input.value);
    wrong.textContent = sentence;
    input.setAttribute('aria-invalid', String(sentence !== ''));
    return sentence === '';
  };
  const show = (): void => {
    written.remove();
    select.value = input.value;
    if (select.value === '') {
      written.value = written.textContent = input.value;
      select.prepend(written);
      select.selectedIndex = 0;
    }
    check();
  };
  select.addEventListener('input', () => {
    if (select.value === '') write(input);
    else input.value = select.value;
    show();
  });
  input.addEventListener('input', show);
  return {
    list: make('div', { className: 'pick' }, label, select),
    text: make('div', { className: 'field' }, make('div', { className: 'head' }, name, away), input, wrong),
    input,
    set: (text) => {
      input.value = text;
      show();
    },
    place(side, alone) {
      letter.textContent = letterOf(side);
      name.textContent = `Policy ${letterOf(side)} as text`;
      select.id = label.htmlFor = `preset-${side}`;
      input.id = name.htmlFor = `policy-${side}`;
      wrong.id = `wrong-${side}`;
      input.setAttribute('aria-describedby', wrong.id);
      away.hidden = alone;
      away.title = `Remove policy ${letterOf(side)}`;
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
