import { element } from './element.ts';
import { compare, type Place } from './heat-map.ts';
import type { Frame, FromWorker, Side } from './messages.ts';
import { panel } from './panel.ts';

type Message<T extends FromWorker['type']> = Extract<FromWorker, { type: T }>;

export interface Player {
  start(message: Message<'prompt'>, policies: readonly [string, string]): void;
  frame(message: Message<'frame'>): void;
  end(message: Message<'end'>): void;
  fail(side: Side, message: string): void;
}

/** Both sides' frames as they come, and any of them again. */
export function player(): Player {
  const result = element('result', HTMLElement),
    slider = element('step', HTMLInputElement),
    value = element('step-value', HTMLOutputElement),
    overlap = element('overlap', HTMLParagraphElement);
  const point = (place: Place): void => {
    for (const side of sides) side.point(place);
  };
  const sides = [panel(0, point), panel(1, point)] as const;
  element('panels', HTMLDivElement).append(...sides.map(({ root }) => root));
  let frames: readonly [Frame[], Frame[]] = [[], []],
    following = true;

  const show = (step: number, only?: Side): void => {
    const at = frames.map((all) => all[Math.min(step, all.length) - 1]);
    for (const [side, frame] of at.entries())
      if (frame && (only === undefined || only === side))
        sides[side].show(
          frame,
          frames[side].slice(0, step).map(({ token }) => token),
        );
    value.value = `${step} of ${slider.max}`;
    const [a, b] = at;
    if (!a || !b) return;
    const { both, onlyA, onlyB } = compare(a, b),
      share = (100 * both) / (both + onlyA + onlyB);
    overlap.textContent = `In both caches: ${both} slots (${share.toFixed(0)} %); only left: ${onlyA}; only right: ${onlyB}.`;
  };
  slider.addEventListener('input', () => {
    following = slider.value === slider.max;
    show(Number(slider.value));
  });
  return {
    start({ prompt, layers, kvHeads }, policies) {
      [frames, following] = [[[], []], true];
      [slider.max, slider.value, value.value, overlap.textContent] = ['1', '1', '', ''];
      result.hidden = false;
      element('prompt-line', HTMLParagraphElement).textContent =
        `${prompt.offsets.length} tokens${prompt.value === undefined ? '' : `; the fact to be found is ${prompt.value}`}${prompt.questionFrom === undefined ? '' : `; the last ${prompt.offsets.length - prompt.questionFrom} come after the eviction`}.`;
      for (const [i, side] of sides.entries()) side.start(policies[i], prompt, layers, kvHeads);
    },
    frame({ side, frame }) {
      frames[side].push(frame);
      slider.max = String(Math.max(frames[0].length, frames[1].length));
      if (following) slider.value = slider.max;
      show(Number(slider.value), following ? side : undefined);
    },
    end({ side, end }) {
      sides[side].end(end);
    },
    fail(side, message) {
      sides[side].fail(message);
    },
  };
}
