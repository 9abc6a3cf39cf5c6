import type { Fate } from '@kv/engine';
import { exactMatch } from '@kv/tasks';
import { letterOf } from './choice.ts';
import { make } from './element.ts';
import { heatCanvas } from './heat-canvas.ts';
import type { CachePosition } from './heat-map.ts';
import type { End, Frame, PromptSummary, Side } from './messages.ts';
import { textMap } from './text-map.ts';
import { bytesText, countText, leftText, placeText, speedText, whyText } from './words.ts';

/** One policy's side of the page. */
export interface Panel {
  readonly root: HTMLElement;
  start(policy: string, prompt: PromptSummary, layers: number, kvHeads: number): void;
  /** Shows a frame. @param tokens texts of the answer's tokens up to it */
  show(frame: Frame, tokens: readonly string[]): void;
  end(end: End): void;
  fail(message: string): void;
  point(place: CachePosition | undefined): void;
  /** Shows why a position was dropped or kept; without fates, that this is being computed. */
  why(position: number, fates?: readonly Fate[], failed?: string): void;
}

const NUMBERS = ['Cache', 'Peak', 'Slots per head', 'Prefill', 'Decoding'] as const;
const FINISHES: Readonly<Record<string, string>> = {
  length: 'as many tokens as asked for',
  stop: '',
  eos: '',
  context: "the model's context is full",
  aborted: 'stopped',
};

/**
 * Creates a panel. @param point called with the cell under the pointer, for all sides @param ask called with the
 * position that the user wants explained
 */
export function panel(side: Side, point: (place: CachePosition) => void, ask: (position: number) => void): Panel {
  const title = make('h3', { id: `title-${side}` }),
    composition = make('p', { className: 'composition' }),
    answer = make('p', { className: 'answer' }),
    notes = make('p', { className: 'notes' }),
    readout = make('p', { className: 'readout', id: `readout-${side}` }),
    because = make('div', { className: 'why', hidden: true });
  const canvas = make('canvas', { tabIndex: 0 }),
    text = make('div', { className: 'text', tabIndex: 0 }),
    values = NUMBERS.map(() => make('dd', {}, '–'));
  for (const [name, value] of Object.entries({
    role: 'slider',
    'aria-label': 'Map of the cache',
    'aria-valuemin': '0',
    'aria-valuenow': '0',
    'aria-describedby': `title-${side}`,
  }))
    canvas.setAttribute(name, value);
  because.setAttribute('aria-live', 'polite');
  text.setAttribute('role', 'group');
  text.setAttribute('aria-label', 'The text, shaded by how many rows hold each token');
  const numbers = make(
    'dl',
    { className: 'numbers' },
    ...NUMBERS.map((name, i) => make('div', {}, make('dt', {}, name), values[i])),
  );
  const root = make(
    'article',
    { className: 'side' },
    title,
    composition,
    answer,
    numbers,
    make('div', { className: 'map' }, canvas),
    readout,
    because,
    text,
    notes,
  );
  root.setAttribute('aria-labelledby', title.id);
  let run: { prompt: PromptSummary; layers: number; kvHeads: number } | undefined,
    shown: Frame | undefined,
    said: readonly string[] = [],
    place: CachePosition | undefined,
    reasons: { readonly position: number; readonly fates?: readonly Fate[]; readonly failed?: string } | undefined;
  /** The user asked on this side: scroll its explanation into view. */
  let askedHere = false;
  const askHere = (position: number): void => {
    askedHere = true;
    ask(position);
  };
  const map = heatCanvas(canvas, point, ({ position }) => askHere(position)),
    written = textMap(text, (position) => point({ position, row: place?.row ?? 0 }), askHere);
  const tokenAt = (position: number): string | undefined => {
    if (!run) return undefined;
    const { text: prompt, offsets } = run.prompt,
      span = offsets[position];
    return span ? prompt.slice(...span) : said[position - offsets.length];
  };

  const explain = (): void => {
    because.hidden = reasons === undefined;
    if (!reasons) return;
    const { position, fates, failed } = reasons,
      own = fates?.[place?.row ?? 0];
    because.replaceChildren(
      make('p', {}, make('strong', {}, leftText(position, tokenAt(position) ?? '', fates, failed))),
      ...(own ? [make('p', {}, whyText(own))] : []),
      ...(fates && fates.length > 0
        ? [
            make(
              'details',
              { open: because.querySelector('details')?.open ?? false },
              make('summary', {}, `All ${fates.length} layers and KV heads`),
              make('ul', { tabIndex: 0 }, ...fates.map((fate) => make('li', {}, whyText(fate)))),
            ),
          ]
        : []),
    );
    if (askedHere) because.scrollIntoView({ block: 'nearest' });
    if (fates ?? failed) askedHere = false;
  };
  const draw = (): void => {
    if (!run || !shown) return;
    map.draw({ frame: shown, ...run, place });
    const token = place && tokenAt(place.position);
    const words =
      place && token !== undefined
        ? placeText(shown, place, token, run.kvHeads)
        : 'Point at a cell or a word; click for why it left or stayed.';
    readout.textContent = words;
    canvas.setAttribute('aria-valuemax', String(shown.length - 1));
    canvas.setAttribute('aria-valuenow', String(Math.min(place?.position ?? 0, shown.length - 1)));
    canvas.setAttribute('aria-valuetext', words);
    written.mark(place?.position);
  };
  return {
    root,
    start(policy, prompt, layers, kvHeads) {
      [run, shown, said, place, reasons] = [{ prompt, layers, kvHeads }, undefined, [], undefined, undefined];
      explain();
      title.textContent = `${letterOf(side)}: ${policy}`;
      composition.textContent = '';
      answer.replaceChildren('…');
      answer.className = 'answer';
      notes.textContent = readout.textContent = '';
      for (const value of values) value.textContent = '–';
      root.dataset.state = 'running';
      written.start(prompt, layers * kvHeads);
      canvas.hidden = true;
    },
    show(frame, tokens) {
      [shown, said] = [frame, tokens];
      canvas.hidden = false;
      const { bytes, peak, slots, prefillSpeed, decodeSpeed } = frame,
        { value } = run!.prompt, // start comes before any frame
        right = value !== undefined && exactMatch(frame.answer, value);
      answer.replaceChildren(make('strong', {}, frame.answer.trim() || '…'), ...(right ? [' is right'] : []));
      answer.classList.toggle('right', right);
      for (const [i, words] of [
        bytesText(bytes),
        bytesText(peak),
        countText(slots),
        speedText(prefillSpeed),
        speedText(decodeSpeed),
      ].entries()) {
        const [amount = '', unit] = words.split(' ');
        values[i].replaceChildren(amount, ...(unit ? [' ', make('small', {}, unit)] : []));
      }
      written.show(frame, tokens);
      draw();
    },
    end({ policy, evicts, finish, notes: told }) {
      composition.textContent = policy;
      const { value } = run!.prompt, // start comes before the end
        wrong = value !== undefined && shown !== undefined && !exactMatch(shown.answer, value);
      if (!shown) answer.replaceChildren('Stopped before the first token.');
      if (wrong && finish !== 'aborted') {
        answer.append(` is wrong: it is ${value}`);
        answer.classList.add('wrong');
      }
      notes.textContent = [
        ...(evicts ? [] : ['This policy evicts nothing; what it hides from a query stays in the cache.']),
        ...told,
        ...(FINISHES[finish] ? [`Ended: ${FINISHES[finish]}.`] : []),
      ].join(' ');
      root.dataset.state = 'done';
    },
    fail(message) {
      answer.replaceChildren(message);
      answer.className = 'answer wrong';
      root.dataset.state = 'failed';
    },
    point(next) {
      place = next;
      draw();
      if (reasons && next) explain();
    },
    why(position, fates, failed) {
      reasons = { position, ...(fates && { fates }), ...(failed !== undefined && { failed }) };
      explain();
    },
  };
}
