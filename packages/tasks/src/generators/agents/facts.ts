import type { Random } from '../../random.ts';
import { code, letters } from '../../values.ts';
import type { AgentStep } from './domains.ts';

/** What an agent is told early. */
export type AgentFactKind = 'credential' | 'order' | 'instruction';
/** A fact before its turn is known. */
export interface ToldFact {
  readonly kind: AgentFactKind;
  /** Number of the wording among those of its kind. */
  readonly wording: number;
  readonly value: string;
  readonly step: AgentStep;
  /** What is asked at the end: text that the model goes on writing with the value. */
  readonly question: string;
}

type Wording = (value: string) => { readonly step: AgentStep; readonly asked: string; readonly begun: string };

const NOTED = 'Noted.';
/** What ends before its value, which the value follows in quotes, after a space or at once. */
const said = (user: string): AgentStep => ({ user, agent: NOTED });

const CREDENTIAL: readonly Wording[] = [
  (value) => ({
    step: said(`For later: The password of the vault is: ${value}`),
    asked: 'What was the password of the vault?',
    begun: 'The password of the vault is:',
  }),
  (value) => ({
    step: said(`The API key of our printer is ${value}, keep it.`),
    asked: 'What was the API key of our printer?',
    begun: 'The API key of our printer is',
  }),
  (value) => ({
    step: {
      user: 'Show the settings of the archive.',
      call: {
        name: 'read_file',
        arguments: { path: '/etc/archive.env' },
        result: `ARCHIVE_USER=clerk\nARCHIVE_TOKEN=${value}\nARCHIVE_MODE=daily`,
      },
      agent: 'The archive runs daily.',
    },
    asked: 'Which line of the settings of the archive has the token?',
    begun: 'ARCHIVE_TOKEN=',
  }),
  (value) => ({
    step: {
      user: 'Open a session with the bank.',
      call: {
        name: 'open_session',
        arguments: { with: 'bank' },
        result: `{"bank":"North","session_key":"${value}","open":true}`,
      },
      agent: 'The session is open.',
    },
    asked: 'What was the session key of the bank?',
    begun: '{"bank":"North","session_key":"',
  }),
];
const ORDER: readonly Wording[] = [
  (value) => ({
    step: said(`I bought a piano. Your order number is ${value}, they wrote.`),
    asked: 'What was the order number of my piano?',
    begun: 'Your order number is',
  }),
  (value) => ({
    step: said(`My ticket number for the broken gate is: ${value}`),
    asked: 'What was my ticket number for the broken gate?',
    begun: 'Your ticket number for the broken gate is:',
  }),
  (value) => ({
    step: {
      user: 'Order a piano for me.',
      call: {
        name: 'place_order',
        arguments: { item: 'piano' },
        result: `{"item":"piano","order_id":"${value}","accepted":true}`,
      },
      agent: 'The piano is ordered.',
    },
    asked: 'What was the order id of my piano?',
    begun: '{"item":"piano","order_id":"',
  }),
  (value) => ({
    step: {
      user: 'Report the broken gate.',
      call: {
        name: 'open_ticket',
        arguments: { about: 'gate' },
        result: `INFO gate reported\nINFO gate ticket=${value} created`,
      },
      agent: 'The gate is reported.',
    },
    asked: 'Which line of the log has the ticket of the gate?',
    begun: 'INFO gate ticket=',
  }),
];
const INSTRUCTION: readonly Wording[] = [
  (value) => ({
    step: said(`From now on, end every letter with the words "${value}".`),
    asked: 'With which words do you end every letter?',
    begun: 'I end every letter with the words "',
  }),
  (value) => ({
    step: said(`Always send the weekly report to the group "${value}".`),
    asked: 'Where do you always send the weekly report?',
    begun: 'I always send the weekly report to the group "',
  }),
  (value) => ({
    step: said(`Never call the team anything but "${value}".`),
    asked: 'What do you call the team?',
    begun: 'I never call the team anything but "',
  }),
];

const COLOURS = ['amber', 'silver', 'violet', 'scarlet', 'golden', 'ivory', 'copper', 'crimson', 'purple', 'green'];
const ANIMALS = ['falcon', 'otter', 'badger', 'heron', 'tiger', 'dolphin', 'rabbit', 'eagle', 'beaver', 'turtle'];

const VALUES: Readonly<Record<AgentFactKind, (draw: Random) => string>> = {
  credential: (draw) => code(draw, draw.pick([8, 10, 12])),
  order: (draw) => draw.pick([...'123456789']) + letters(draw, 7, [...'0123456789']),
  instruction: (draw) => `${draw.pick(COLOURS)} ${draw.pick(ANIMALS)}`,
};
const WORDINGS: Readonly<Record<AgentFactKind, readonly Wording[]>> = {
  credential: CREDENTIAL,
  order: ORDER,
  instruction: INSTRUCTION,
};

/** Draws a fact in one of its wordings. */
export function fact(draw: Random, kind: AgentFactKind): ToldFact {
  const wording = draw.below(WORDINGS[kind].length),
    value = VALUES[kind](draw),
    { step, asked, begun } = WORDINGS[kind][wording](value);
  return { kind, wording, value, step, question: `User: ${asked}\nAgent: ${begun}` };
}
