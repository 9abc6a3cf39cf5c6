import { letterOf } from './choice.ts';
import { element, make } from './element.ts';
import { compare, type CachePosition } from './heat-map.ts';
import type { Frame, FromWorker, PromptSummary, Side } from './messages.ts';
import { panel, type Panel } from './panel.ts';
import { picture } from './picture.ts';

type Message<T extends FromWorker['type']> = Extract<FromWorker, { type: T }>;

export interface Player {
  start(message: Message<'prompt'>, policies: readonly string[]): void;
  frame(message: Message<'frame'>): void;
  end(message: Message<'end'>): void;
  fail(side: Side, message: string): void;
  why(message: Message<'why'>): void;
  /** Call once every side has ended. */
  done(): void;
  /** The frames shown now, as SVG; undefined before there are any. */
  picture(): string | undefined;
}

/**
 * Creates a player that shows the frames of all sides as they arrive and replays any of them. @param ask called with
 * the position to explain
 */
export function player(ask: (side: Side, position: number) => void): Player {
  const result = element('result', HTMLElement),
    slider = element('step', HTMLInputElement),
    value = element('step-value', HTMLOutputElement),
    overlap = element('overlap', HTMLDivElement);
  const point = (place: CachePosition): void => {
    for (const side of sides) side.point(place);
  };
  const askAll = (position: number): void => {
    for (const [side, each] of sides.entries()) {
      each.why(position);
      ask(side, position);
    }
  };
  const sides: Panel[] = [];
  let frames: readonly Frame[][] = [],
    shownPolicies: readonly string[] = [],
    about: { readonly prompt: PromptSummary; readonly kvHeads: number } | undefined,
    following = true;

  const shown = (step = Number(slider.value)): readonly (Frame | undefined)[] =>
    frames.map((all) => all[Math.min(step, all.length) - 1]);
  const show = (step: number, only?: Side): void => {
    const at = shown(step);
    for (const [side, frame] of at.entries())
      if (frame && (only === undefined || only === side))
        sides[side].show(
          frame,
          frames[side].slice(0, step).map(({ token }) => token),
        );
    value.value = `${step} of ${slider.max}`;
    if (sides.length === 2 || only === undefined) overlap.replaceChildren(...overlapOf(at));
  };
  slider.addEventListener('input', () => {
    following = slider.value === slider.max;
    show(Number(slider.value));
  });
  return {
    start({ prompt, layers, kvHeads }, policies) {
      [frames, following] = [policies.map(() => []), true];
      [shownPolicies, about] = [policies, { prompt, kvHeads }];
      [slider.max, slider.value, value.value] = ['1', '1', ''];
      overlap.replaceChildren();
      result.hidden = false;
      element('prompt-line', HTMLParagraphElement).textContent =
        `${prompt.offsets.length} tokens${prompt.value === undefined ? '' : `; the fact to be found is ${prompt.value}`}${prompt.questionFrom === undefined ? '' : `; the last ${prompt.offsets.length - prompt.questionFrom} come after the eviction`}.`;
      while (sides.length > policies.length) sides.pop()?.root.remove();
      while (sides.length < policies.length) {
        const made = panel(sides.length, point, askAll);
        sides.push(made);
        element('panels', HTMLDivElement).append(made.root);
      }
      for (const [i, side] of sides.entries()) side.start(policies[i], prompt, layers, kvHeads);
    },
    frame({ side, frame }) {
      frames[side].push(frame);
      slider.max = String(Math.max(...frames.map(({ length }) => length)));
      if (following) slider.value = slider.max;
      show(Number(slider.value), side);
    },
    end({ side, end }) {
      sides[side].end(end);
    },
    fail(side, message) {
      sides[side].fail(message);
    },
    why({ side, position, fates, failed }) {
      sides[side]?.why(position, fates, failed);
    },
    done() {
      if (about) overlap.replaceChildren(...overlapOf(shown()));
    },
    picture() {
      const drawn = shown().flatMap((frame, side) =>
        frame ? [{ title: `${letterOf(side)}: ${shownPolicies[side]}`, frame }] : [],
      );
      return about && drawn.length > 0 ? picture(drawn, about.prompt, about.kvHeads) : undefined;
    },
  };
}

/** Describes the overlap of caches: a sentence for two, a table for more. */
function overlapOf(frames: readonly (Frame | undefined)[]): readonly HTMLElement[] {
  const share = (a: Frame, b: Frame): string => {
    const { both, onlyA, onlyB } = compare(a, b);
    return `${((100 * both) / (both + onlyA + onlyB)).toFixed(0)} %`;
  };
  const [a, b] = frames;
  if (frames.length === 2) {
    if (!a || !b) return [];
    const { both, onlyA, onlyB } = compare(a, b);
    return [make('p', {}, `In both caches: ${both} slots (${share(a, b)}); only A: ${onlyA}; only B: ${onlyB}.`)];
  }
  const row = (one: Frame | undefined, i: number): HTMLElement =>
    make(
      'tr',
      {},
      make('th', { scope: 'row' }, letterOf(i)),
      ...frames.map((other, j) => make('td', {}, j >= i || !one || !other ? '' : share(one, other))),
    );
  return [
    make(
      'table',
      {},
      make('caption', {}, 'Slots in both caches, of those in either'),
      make('thead', {}, make('tr', {}, make('td'), ...frames.map((_, i) => make('th', { scope: 'col' }, letterOf(i))))),
      make('tbody', {}, ...frames.map(row)),
    ),
  ];
}
