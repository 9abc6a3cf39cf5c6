import { exactMatch } from '@kv/tasks';
import { letterOf } from './choice.ts';
import { make } from './element.ts';
import { heatCanvas } from './heat-canvas.ts';
import type { CachePosition, MapRow } from './heat-map.ts';
import type { End, Frame, PromptSummary, Side } from './messages.ts';
import { textMap } from './text-map.ts';
import { placeText } from './words.ts';

/** One policy's side of the page. */
export interface Panel {
  readonly root: HTMLElement;
  start(policy: string, prompt: PromptSummary, rows: readonly MapRow[]): void;
  /** Shows a frame. @param tokens texts of the answer's tokens up to it @param final whether the answer ends with it */
  show(frame: Frame, tokens: readonly string[], final: boolean): void;
  end(end: End): void;
  fail(message: string): void;
  point(place: CachePosition | undefined): void;
  /** Text of a token of the prompt or the answer. */
  tokenAt(position: number): string | undefined;
}

/** Returns what the map shows, to be said under it. */
function captionOf({ value, questionFrom }: PromptSummary): readonly HTMLElement[] {
  const marks = [
    ['kept', 'kept'],
    ['dropped', 'dropped'],
    ...(value === undefined ? [] : [['value', 'the fact']]),
    ...(questionFrom === undefined ? [] : [['asked', 'the question']]),
    ['new', 'the answer'],
  ];
  return [
    make(
      'span',
      {},
      'A strip is a stretch of the text: a column is a token, a row a KV head of a layer that keeps slots.',
    ),
    make(
      'span',
      {},
      ...marks.flatMap(([kind, name]) => [make('span', { className: `swatch ${kind}` }), ` ${name} `]),
      make('span', { className: 'invitation' }, '– click for the reason'),
    ),
  ];
}

/**
 * Creates a panel. @param point called with the cell under the pointer, for all sides @param ask called with the cell
 * that the user wants explained, and where it is in the window
 */
export function panel(
  side: Side,
  point: (place: CachePosition | undefined) => void,
  ask: (place: CachePosition, box: DOMRect) => void,
): Panel {
  const composition = make('span', { className: 'composition' }),
    title = make('h3', { id: `title-${side}` }, make('b', {}, letterOf(side)), ' ', composition),
    answer = make('p', { className: 'answer' }),
    notes = make('p', { className: 'notes' }),
    caption = make('p', { className: 'caption' }),
    readout = make('p', { className: 'readout', id: `readout-${side}` });
  const canvas = make('canvas', { tabIndex: 0 }),
    text = make('div', { className: 'text', tabIndex: 0 });
  for (const [name, value] of Object.entries({
    role: 'slider',
    'aria-label': 'Map of the cache',
    'aria-valuemin': '0',
    'aria-valuenow': '0',
    'aria-describedby': `title-${side}`,
  }))
    canvas.setAttribute(name, value);
  text.setAttribute('role', 'group');
  text.setAttribute('aria-label', 'The text, shaded by how many rows hold each token');
  const root = make(
    'article',
    { className: 'side' },
    title,
    answer,
    make('div', { className: 'map' }, canvas),
    make('div', { className: 'reading' }, caption, readout),
    text,
    notes,
  );
  root.setAttribute('aria-labelledby', title.id);
  let run: { prompt: PromptSummary; rows: readonly MapRow[] } | undefined,
    shown: Frame | undefined,
    written: readonly string[] = [],
    place: CachePosition | undefined;
  const map = heatCanvas(canvas, point, ask),
    words = textMap(
      text,
      (position) => point({ position, row: place?.row ?? 0 }),
      (position, box) => ask({ position, row: place?.row ?? 0 }, box),
    );
  for (const each of [canvas, text] as readonly HTMLElement[])
    each.addEventListener('pointerleave', ({ pointerType }) => {
      if (pointerType === 'mouse') point(undefined); // a finger leaves with every touch
    });
  const tokenAt = (position: number): string | undefined => {
    if (!run) return undefined;
    const { text: prompt, offsets } = run.prompt,
      span = offsets[position];
    return span ? prompt.slice(...span) : written[position - offsets.length];
  };
  const draw = (): void => {
    if (!run || !shown) return;
    map.draw({ frame: shown, ...run, place });
    const token = place && tokenAt(place.position),
      pointed = place && token !== undefined ? placeText(shown, place, token, run.rows[place.row]) : '';
    readout.textContent = pointed;
    canvas.setAttribute('aria-valuemax', String(shown.length - 1));
    canvas.setAttribute('aria-valuenow', String(Math.min(place?.position ?? 0, shown.length - 1)));
    canvas.setAttribute('aria-valuetext', pointed || 'no token');
    words.mark(place?.position);
  };
  return {
    root,
    start(policy, prompt, rows) {
      [run, shown, written, place] = [{ prompt, rows }, undefined, [], undefined];
      caption.replaceChildren(...captionOf(prompt));
      composition.textContent = title.title = policy;
      answer.className = 'answer';
      answer.replaceChildren('…');
      notes.textContent = readout.textContent = '';
      root.dataset.state = 'running';
      words.start(prompt, rows.length);
      canvas.hidden = true;
    },
    show(frame, tokens, final) {
      [shown, written] = [frame, tokens];
      canvas.hidden = false;
      const { value } = run!.prompt, // start comes before any frame
        right = value !== undefined && exactMatch(frame.answer, value),
        verdict = right ? 'right' : final && value !== undefined ? 'wrong' : '';
      answer.className = `answer ${verdict}`;
      answer.replaceChildren(
        make('strong', {}, frame.answer.trim() || '…'),
        ...(verdict ? [' ', make('span', { className: 'verdict' }, `is ${verdict}`)] : []),
      );
      words.show(frame, tokens);
      draw();
    },
    end({ policy, evicts, notes: told }) {
      composition.textContent = title.title = policy;
      if (!shown) answer.replaceChildren('Stopped before the first token.');
      notes.textContent = [
        ...(evicts ? [] : ['This policy evicts nothing; what it hides from a query stays in the cache.']),
        ...told,
      ].join(' ');
      root.dataset.state = 'done';
    },
    fail(message) {
      answer.replaceChildren(message);
      answer.className = 'answer failed';
      root.dataset.state = 'failed';
    },
    point(next) {
      place = next;
      draw();
    },
    tokenAt,
  };
}
