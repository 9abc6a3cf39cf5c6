import { parsePolicy, recommendedPolicies } from '@kv/policies';
import { LIMITS } from './choice.ts';
import { make } from './element.ts';

/** One policy, from the list of recommended ones or written. */
export interface PolicyChoice {
  readonly root: HTMLElement;
  read(): string;
  write(text: string): void;
  /** Whether it is a policy; if not, the field shows why and gets the focus. */
  check(): boolean;
}

/** Creates a list of the recommended policies, with a text field for any other. @param initial its first value */
export function policyChoice(initial: string): PolicyChoice {
  const list = make('select', { id: 'policy' }),
    text = make('input', { id: 'policy-text', spellcheck: false, autocomplete: 'off', maxLength: LIMITS.policy }),
    wrong = make('p', { className: 'wrong', id: 'wrong-policy' }),
    written = make('p', { className: 'written' }, make('label', { htmlFor: text.id }, 'Policy as text '), text);
  text.setAttribute('autocapitalize', 'off');
  text.setAttribute('aria-describedby', wrong.id);
  wrong.setAttribute('role', 'alert');
  list.append(
    ...recommendedPolicies.map(({ when, policy: value }) => make('option', { value }, `${outline(value)}: ${when}`)),
    make('option', { value: '' }, 'Another, as text …'),
  );
  const show = (): void => {
    written.hidden = list.value !== '';
  };
  const check = (): boolean => {
    const sentence = refusal(text.value);
    wrong.textContent = sentence;
    text.setAttribute('aria-invalid', String(sentence !== ''));
    return sentence === '';
  };
  const write = (value: string): void => {
    text.value = value;
    list.value = recommendedPolicies.some(({ policy }) => policy === value) ? value : '';
    show();
    check();
  };
  list.addEventListener('input', () => {
    if (list.value !== '') text.value = list.value;
    show();
    check();
    if (list.value === '') text.focus();
  });
  text.addEventListener('input', check);
  write(initial);
  return {
    root: make(
      'div',
      { className: 'policy' },
      make('p', {}, make('label', { htmlFor: list.id }, 'Policy '), list),
      written,
      wrong,
    ),
    read: () => text.value.trim(),
    write,
    check() {
      const right = check();
      if (!right) text.focus();
      return right;
    },
  };
}

/** Returns a policy's pieces without their options. */
const outline = (text: string): string => text.replaceAll(/\([^)]*\)/g, '').replace(/ \| topK$/, '');

/** Returns the error in a policy's text, or an empty text. */
function refusal(text: string): string {
  try {
    parsePolicy(text);
    return '';
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
