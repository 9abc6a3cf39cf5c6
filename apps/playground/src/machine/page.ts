import '../trusted.ts';
import { readBudget, whole } from '../address.ts';
import { CACHES, DEVICES, LIMITS } from '../choice.ts';
import { element, make } from '../element.ts';
import { modelField } from '../model-field.ts';
import { keepOffline } from '../offline/register.ts';
import { policyChoice } from '../policy-choice.ts';
import { recommendedPolicies } from '@kv/policies';
import { bytesText } from '../words.ts';
import { machineFacts, type MachineFacts } from './machine-facts.ts';
import { markdown, type MarkdownTable } from './markdown.ts';
import type { FromMachine, MeasuredRow, MeasuredDevice, MeasurePlan, ToMachine } from './messages.ts';

/** Defined by vite.config.ts: the version of @kv/core. */
declare const __KV__: string;

const DEFAULT = { budget: '25%', lengths: [256, 1024, 4096], repeats: 3 } as const;
const MOST = 65_536;
const COLUMNS = [
  'Device',
  'Prompt, tokens',
  'Cache',
  'Slots a head',
  'Prefill, tokens/s',
  'Decode, tokens/s',
  'Keys and values',
];
const SLOTS = { full: 'full', kept: 'policy' } as const;
const NAMES = { cpu: 'CPU', webgpu: 'WebGPU' } as const;
/** Follows the device of a row that was measured while the page was hidden. */
const HIDDEN = ' *';

const given = new URLSearchParams(location.hash.slice(1));
const form = element('plan', HTMLFormElement),
  setup = element('setup', HTMLDetailsElement),
  modelLine = element('model-line', HTMLElement),
  budget = element('budget', HTMLInputElement),
  lengths = element('lengths', HTMLInputElement),
  device = element('device', HTMLSelectElement),
  cache = element('cache', HTMLSelectElement),
  wrong = element('wrong-plan', HTMLParagraphElement),
  measureIt = element('measure', HTMLButtonElement),
  stop = element('stop', HTMLButtonElement),
  copy = element('copy', HTMLButtonElement),
  copied = element('copied', HTMLSpanElement),
  status = element('status', HTMLParagraphElement),
  table = element('table', HTMLTableElement);
const policy = policyChoice(given.get('policy')?.slice(0, LIMITS.policy) ?? recommendedPolicies[0].policy);

let worker = startWorker();
const model = modelField({
  kinds: ['embedded', 'hub', 'file'],
  initial: given.has('hub')
    ? { kind: 'hub', name: given.get('hub')!.slice(0, LIMITS.name) } // it is there
    : { kind: 'embedded', name: '' },
  send: (message) => send({ type: 'model', message }),
  changed: () => {
    const { kind, name } = model.read();
    modelLine.textContent = kind === 'embedded' ? "The page's own model" : name || 'Choose a model';
    turn(document.body.dataset.state === 'measuring');
  },
});
element('model', HTMLDivElement).append(model.root);
element('policy-choice', HTMLDivElement).append(policy.root);
budget.value = String(readBudget(given.get('budget') ?? '') ?? DEFAULT.budget);
lengths.value = (lengthsIn(given.get('lengths') ?? '') ?? DEFAULT.lengths).join(', ');
device.value = DEVICES.find((each) => each === given.get('device')) ?? 'auto';
cache.value = CACHES.find((each) => each === given.get('cache')) ?? 'auto';
const repeats = whole(given.get('repeats'), 1, 99) ?? DEFAULT.repeats;

/** What was measured in the last run. */
interface Findings {
  readonly plan: MeasurePlan;
  readonly date: string;
  readonly machine: MachineFacts;
  readonly name: string;
  /** Its name and context, once it is loaded. */
  model: string;
  readonly devices: MeasuredDevice[];
  readonly rows: { readonly row: MeasuredRow; readonly hidden: boolean }[];
  readonly failures: string[];
  stopped: boolean;
}
let findings: Findings | undefined,
  /** Whether the page was hidden since the row that is being measured began. */
  hidden = false;

function startWorker(): Worker {
  const started = new Worker(new URL('../worker.ts', import.meta.url), { type: 'module', name: 'machine' });
  started.addEventListener('message', ({ data }: MessageEvent<FromMachine>) => receive(data));
  started.addEventListener('error', ({ message }) => {
    say(`The worker could not start: ${message || 'its file did not load'}.`, true);
    turn(false);
  });
  return started;
}
function send(message: ToMachine): void {
  worker.postMessage(message);
}

function turn(measures: boolean): void {
  document.body.dataset.state = measures ? 'measuring' : 'done';
  measureIt.disabled = measures || model.ready() === undefined;
  stop.disabled = !measures;
  copy.disabled = !findings?.rows.length;
}

/** Shows an error or what is going on; an empty text shows nothing. */
function say(words: string, isWrong = false): void {
  status.textContent = words;
  status.hidden = words === '';
  status.classList.toggle('wrong', isWrong);
}

/** Parses lengths such as `256, 1024`; undefined for anything else. */
function lengthsIn(text: string): readonly number[] | undefined {
  const all = text
    .split(/[\s;,]+/)
    .filter((part) => part !== '')
    .map((part) => whole(part, 1, MOST));
  return all.length > 0 && all.every((length) => length !== undefined) ? all : undefined;
}

/** Returns what is to be measured; undefined if a field shows why it cannot be. */
function plan(): MeasurePlan | undefined {
  const [kept, tokens] = [readBudget(budget.value), lengthsIn(lengths.value)];
  wrong.textContent =
    kept === undefined
      ? `budget: expected a share above 0% and up to 100%, or slots from 1 to ${LIMITS.slots}, got '${budget.value}'`
      : tokens === undefined
        ? `lengths: expected numbers from 1 to ${MOST} with commas between them, got '${lengths.value}'`
        : '';
  budget.setAttribute('aria-invalid', String(kept === undefined));
  lengths.setAttribute('aria-invalid', String(tokens === undefined));
  if (kept === undefined || tokens === undefined) {
    (kept === undefined ? budget : lengths).focus();
    return undefined;
  }
  if (!policy.check()) return undefined;
  return {
    lengths: tokens.toSorted((a, b) => a - b),
    policy: policy.read(),
    budget: kept,
    device: DEVICES.find((each) => each === device.value) ?? 'auto',
    cache: CACHES.find((each) => each === cache.value) ?? 'auto',
    repeats,
  };
}

async function begin(): Promise<void> {
  const [request, now] = [model.ready(), plan()];
  if (!request || !now) return;
  measureIt.disabled = true;
  const name = request.model.name || 'embedded (1.3 million parameters, 8 layers)';
  findings = {
    plan: now,
    date: new Date().toISOString().slice(0, 10),
    machine: await machineFacts(),
    ...{ name, model: name },
    devices: [],
    rows: [],
    failures: [],
    stopped: false,
  };
  copied.textContent = '';
  say('Loading the model …');
  turn(true);
  show();
  send({ type: 'measure', request, plan: now });
}

function receive(data: FromMachine): void {
  if (data.type === 'model') model.receive(data.message);
  if (data.type === 'model' || !findings) return;
  switch (data.type) {
    case 'loaded':
      findings.model = `${findings.name}, context of ${data.context.toLocaleString('en')} tokens`;
      break;
    case 'device':
      findings.devices.push(data.device);
      break;
    case 'begun':
      hidden = document.hidden;
      say(
        `Measuring ${NAMES[data.device]}, ${data.tokens.toLocaleString('en')} tokens, ${data.cache === 'full' ? 'full cache' : 'under the policy'} …`,
      );
      return;
    case 'row':
      findings.rows.push({ row: data.row, hidden });
      turn(true);
      break;
    case 'failed':
      findings.failures.push(`${NAMES[data.device]}: ${data.message}`);
      break;
    case 'done':
      say(findings.failures.join(' '), true);
      turn(false);
  }
  show();
}

const adapterText = ({ adapter, name, because }: MeasuredDevice): string =>
  adapter
    ? [
        `vendor ${adapter.vendor || 'not told'}`,
        `architecture ${adapter.architecture || 'not told'}`,
        `description ${adapter.description || 'not told'}`,
      ].join(', ')
    : `${name}${because === undefined ? '' : `, ${because}`}`;

/** Returns the findings as a table with its conditions. */
function report({
  plan: { repeats: runs, policy: policyText, budget: kept },
  date,
  machine: here,
  model: name,
  devices,
  rows,
  stopped,
}: Findings): MarkdownTable {
  const gpu = devices.find((each) => each.device === 'webgpu'),
    cpu = devices.find((each) => each.device === 'cpu');
  return {
    title: 'Prefill and decode by kv in a browser',
    facts: [
      ['browser', here.browser],
      ['adapter', gpu ? adapterText(gpu) : 'not tried'],
      ['cores', `${here.cores ?? 'not told'}${cpu ? `; the CPU engine (${cpu.name}) uses 1 thread` : ''}`],
      ['kv', __KV__],
      ['model', name],
      ['policy', `${policyText} at ${typeof kept === 'number' ? `${kept} slots` : kept}`],
      ['cache stored as', [...new Set(rows.map(({ row }) => `${row.form} (${NAMES[row.device]})`))].join(', ')],
      ['date', date],
    ],
    columns: COLUMNS,
    rows: rows.map(({ row: { device: kind, tokens, cache, slots, bytes, prefill, decode }, hidden: unseen }) => [
      `${NAMES[kind]}${unseen ? HIDDEN : ''}`,
      ...[tokens.toLocaleString('en'), SLOTS[cache], Math.round(slots).toLocaleString('en')],
      ...[rate(prefill), rate(decode), bytesText(bytes)],
    ]),
    notes: [
      `Each row is the median of ${runs} ${runs === 1 ? 'run' : 'runs'} after a warm-up over the opening of a novel: prefill until the first token, then 32 more, greedily; an eviction is part of the prefill.`,
      ...(rows.some(({ hidden: unseen }) => unseen)
        ? [`${HIDDEN.trim()} The page was hidden during this row; browsers may slow hidden pages down.`]
        : []),
      ...(stopped ? ['Stopped before the last row.'] : []),
    ],
  };
}
const rate = (perSecond: number): string => Number(perSecond.toPrecision(3)).toLocaleString('en');

function show(): void {
  if (!findings) return;
  const { facts, columns, rows, notes } = report(findings);
  element('result', HTMLElement).hidden = false;
  element('facts', HTMLElement).replaceChildren(
    ...facts.map(([name, value]) => make('div', {}, make('dt', {}, name), make('dd', {}, value))),
  );
  table.tHead?.replaceChildren(make('tr', {}, ...columns.map((name) => make('th', { scope: 'col' }, name))));
  table.tBodies[0].replaceChildren(
    ...rows.map((cells) => make('tr', {}, ...cells.map((text) => make('td', {}, text)))),
  );
  element('notes', HTMLUListElement).replaceChildren(...notes.map((note) => make('li', {}, note)));
}

form.addEventListener('submit', (event) => {
  event.preventDefault();
  void begin();
});
stop.addEventListener('click', () => {
  // in the middle of a run nothing else would stop it
  worker.terminate();
  worker = startWorker();
  if (findings) findings.stopped = true;
  say('');
  turn(false);
  show();
});
copy.addEventListener('click', () => {
  if (!findings) return;
  navigator.clipboard.writeText(markdown(report(findings))).then(
    () => {
      copied.textContent = 'Copied.';
    },
    () => {
      copied.textContent = 'The browser did not allow it; the table can be selected.';
    },
  );
});
document.addEventListener('visibilitychange', () => {
  hidden ||= document.hidden;
});

setup.open = given.has('hub');
turn(false);
void keepOffline().then((words) => {
  element('offline', HTMLSpanElement).textContent = words;
});
