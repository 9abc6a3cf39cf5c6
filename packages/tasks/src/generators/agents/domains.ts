import type { Random } from '../../random.ts';
import { between, letters } from '../../values.ts';

/** A tool call and what came back. */
export interface AgentCall {
  readonly name: string;
  readonly arguments: Readonly<Record<string, string | number>>;
  /** JSON, log lines, a table, a page or an environment file. */
  readonly result: string;
}
/** What a user said and an agent did, before it is written out. */
export interface AgentStep {
  readonly user: string;
  /** Absent where the agent answers without a tool. */
  readonly call?: AgentCall;
  readonly agent: string;
}
/** What an agent works at. */
export type AgentDomain = 'support' | 'operations' | 'research';
type Maker = (draw: Random) => AgentStep;

const NAMES = ['Anna', 'Bernd', 'Chloe', 'Dario', 'Emil', 'Farah', 'Goran', 'Hana', 'Ines', 'Jonas', 'Kira', 'Leon'];
const GOODS = ['lamp', 'kettle', 'desk', 'mirror', 'carpet', 'clock', 'bench', 'heater', 'shelf', 'stove'];
const TOWNS = ['Graz', 'Linz', 'Turin', 'Lyon', 'Ghent', 'Porto', 'Malmo', 'Krakow', 'Bilbao', 'Trieste'];
const HOSTS = ['web', 'mail', 'cache', 'queue', 'search', 'proxy', 'batch', 'store'];
const FIELDS = ['tides', 'bees', 'glaciers', 'tunnels', 'bridges', 'orchids', 'volcanoes', 'canals', 'owls', 'dunes'];

const day = (draw: Random): string => `${between(draw, 1, 28)} ${draw.pick(['March', 'April', 'May', 'June'])}`;
const time = (draw: Random): string => `${between(draw, 10, 23)}:${between(draw, 10, 59)}`;
const host = (draw: Random): string => `${draw.pick(HOSTS)}-${between(draw, 1, 9)}`;

const support: readonly Maker[] = [
  (draw) => {
    const customer = draw.pick(NAMES),
      status = draw.pick(['paid', 'packed', 'shipped', 'delivered']),
      item = draw.pick(GOODS);
    return {
      user: `What is the state of the ${item} that ${customer} bought?`,
      call: {
        name: 'find_purchase',
        arguments: { customer, item },
        result: JSON.stringify({ purchase: between(draw, 1000, 9999), customer, item, status }),
      },
      agent: `The ${item} of ${customer} is ${status}.`,
    };
  },
  (draw) => {
    const item = draw.pick(GOODS),
      [left, price] = [between(draw, 2, 60), between(draw, 10, 400)];
    return {
      user: `How many pieces of the ${item} are left?`,
      call: {
        name: 'check_stock',
        arguments: { item },
        result: `item | left | price\n${item} | ${left} | ${price} euros`,
      },
      agent: `There are ${left} left, for ${price} euros each.`,
    };
  },
  (draw) => {
    const [customer, town] = [draw.pick(NAMES), draw.pick(TOWNS)];
    return {
      user: `Change the address of ${customer} to ${town}.`,
      call: { name: 'set_address', arguments: { customer, town }, result: JSON.stringify({ saved: true, town }) },
      agent: `${customer} now lives in ${town}.`,
    };
  },
  (draw) => {
    const [town, on] = [draw.pick(TOWNS), day(draw)];
    return {
      user: `When does the next van go to ${town}?`,
      call: {
        name: 'next_delivery',
        arguments: { town },
        result: `${on} ${time(draw)} van ${between(draw, 11, 99)} to ${town}`,
      },
      agent: `The next van to ${town} goes on ${on}.`,
    };
  },
];

const operations: readonly Maker[] = [
  (draw) => {
    const name = host(draw),
      load = between(draw, 3, 97);
    return {
      user: `How much load does ${name} have?`,
      call: { name: 'get_load', arguments: { host: name }, result: JSON.stringify({ host: name, load, up: true }) },
      agent: `It is at ${load} percent.`,
    };
  },
  (draw) => {
    const name = host(draw),
      at = time(draw),
      what = draw.pick(['timeout', 'restart', 'slow disk', 'full queue', 'lost link']);
    return {
      user: `What is the last warning of ${name}?`,
      call: {
        name: 'read_log',
        arguments: { host: name, lines: 2 },
        result: `${at}:${between(draw, 10, 59)} INFO job ${between(draw, 100, 999)} done\n${at}:${between(draw, 10, 59)} WARN ${what}`,
      },
      agent: `A ${what}, at ${at}.`,
    };
  },
  (draw) => {
    const name = host(draw),
      workers = between(draw, 2, 16);
    return {
      user: `Show the settings of ${name}.`,
      call: {
        name: 'read_file',
        arguments: { path: `/etc/${name}.env` },
        result: `PORT=${between(draw, 3000, 9000)}\nWORKERS=${workers}\nLOG_LEVEL=${draw.pick(['info', 'warn', 'debug'])}`,
      },
      agent: `${name} runs ${workers} workers.`,
    };
  },
  (draw) => {
    const name = host(draw);
    return {
      user: `Please restart ${name}.`,
      call: {
        name: 'restart',
        arguments: { host: name },
        result: JSON.stringify({ host: name, pid: between(draw, 1000, 9999) }),
      },
      agent: `${name} is running again.`,
    };
  },
];

const research: readonly Maker[] = [
  (draw) => {
    const about = draw.pick(FIELDS),
      year = between(draw, 1950, 2020);
    return {
      user: `Find a paper about ${about}.`,
      call: {
        name: 'search',
        arguments: { query: about },
        result: `https://example.org/${about}/${letters(draw, 2).toLowerCase()}${between(draw, 10, 99)} "On ${about}", ${draw.pick(NAMES)}, ${year}`,
      },
      agent: `There is one of ${year}, "On ${about}".`,
    };
  },
  (draw) => {
    const town = draw.pick(TOWNS),
      people = between(draw, 20, 900);
    return {
      user: `How many people live in ${town}?`,
      call: {
        name: 'look_up',
        arguments: { place: town, field: 'people' },
        result: `place | people | height\n${town} | ${people},000 | ${between(draw, 2, 600)} m`,
      },
      agent: `About ${people},000.`,
    };
  },
  (draw) => {
    const about = draw.pick(FIELDS),
      page = `https://example.org/${about}/${between(draw, 10, 99)}`,
      found = draw.pick(['rare', 'older than thought', 'hard to measure', 'well described', 'seldom visited']);
    return {
      user: `Open ${page} and sum it up.`,
      call: { name: 'open_page', arguments: { url: page }, result: `<title>${about}</title> They are ${found}.` },
      agent: `It says that ${about} are ${found}.`,
    };
  },
  (draw) => {
    const [who, cited] = [draw.pick(NAMES), between(draw, 3, 800)];
    return {
      user: `How often was ${who} cited?`,
      call: { name: 'count_citations', arguments: { author: who }, result: JSON.stringify({ author: who, cited }) },
      agent: `${cited} times.`,
    };
  },
];

/** What the agent does in each domain, with a tool. */
export const DOMAINS: Readonly<Record<AgentDomain, readonly Maker[]>> = { support, operations, research };

/** What is said between calls, the same in every domain. */
export const TALK: readonly Maker[] = [
  (draw) => ({ user: `Remind me of the call on ${day(draw)}.`, agent: `I will, at ${time(draw)}.` }),
  (draw) => ({ user: `Thank ${draw.pick(NAMES)} for the notes.`, agent: 'Done.' }),
  (draw) => ({ user: `Is ${draw.pick(NAMES)} in ${draw.pick(TOWNS)} this week?`, agent: 'Yes, until Friday.' }),
  () => ({ user: 'Good, what is next?', agent: 'Nothing urgent is left.' }),
];
