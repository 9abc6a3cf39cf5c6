import { LIMITS, type ModelChoice } from './choice.ts';
import { make } from './element.ts';
import { ownModel, type FromModels, type ModelRequest, type ToModels, type HubRequest } from './model-messages.ts';
import { bytesText } from './words.ts';

/** The field in which a model is chosen, and downloaded if a person says so. */
export interface ModelField {
  readonly root: HTMLElement;
  /** Returns the chosen model; undefined while it is not on this machine, or none is chosen. */
  ready(): ModelRequest | undefined;
  /** The choice as it is, whether it can be loaded or not. */
  read(): ModelChoice;
  receive(message: FromModels): void;
  /** Shows an error about the model in its place; an empty text shows none. */
  refuse(message: string): void;
}

/** What a model field starts from. */
interface ModelFieldParts {
  /** What can be chosen, in this order. */
  readonly kinds: readonly ModelChoice['kind'][];
  readonly initial: ModelChoice;
  readonly send: (message: ToModels) => void;
  /** Called when another model was chosen, or the chosen one came to this machine. */
  readonly changed: () => void;
}

/** The chat model that `kv chat` suggests (apps/cli/src/model-source.ts), with what the hub says of its download. */
export const CHAT_MODEL = { name: 'HuggingFaceTB/SmolLM2-135M-Instruct', bytes: 269e6, license: 'apache-2.0' } as const;

const LABELS: Readonly<Record<ModelChoice['kind'], string>> = {
  embedded: "The page's own",
  hub: 'One of the Hugging Face hub',
  file: 'A GGUF file of this disk',
};
const HINTS: Readonly<Record<'embedded' | 'file', string>> = {
  embedded: '1.3 million parameters in 8 layers, trained by this project to repeat codes; a part of this page.',
  file: 'Read where it lies and sent nowhere; a model in several parts needs all of them.',
};

type Size = Extract<FromModels, { type: 'absent' }>;

/** Formats the size of a download in powers of ten, as the hub does. */
const sizeText = (bytes: number): string =>
  bytes < 1e9 ? `${Math.max(1, Math.round(bytes / 1e6))} MB` : `${(bytes / 1e9).toFixed(1)} GB`;

export function modelField({ kinds, initial, send, changed }: ModelFieldParts): ModelField {
  const radios = kinds.map((kind) => make('input', { type: 'radio', name: 'model', value: kind })),
    repository = make('input', {
      id: 'hub',
      maxLength: LIMITS.name,
      placeholder: 'org/name',
      autocomplete: 'off',
      spellcheck: false,
      value: initial.kind === 'hub' ? initial.name : CHAT_MODEL.name,
    }),
    files = make('input', { type: 'file', id: 'file', accept: '.gguf', multiple: true }),
    about = make('p', { className: 'about', id: 'about-model' }),
    bar = make('progress', { hidden: true }),
    fetchIt = make('button', { type: 'button', id: 'fetch' }),
    halt = make('button', { type: 'button', id: 'halt', hidden: true }, 'Pause the download'),
    forget = make('button', { type: 'button', id: 'forget', hidden: true }, 'Delete what is kept'),
    wrong = make('p', { className: 'wrong', id: 'wrong-model' });
  wrong.setAttribute('role', 'alert');
  about.setAttribute('role', 'status');
  bar.setAttribute('aria-label', 'Download');
  repository.setAttribute('autocapitalize', 'off');
  const hubRow = make('p', {}, make('label', { htmlFor: repository.id }, 'Repository '), repository),
    fileRow = make('p', {}, make('label', { htmlFor: files.id }, 'GGUF file '), files);

  /** The repository that this browser keeps, and what is known of one that it does not keep. */
  let kept: string | undefined, size: Size | undefined;

  const kind = (): ModelChoice['kind'] =>
      kinds[
        Math.max(
          0,
          radios.findIndex(({ checked }) => checked),
        )
      ],
    hubName = (): string => repository.value.trim();
  const read = (): ModelChoice => {
    if (kind() === 'hub') return { kind: 'hub', name: hubName() };
    return { kind: kind(), name: kind() === 'file' ? (files.files?.[0]?.name ?? '') : '' };
  };
  /** What is known of the size and licence of the chosen repository. */
  const known = (): Pick<Size, 'bytes' | 'license'> =>
    size?.name === hubName() && size.bytes !== undefined ? size : hubName() === CHAT_MODEL.name ? CHAT_MODEL : {};

  const show = (): void => {
    const chosen = kind(),
      { bytes, license } = known(),
      isKept = kept === hubName();
    hubRow.hidden = chosen !== 'hub';
    fileRow.hidden = chosen !== 'file';
    bar.hidden = halt.hidden = true;
    forget.hidden = chosen !== 'hub' || !isKept;
    fetchIt.hidden = chosen !== 'hub' || isKept || hubName() === '';
    fetchIt.textContent = bytes === undefined ? 'Look up its size' : `Download ${sizeText(bytes)}`;
    if (chosen !== 'hub') about.textContent = HINTS[chosen];
    else if (hubName() === '') about.textContent = 'A public repository, as org/name or org/name:Q4_K_M.';
    else if (isKept) about.textContent = `${hubName()} is kept in this browser.`;
    else if (bytes === undefined)
      about.textContent = `${hubName()} is not in this browser; a look at huggingface.co tells its size and licence.`;
    else
      about.textContent = `${hubName()}: ${sizeText(bytes)}, licence ${license ?? 'not named'}. It comes from huggingface.co once, and this browser keeps it.`;
  };
  const find = (wanted: HubRequest): void => {
    if (hubName() !== '') send({ type: 'find', name: hubName(), wanted });
  };
  const choose = (): void => {
    wrong.textContent = '';
    show();
    if (kind() === 'hub') find('nothing');
    changed();
  };
  for (const radio of radios) radio.addEventListener('input', choose);
  repository.addEventListener('change', choose);
  repository.addEventListener('input', show);
  files.addEventListener('change', choose);
  fetchIt.addEventListener('click', () => {
    wrong.textContent = '';
    find(known().bytes === undefined ? 'size' : 'download');
    fetchIt.hidden = true;
    about.textContent = `Asking huggingface.co for ${hubName()} …`;
    halt.hidden = false;
    halt.focus();
  });
  halt.addEventListener('click', () => {
    send({ type: 'halt' });
    fetchIt.focus();
  });
  forget.addEventListener('click', () => send({ type: 'forget' }));
  for (const [i, each] of kinds.entries()) radios[i].checked = each === initial.kind;
  show();
  if (kind() === 'hub') find('nothing');

  return {
    root: make(
      'fieldset',
      { className: 'model' },
      make('legend', { className: 'unseen' }, 'Model'),
      make('div', { className: 'row' }, ...kinds.map((each, i) => make('label', {}, radios[i], ` ${LABELS[each]}`))),
      hubRow,
      fileRow,
      make('p', { className: 'row' }, about, fetchIt, halt, forget),
      bar,
      wrong,
    ),
    read,
    ready() {
      const model = read(),
        chosen = [...(files.files ?? [])];
      if (model.kind === 'hub' && (model.name === '' || kept !== model.name)) return undefined;
      if (model.kind === 'file' && chosen.length === 0) return undefined;
      return { model, own: ownModel(), chosen };
    },
    receive(message) {
      if (message.type === 'progress') {
        const { file, done, total, secondsLeft } = message.progress;
        [bar.max, bar.value] = [total, done];
        bar.hidden = halt.hidden = false;
        fetchIt.hidden = true;
        about.textContent = `Downloading ${file}: ${bytesText(done)} of ${bytesText(total)}${secondsLeft === undefined ? '' : `, ${Math.ceil(secondsLeft)} s left`}.`;
        return;
      }
      if (message.type === 'forgotten') kept = undefined;
      else if (message.name !== hubName()) return;
      else if (message.type === 'kept') kept = message.name;
      else if (message.type === 'absent') size = message.bytes === undefined ? size : message;
      else wrong.textContent = message.message;
      show();
      if (message.type === 'kept' || message.type === 'forgotten') changed();
    },
    refuse(message) {
      wrong.textContent = message;
    },
  };
}
