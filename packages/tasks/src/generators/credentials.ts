import { fit } from '../fit.ts';
import type { NewProblem, Material } from '../material.ts';
import { proseFrom } from '../sentences.ts';
import type { Random } from '../random.ts';
import { TOPICS } from '../topics.ts';
import { between, code, distinct, letters } from '../values.ts';

/** Depths that alternate between problems, spaced as in the papers. */
const DEPTHS = [0.1, 0.3, 0.5, 0.7, 0.9];
export const depthOf = (trial: number): number => DEPTHS[trial % DEPTHS.length];

interface Hidden {
  readonly text: string;
  readonly depth: number;
}

/** Makes a problem of statements hidden between sentences of prose, and a question. */
export function hide(
  what: string,
  { encode, sentences, tokens, draw }: Material,
  statements: readonly Hidden[],
  asked: Pick<NewProblem, 'question' | 'answers' | 'maxNewTokens'> & Partial<NewProblem>,
): NewProblem {
  const from = draw.below(sentences.length),
    { context, question } = fit(what, encode, { tokens, maxNewTokens: asked.maxNewTokens }, (size) => {
      return { context: atDepths(proseFrom(what, sentences, from, size), statements), question: asked.question };
    });
  return { grader: 'any', ...asked, context, question };
}

/** Puts each statement at the sentence boundary nearest to its share of the prose. */
export function atDepths(prose: readonly string[], statements: readonly Hidden[]): string {
  let length = 0;
  const ends = [0, ...prose.map((sentence) => (length += sentence.length + 1))];
  const slots = ends.map((): string[] => []);
  for (const { text, depth } of statements) {
    const far = ends.map((end) => Math.abs(end - depth * length));
    slots[far.indexOf(Math.min(...far))].push(text);
  }
  return slots.flatMap((texts, i) => [...texts, ...prose.slice(i, i + 1)]).join(' ');
}

/** CrystalCache, appendix B: a fact at the start, then mentions that name its topic (`high`) or do not (`low`). */
export const association =
  (density: 'high' | 'low') =>
  (material: Material): NewProblem => {
    const { fact, question, name } = material.draw.pick(TOPICS),
      value = String(between(material.draw, 1000, 9999)),
      mention = (i: number): string =>
        density === 'high'
          ? `Report ${i + 1} on ${name} was filed without remarks.`
          : `Report ${i + 1} was filed without remarks.`;
    return hide(
      'association',
      material,
      [
        { text: fact.replace('{v}', value), depth: 0 },
        ...Array.from({ length: 8 }, (_, i) => ({ text: mention(i), depth: (i + 1) / 9 })),
      ],
      { question: `\nQuestion: ${question}\nAnswer:`, answers: [value], maxNewTokens: 50 },
    );
  };

/** A tool call passes a credential; a later call needs it. */
export const credentials =
  (length: 12 | 32) =>
  (material: Material): NewProblem => {
    const value = code(material.draw, length);
    return hide(
      'tool',
      material,
      [{ text: `The agent called connect(auth_token="${value}").`, depth: depthOf(material.trial) }],
      {
        question: '\nThe agent called connect(auth_token="',
        answers: [value],
        grader: 'exact',
        maxNewTokens: 2 * length,
        stop: ['"'],
      },
    );
  };

/** Text and question of a value in each format; a stack trace names the location of an error. */
const FORMATS: readonly (readonly [name: string, text: string, question: string, stop: string])[] = [
  [
    'tool call',
    'Call: open_session(region="north", api_key="{v}", retries=3).',
    '\nCall: open_session(region="north", api_key="',
    '"',
  ],
  [
    'HTTP',
    '\nGET /v1/items HTTP/1.1\nHost: example.org\nAuthorization: Bearer {v}\nAccept: */*\n',
    '\nAuthorization: Bearer',
    '\n',
  ],
  [
    'stack trace',
    '\nTraceback (most recent call last):\n  File "app.py", line 12, in load\nLookupError: no such session {v}\n',
    '\nLookupError: no such session',
    '\n',
  ],
  ['INI', '\n[service]\nhost = example.org\napi_key = {v}\nretries = 3\n', '\napi_key =', '\n'],
  [
    'JSON',
    '\n{"host": "example.org", "api_key": "{v}", "retries": 3}\n',
    '\n{"host": "example.org", "api_key": "',
    '"',
  ],
  ['YAML', '\nservice:\n  host: example.org\n  api_key: {v}\n  retries: 3\n', '\n  api_key:', '\n'],
  ['ENV', '\nHOST=example.org\nAPI_KEY={v}\nRETRIES=3\n', '\nAPI_KEY=', '\n'],
];

/** A credential in a tool call, HTTP headers, a stack trace, INI, JSON, YAML and shell variables, in turn. */
export function formats(material: Material): NewProblem {
  const { draw, trial } = material,
    [, text, question, stop] = FORMATS[trial % FORMATS.length],
    value = code(draw, 12);
  return hide(
    'formats',
    material,
    [{ text: text.replace('{v}', value), depth: depthOf(Math.floor(trial / FORMATS.length)) }],
    { question, answers: [value], grader: 'exact', maxNewTokens: 24, stop: [stop] },
  );
}

export const PLACES = [
  'Paris',
  'Rome',
  'London',
  'Berlin',
  'Madrid',
  'Vienna',
  'Lisbon',
  'Oslo',
  'Cairo',
  'Tokyo',
  'Delhi',
  'Lima',
];

/** Asks for one code among decoys of the same form under other names. */
export const confusers =
  (decoys: 5 | 10) =>
  (material: Material): NewProblem => {
    const { draw, trial } = material,
      [asked, ...others] = draw.sample(PLACES, decoys + 1),
      values = distinct(decoys + 1, () => code(draw, 8)),
      said = (place: string, i: number): string => `The ${place} code is: ${values[i]}.`;
    return hide(
      'confusers',
      material,
      [
        { text: said(asked, 0), depth: depthOf(trial) },
        ...others.map((place, i) => ({ text: said(place, i + 1), depth: draw.next() })),
      ],
      {
        question: `\nThe ${asked} code is:`,
        answers: [values[0]],
        grader: 'exact',
        maxNewTokens: 16,
        stop: ['.', '\n'],
      },
    );
  };

/** Asks for an API key, an endpoint and a token at separate places. */
export function slots(material: Material): NewProblem {
  const { draw } = material,
    [key, endpoint, token] = [
      code(draw, 12),
      `https://${letters(draw, 6).toLowerCase()}.example.org/v1`,
      code(draw, 10),
    ];
  return hide(
    'slots',
    material,
    [
      { text: `The API key is: ${key}.`, depth: 0.2 },
      { text: `The endpoint is: ${endpoint}.`, depth: 0.5 },
      { text: `The auth token is: ${token}.`, depth: 0.8 },
    ],
    {
      question: '\nQuestion: What are the API key, the endpoint and the auth token?\nAnswer: They are',
      answers: [key, endpoint, token],
      grader: 'all',
      maxNewTokens: 96,
    },
  );
}

const INJECTED = ['password', 'api_key', 'secret', 'session_id', 'auth_token', 'Authorization'];

/** One credential that matters, and twelve injected lines that only resemble one. */
export function anchors(material: Material): NewProblem {
  const { draw, trial } = material,
    value = code(draw, 8),
    fake = (draw: Random, i: number): Hidden => ({
      text: `${INJECTED[i % INJECTED.length]}: ${letters(draw, 8).toLowerCase()}.`,
      depth: draw.next(),
    });
  return hide(
    'anchors',
    material,
    [
      ...Array.from({ length: 12 }, (_, i) => fake(draw, i)),
      { text: `The secret code is: ${value}.`, depth: depthOf(trial) },
    ],
    { question: '\nThe secret code is:', answers: [value], grader: 'exact', maxNewTokens: 16, stop: ['.', '\n'] },
  );
}
