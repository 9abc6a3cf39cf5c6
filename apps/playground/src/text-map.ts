import { make } from './element.ts';
import { countsOf } from './heat-map.ts';
import type { Frame, PromptSummary } from './messages.ts';

/**
 * Creates a view of the text, each token shaded by the number of rows that hold it. It scrolls to the fact, or without
 * one to the end.
 */
export function textMap(
  root: HTMLElement,
  point: (position: number) => void,
  ask: (position: number, box: DOMRect) => void,
): {
  start(prompt: PromptSummary, rows: number): void;
  show(frame: Frame, tokens: readonly string[]): void;
  mark(position: number | undefined): void;
} {
  let spans: HTMLElement[] = [],
    rows = 1,
    prompted = 0,
    marked: HTMLElement | undefined,
    following = true;
  // follows the end; after the user scrolls away, stop following until the end is in view again
  root.addEventListener('scroll', () => {
    following = root.scrollTop + root.clientHeight >= root.scrollHeight - 8;
  });
  const add = (text: string, kind: string): void => {
    const span = make(
      'span',
      { className: kind },
      ...text.split('\n').flatMap((line, i) => (i === 0 ? [line] : [make('br'), line])),
    );
    span.dataset.position = String(spans.length);
    spans.push(span);
    root.append(span);
  };
  for (const [event, told] of [
    ['pointerover', point],
    ['click', ask],
  ] as const)
    root.addEventListener(event, ({ target, clientY }) => {
      if (!(target instanceof HTMLElement) || target.dataset.position === undefined) return;
      // of a word that a line break divides, the part under the pointer
      const box = [...target.getClientRects()].findLast(({ top }) => top <= clientY);
      told(Number(target.dataset.position), box ?? target.getBoundingClientRect());
    });
  return {
    start({ text, offsets, valueTokens, questionFrom = Infinity }, count) {
      [spans, rows, prompted, marked, following] = [[], count, offsets.length, undefined, valueTokens.length === 0];
      root.replaceChildren();
      const value = new Set(valueTokens);
      let from = 0; // tokens may share a character: the first of them shows it
      for (const [position, [start, end]] of offsets.entries()) {
        add(
          text.slice(Math.max(start, from), end),
          value.has(position) ? 'value' : position >= questionFrom ? 'asked' : '',
        );
        from = Math.max(from, end);
      }
      const fact = spans[valueTokens[0]]?.getBoundingClientRect();
      if (fact) {
        const { top, height } = root.getBoundingClientRect();
        root.scrollTop += fact.top + fact.height / 2 - top - height / 2;
      }
    },
    /** @param tokens texts of the answer's tokens so far; the last of them is not in the cache yet */
    show(frame, tokens) {
      for (const span of spans.splice(prompted + tokens.length)) span.remove();
      for (const token of tokens.slice(spans.length - prompted)) add(token, 'new');
      if (following) root.scrollTop = root.scrollHeight;
      const counts = countsOf(frame);
      for (const [position, span] of spans.entries()) {
        const count = counts[position],
          share = count === undefined ? '' : (count / rows).toFixed(3);
        if (span.dataset.share === share) continue;
        span.dataset.share = share;
        span.style.setProperty('--k', share || '0');
        span.classList.toggle('gone', count === 0);
        span.classList.toggle('waiting', count === undefined);
      }
    },
    mark(position) {
      marked?.classList.remove('here');
      marked = position === undefined ? undefined : spans[position];
      marked?.classList.add('here');
    },
  };
}
