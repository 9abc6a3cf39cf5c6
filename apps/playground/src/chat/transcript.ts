import { make } from '../element.ts';
import { bytesText } from '../words.ts';
import { memoryChart, type MemoryChart } from './memory-chart.ts';
import type { MemoryUse, Side } from './messages.ts';

/** One conversation as the page shows it, under its meter of memory. */
export interface Transcript {
  readonly root: HTMLElement;
  readonly chart: MemoryChart;
  /** Shows what decides what stays, and the most slots. */
  keepAt(rule: string, slots: number | undefined): void;
  /** Shows a message that was sent, and begins the answer to it. */
  ask(text: string): void;
  /** Shows how much of a message has been read. */
  read(read: number, of: number, held: MemoryUse): void;
  /** Shows more of the answer; the model's reasoning stands before its text. */
  write(more: { readonly text: string; readonly reasoning: string }, held: MemoryUse): void;
  hold(held: MemoryUse): void;
  /** Says how the answer ended, or that there is none. @param stopped whether there will be no further one */
  say(words: string, stopped?: boolean): void;
  clear(): void;
}

const FIGURES = ['Keys, values', 'At most', 'Slots a head', 'Tokens'] as const;
const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
/** Formats a whole number. */
export const wholeText = (count: number): string => whole.format(count);

export function transcript(side: Side, title: string): Transcript {
  const heading = make('h2', { id: `title-${side}` }, title),
    rule = make('p', { className: 'rule' }),
    values = FIGURES.map(() => make('dd', {}, '–')),
    chart = memoryChart(),
    log = make('div', { className: 'log', tabIndex: 0 }),
    state = make('p', { className: 'state' }),
    root = make(
      'section',
      { className: `talk on-${side}` },
      heading,
      rule,
      make(
        'dl',
        { className: 'figures' },
        ...FIGURES.map((name, i) => make('div', {}, make('dt', {}, name), values[i])),
      ),
      chart.root,
      log,
      state,
    );
  root.setAttribute('aria-labelledby', heading.id);
  log.setAttribute('role', 'group');
  log.setAttribute('aria-label', `${title}: messages`);
  state.setAttribute('role', 'status');
  let budget: number | undefined, answer: HTMLElement | undefined, thought: HTMLElement | undefined;

  const hold = (held: MemoryUse): void => {
    const { bytes, peak, states, other, slots, tokens } = held;
    values[0].textContent = [
      bytesText(bytes),
      ...(states > 0 ? [`${bytesText(states)} of states`] : []),
      ...(other > 0 ? [`${bytesText(other)} of the policy`] : []),
    ].join(' + ');
    values[1].textContent = bytesText(peak);
    values[2].textContent = `${wholeText(slots)}${budget === undefined ? '' : ` of ${wholeText(budget)}`}`;
    values[3].textContent = wholeText(tokens);
    chart.add(held);
    chart.describe(
      `${title}: ${bytesText(bytes)} of keys and values after ${wholeText(tokens)} tokens of conversation`,
    );
  };
  const atEnd = (): void => {
    log.scrollTop = log.scrollHeight;
  };
  return {
    root,
    chart,
    keepAt(words, slots) {
      budget = slots;
      rule.textContent = rule.title = words;
    },
    ask(text) {
      thought = undefined;
      answer = make('p', { className: 'answer' }, '…');
      log.append(make('p', { className: 'question' }, text), answer);
      state.textContent = '';
      atEnd();
    },
    read(read, of, held) {
      state.textContent = read < of ? `Reads: ${wholeText(read)} of ${wholeText(of)} tokens.` : '';
      hold(held);
    },
    write({ text, reasoning }, held) {
      if (answer) {
        if (answer.textContent === '…') answer.textContent = '';
        if (reasoning !== '' && !thought) answer.append((thought = make('span', { className: 'thought' })));
        thought?.append(reasoning);
        answer.append(text);
      }
      hold(held);
      atEnd();
    },
    hold,
    say(words, stopped = false) {
      if (answer?.textContent === '…') answer.remove();
      state.textContent = words;
      state.classList.toggle('stopped', stopped);
    },
    clear() {
      log.replaceChildren();
      state.textContent = '';
      state.classList.remove('stopped');
      for (const value of values) value.textContent = '–';
      answer = undefined;
      chart.clear();
    },
  };
}
