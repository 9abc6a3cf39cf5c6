import type { Fate } from '@kv/engine';
import { letterOf } from './choice.ts';
import { make } from './element.ts';
import type { Side } from './messages.ts';
import { leftText, tokenText, whyText } from './words.ts';

/** The token that a user asks about. */
interface Question {
  readonly side: Side;
  readonly position: number;
  /** Layer and KV head, as an index of rows. */
  readonly row: number;
  /** What was clicked, in the window. */
  readonly box: DOMRect;
}

/** A box near what was clicked that tells why each side dropped or kept one token. */
export interface ReasonsBox {
  /** @param home the clicked side, which the box follows in the order of Tab @param tokens the token's text, by side */
  open(question: Question, home: HTMLElement, tokens: readonly (string | undefined)[]): void;
  /** Shows a side's reasons, unless another token was asked about since. */
  tell(side: Side, position: number, fates: readonly Fate[], failed?: string): void;
  close(): void;
}

const GAP = 8;

export function reasonsBox(): ReasonsBox {
  const root = make('div', { className: 'why', popover: 'auto' }),
    all: HTMLElement[] = [];
  let asked: Question | undefined,
    /** How far the page was scrolled then, since the box scrolls with what was clicked. */
    scrolled: readonly [x: number, y: number] = [0, 0];
  root.setAttribute('aria-live', 'polite');
  root.setAttribute('role', 'group');
  root.setAttribute('aria-label', 'Why the token left or stayed');
  /** Below what was clicked, or above it where the window ends. */
  const place = (): void => {
    if (!asked || !root.matches(':popover-open')) return;
    const { clientWidth, clientHeight } = document.documentElement,
      { offsetWidth: width, offsetHeight: height } = root,
      { left, top, bottom, width: wide } = asked.box;
    const x = Math.max(GAP, Math.min(left + wide / 2 - width / 2, clientWidth - width - GAP)),
      y = bottom + GAP + height <= clientHeight ? bottom + GAP : Math.max(GAP, top - GAP - height);
    root.style.left = `${x + scrolled[0]}px`;
    root.style.top = `${y + scrolled[1]}px`;
  };
  new ResizeObserver(place).observe(root);
  root.addEventListener('toggle', () => {
    if (!root.matches(':popover-open')) asked = undefined;
  });

  const fill = (side: Side, { side: clicked, row }: Question, fates?: readonly Fate[], failed?: string): void => {
    const own = side === clicked ? fates?.[row] : undefined;
    all[side].replaceChildren(
      make('p', {}, make('strong', {}, `${letterOf(side)}: `), leftText(fates, failed)),
      ...(own ? [make('p', {}, whyText(own))] : []),
      ...(fates && fates.length > 0
        ? [
            make(
              'details',
              {},
              make('summary', {}, `All ${fates.length} layers and KV heads`),
              make('ul', { tabIndex: 0 }, ...fates.map((fate) => make('li', {}, whyText(fate)))),
            ),
          ]
        : []),
    );
  };
  return {
    open(question, home, tokens) {
      root.hidePopover();
      [asked, scrolled] = [question, [scrollX, scrollY]];
      const { side, position } = question;
      all.splice(0, all.length, ...tokens.map(() => make('section')));
      for (const each of all.keys()) fill(each, question);
      root.replaceChildren(
        make('h4', {}, `Token ${position} ${tokenText(tokens[side] ?? '')}`),
        all[side],
        ...all.filter((_, other) => other !== side),
      );
      home.append(root);
      root.showPopover();
      place();
    },
    tell(side, position, fates, failed) {
      if (asked?.position !== position) return;
      fill(side, asked, fates, failed);
      place();
    },
    close: () => root.hidePopover(),
  };
}
