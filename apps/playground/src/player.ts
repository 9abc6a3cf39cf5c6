import { letterOf, type RunChoice } from './choice.ts';
import { element, make } from './element.ts';
import { mapRows, type CachePosition, type MapRow } from './heat-map.ts';
import type { Frame, FromWorker, PromptSummary, Side } from './messages.ts';
import { numbersTable } from './numbers-table.ts';
import { panel, type Panel } from './panel.ts';
import { picture } from './picture.ts';
import { reasonsBox } from './reasons-box.ts';
import { leadText } from './words.ts';

type Message<T extends FromWorker['type']> = Extract<FromWorker, { type: T }>;

export interface Player {
  start(message: Message<'prompt'>, choice: RunChoice): void;
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
    table = numbersTable(element('numbers', HTMLDivElement)),
    why = reasonsBox();
  const point = (place: CachePosition | undefined): void => {
    for (const side of sides) side.point(place);
  };
  /** Asks about a token: first the clicked side, then the others. */
  const askAll = (side: Side, { position, row }: CachePosition, box: DOMRect): void => {
    why.open(
      { side, position, row, box },
      sides[side].root,
      sides.map(({ tokenAt }) => tokenAt(position)),
    );
    ask(side, position);
    for (const other of sides.keys()) if (other !== side) ask(other, position);
  };
  const sides: Panel[] = [];
  let frames: readonly Frame[][] = [],
    policies: readonly string[] = [],
    /** Sides whose last frame ends their answer. */
    answered = new Set<Side>(),
    about: { readonly prompt: PromptSummary; readonly rows: readonly MapRow[] } | undefined,
    following = true;

  const shown = (step = Number(slider.value)): readonly (Frame | undefined)[] =>
    frames.map((all) => all[Math.min(step, all.length) - 1]);
  const show = (step: number, only?: Side): void => {
    const at = shown(step);
    for (const [side, frame] of at.entries())
      if (frame && (only === undefined || only === side)) {
        sides[side].show(
          frame,
          frames[side].slice(0, step).map(({ token }) => token),
          answered.has(side) && step >= frames[side].length,
        );
        table.show(side, frame);
      }
    value.value = `${step} of ${slider.max}`;
    if (sides.length === 2 || only === undefined) table.compare(at);
  };
  slider.addEventListener('input', () => {
    following = slider.value === slider.max;
    show(Number(slider.value));
  });
  return {
    start({ prompt, heads }, choice) {
      why.close();
      ({ policies } = choice);
      [frames, answered, following] = [policies.map(() => []), new Set(), true];
      const rows = mapRows(heads);
      about = { prompt, rows };
      [slider.max, slider.value, value.value] = ['1', '1', ''];
      table.start(policies.length);
      result.hidden = false;
      const [before, after] = leadText(prompt, choice.budget);
      element('lead', HTMLParagraphElement).replaceChildren(
        before,
        make('strong', { className: 'fact' }, prompt.value ?? ''),
        after,
      );
      while (sides.length > policies.length) sides.pop()?.root.remove();
      while (sides.length < policies.length) {
        const side = sides.length,
          made = panel(side, point, (place, box) => askAll(side, place, box));
        sides.push(made);
        element('panels', HTMLDivElement).append(made.root);
      }
      for (const [i, side] of sides.entries()) side.start(policies[i], prompt, rows);
    },
    frame({ side, frame }) {
      frames[side].push(frame);
      slider.max = String(Math.max(...frames.map(({ length }) => length)));
      if (following) slider.value = slider.max;
      show(Number(slider.value), side);
    },
    end({ side, end }) {
      sides[side].end(end);
      if (end.finish !== 'aborted') answered.add(side);
      show(Number(slider.value), side);
      table.end(side, end.finish);
    },
    fail(side, message) {
      sides[side].fail(message);
    },
    why({ side, position, fates, failed }) {
      why.tell(side, position, fates, failed);
    },
    done() {
      if (about) table.compare(shown());
    },
    picture() {
      const drawn = shown().flatMap((frame, side) =>
        frame ? [{ title: `${letterOf(side)}: ${policies[side]}`, frame }] : [],
      );
      return about && drawn.length > 0 ? picture(drawn, about.prompt, about.rows) : undefined;
    },
  };
}
