import type { Tokens } from '@kv/core';
import { detector, finding } from './detector.ts';
import type { Anchor, PatternMatch } from './detector.ts';
import { isPlain, isSecretValue, looksNumbered, looksRandom, nameKind } from './name-kind.ts';
import type { NameKind } from './name-kind.ts';
import { COORDINATES, LOCATED, LOCATION } from './places.ts';
import { tableCells } from './table-cells.ts';
import { bareValue, matchAt, tokenBefore, valueAfter } from './value-extent.ts';
import type { Detail, Extent } from './value-extent.ts';

/** Secrets; what the speaker or a tool names; what only looks made up. */
const SECRET = 1,
  NAMED = 0.8,
  SHAPED = 0.6,
  /** Part of its worth that a value has which was found before. */
  AGAIN = 0.25;

// What is looked for. Every repetition in a pattern is bounded, so a search is linear in the text.

/** A key in any notation, with its colon or equals sign: no `::`, `://`, `==` or `=>`. */
const KEY = finding(
  /(?<![\w.-])[A-Za-z_$][\w.:$-]{0,63}["'\]\\]{0,4}[ \t]{0,40}(?<![:=])(?::(?![:/=])|:?=(?![=>~])|[：＝])|(?<=[?&;])[A-Za-z][\w.-]{0,31}=|(?<=^|\s)--?[a-z][\w-]{1,40}(?=[ \t]+[^\s-])|<[A-Za-z][\w.:-]{1,40}>(?=[^<\s]{4})|(?<![\w-])(?:[A-Z][a-z]+-){1,4}[A-Za-z]+:(?=[ \t])/,
);
/** A scheme with a password before its @. */
const ADDRESS = finding(/(?<![\w+])[a-z][a-z0-9+.-]{1,20}:\/\/(?=[^\s/@:"']{0,64}:[^\s/@"']{1,128}@)/i);
/** Geographic coordinates, and one of them with its name. */
const PLACE = finding(
  new RegExp(
    String.raw`(?<![\w.+-]|\d[,; \t][ \t]?)${COORDINATES}|(?<![a-z])(?:lat(?:itude)?|lon(?:gitude)?|lng)["'\]\\]{0,4}(?:[ \t]?[:=：＝]|[ \t]is)[ \t]?(?=[-+]?\d{1,3}\.\d{3})`,
    'i',
  ),
);
/** The name of an endpoint, before its address. */
const ENDPOINT = finding(
  new RegExp(
    String.raw`(?<![a-z])(?:${LOCATED})["'\]\\]{0,4}(?:[ \t]?[:=：＝]|[ \t]{1,4}(?:is|was|at))?[ \t]{0,4}(?=["'“‘\`(<]?${LOCATION})`,
    'i',
  ),
);
/** A word with a digit near its beginning: what has a number. */
const NUMBERED = finding(
  /(?<![\w-])(?:#\d{3,20}|(?=[A-Za-z_-]{0,40}\d)[A-Za-z0-9](?:[A-Za-z0-9_-]|[/:](?=\w)){2,199})/,
);
/** A run of base64 that + or / may cut into words. */
const BASE64 = finding(/(?<![\w+/=-])(?=[A-Za-z0-9+]{0,60}[+/])[A-Za-z0-9+/]{24,200}/);
/** Beginnings of keys and tokens by which their issuers mark them. */
const ISSUED = finding(
  /(?<![A-Za-z0-9_])(?:hf_|gh[oprsu]_|github_pat_|gl[a-z]{2,6}-|sk-|[spr]k_(?:live|test)_|xox[abeprs]-|npm_|dckr_[a-z]{2,3}_|SWMTKN-|hv[bsr]\.|d[op]_v1_|dp\.[a-z]{2,5}\.|dt0[a-z]\d\d\.|NRAK-|LTAI|A3T|A[KS]IA|AIza|shp[a-z]{2}_|shpat_|pypi-|SG\.|whsec_|AGE-SECRET-KEY-|eyJ[\w-]{8})(?=[\w./+=|-]{12})/,
);
/** Words after which a speaker says a secret. */
const SPOKEN = finding(
  /(?<![\p{L}\p{N}_])(?:password|passwd|pass(?: ?)phrase|passcode|pwd|pw|pin|(?:api|access|secret|private|licen[cs]e|wi-?fi|security|master|activation|signing) ?key|(?:access|api|bearer|auth|refresh|session)? ?token|(?:(?:signing|client|shared|webhook) ){0,3}secret|bearer|credentials|safe ?word|(?:(?<!-)[a-z][a-z-]{0,39} )?code|combination|keypad|(?:recovery|seed) phrase)(?![\p{L}\p{N}_]|-\w)/iu,
);

/** Names whose value may be words, in quotes. */
const WORDED = /^pass|phrase$|word$|^pwd?$|combination/i;
/** What may stand between a spoken name and its value, besides words such as "for the router". */
const LINK =
  /^(?:[ \t]*[,:(=–—-]{0,2}[ \t]*(?:is|was|are|be|to|will|should|now|currently|of|as|reads|says|again|number|it|just|came|in|here|the|my|your|this|following)(?![\p{L}\p{N}'’]))*[ \t]*[:=(,–—-]?[ \t]*(?=\S)/iu;
/** A longer way to the value: "the door code at the cottage is". */
const FAR = /^[^.!?\n:;"]{1,48}?(?:(?:(?<![\p{L}])(?:is|was|to|be)[ \t]|[:=(])[ \t]*(?=\S)|,[ \t]+(?=\d{3,12}\b))/u;
const ABOUT =
  /^[ \t_-]*(?:s|limit|limits|type|count|usage|length|size|price|budget|field|policy|manager|reset|per|window|names?|parameter|holder|protection|authentication)(?![\p{L}])/iu;

/** Nouns of things that have numbers, and the words between such a noun and its number. */
const NOUN =
  'order|ticket|invoice|booking|reservation|confirmation|case|claim|tracking|shipment|parcel|account|customer|member(?:ship)?|subscription|incident|issue|transaction|payment|charge|refund|receipt|voucher|purchase(?: order)?|PO|RMA|IBAN|BIC|VIN|IMEI|PNR|ISBN|serial|passport|licen[cs]e|job|build|run|commit|session|request|message|document|file|patient|container|device|meter|asset|docket|pull request|merge request|PR|bug|vehicle|(?:gift |credit |loyalty )?card|record locator|locator|reference|ref|purpose|number|no\\.|nr\\.|id|identification|code|device|user|employee|digest|token|key|txn|tx|trace|correlation|upload|msg|sha|revision|checkout';
const NAMES = new RegExp(
  `(?:^|[^\\p{L}\\p{N}])(?:${NOUN})[ \\t_]{0,2}(?:(?:number|no\\.?|nr\\.?|id|code|ref\\.?|reference|key|locator|on|of|as|the|your|my|is|was|are|reads|says|under|now|number's|it|has|with|file|card|back|router|at|desk|called|quote|please|wants?|you|want|to|be|back of the|use|from)(?![\\p{L}])|[\\s,:;=#"'*_\\[–—]|(?<=\\s)[(-]){0,12}$`,
  'iu',
);
/** The same where the noun says by itself that a number of any length follows. */
const SURE =
  /(?:number|no\.?|nr\.?|id|#|ref(?:erence)?|IBAN|serial)[\s:=#"'(*_[]*(?:is|was|reads|says)?[\s:=#"'(*_[]*$/iu;
/** A noun far from its number: "ticket number for the broken gate is:". */
const NAMES_FAR = new RegExp(
  `(?:^|[^\\p{L}\\p{N}])(?:${NOUN})[ \\t](?:(?:number|no\\.?|nr\\.?|id|code|ref\\.?|reference)[ \\t])?(?:for|of|on|at|from|with|to|about)[ \\t][^.!?\\n:;,"]{1,48}?(?:(?<![\\p{L}])(?:is|was|are|reads)[ \\t]*:?|:)[\\s"'*_]{0,4}$`,
  'iu',
);
/** A noun that comes after the number: "under X4Y7, the record locator". */
const FOLLOWED = new RegExp(`^["')]?,[ \\t](?:the|your|my|our) (?:[a-z]+ )?(?:${NOUN})(?![\\p{L}])`, 'iu');
const UNIT =
  /^[ \t]*(?:%|°|[€$£]|(?:EUR|USD|GBP|people|persons?|men|women|days?|weeks?|months?|years?|hours?|minutes?|seconds?|times?|points?|pages?|tokens?|items?|files?|rows?|errors?|warnings?|lines?|houses?|kcal|cals?|words?|visitors?|guests?|miles?|metres?|meters?|feet|units?|copies|orders|tickets|cases|requests|calls|ms|s|m|h|kg|g|km|cm|mm|l|ml|MB|GB|KB)(?![\p{L}\p{N}]))/iu;

/** What is recognised by itself: machine-made names and tokens of known issuers. */
const SHAPE =
  /^(?:[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|[0-9a-f]{32,128}|(?:sha256|sha512|sha1|md5):[0-9a-f]{16,128}|eyJ[\w-]{8,}\.[\w-]{4,}.*|(?:A3T|AKIA|ASIA|ABIA|ACCA|AIza)\w{12,}.*|(?=\w*\d)[A-Za-z]{2,12}(?:[_-][A-Za-z]{2,8}){0,2}[_-](?=\w*\d)[A-Za-z0-9]{12,}.*|[A-Z]{2,12}-\d{2,10}(?:-\d{2,10})*|[A-Z]{2,6}\d{5,12}|(?:[A-Z0-9]{4,6}-){2,7}[A-Z0-9]{4,6}|(?!(?:19|20)\d\d-)(?=(?:\D*\d){4})(?=[^A-Z]*[A-Z])\d[A-Z0-9]{1,5}(?:-[A-Z0-9]{2,8}){1,4}|1Z[A-Z0-9]{16}|#\d{4,12})$/;
/** The names of standards, models and formats, which have the shape of a number and are none. */
const STANDARD =
  /^(?:ISO|IEC|RFC|UTF|SHA|MD|AES|RSA|TS|ES|HTTP|TLS|PEP|COVID|GPT|CVE-\d{4}$|ECMA|EN|DIN|ANSI|IEEE|MP|H|CP|LATIN|WINDOWS|BASE|X)-?\d/i;

/** Finds the details that a match of a finder leads to. */
type Reads = (text: string, match: PatternMatch) => readonly Detail[];

/** Characters of a secret by which it is judged, and of the number of a thing at most. */
const LONGEST_JUDGED = 512,
  LONGEST_NUMBER = 256;
/** The type of a variable before its value: `password: String = "..."`. */
const TYPED = /[ \t]{0,4}&?[A-Za-z][\w.]{0,24}[ \t]{0,4}=(?=[ \t]{0,4}["'])/y;
const keyed: Reads = (text, { start, text: said }) => {
  const name = said.replace(/^[-<]+|[^\w]+$/g, ''),
    end = start + said.length;
  const listed = elements(text, end),
    kind = nameKind(listed.length > 0 ? name.replace(/s$/i, '') : name);
  if (kind === undefined) return [];
  if (listed.length > 0) return listed.flatMap((value) => named(text, name, kind, value));
  const inAddress = /[?&;]/.test(text[start - 1] ?? '') && said.endsWith('='),
    typed = matchAt(TYPED, text, end).length,
    longest = kind === 'secret' || kind === 'key' ? LONGEST_JUDGED : LONGEST_NUMBER,
    near = valueAfter(text, end + typed, longest),
    value = inAddress ? upTo(text, near, /[&#;]/) : near,
    isWhole = value[1] - value[0] < longest - 1;
  if (!isWhole && longest === LONGEST_NUMBER) return [];
  const found = /(?<![a-z])(?:an?|per|each)[ \t]$/i.test(text.slice(Math.max(0, start - 6), start))
    ? []
    : named(text, name, kind, value);
  return isWhole ? found : found.map(({ worth }) => ({ worth, value: valueAfter(text, end + typed) }));
};
/** Returns a value that has a name, unless it looks like none. */
function named(text: string, name: string, kind: NameKind, value: Extent): readonly Detail[] {
  const content = text.slice(...value);
  if (kind === 'secret' || kind === 'key') {
    const quoted = isQuoted(text, value);
    return isSecretValue(content, kind, quoted, /pass|pwd?$|secret|phrase|pin$/i.test(name)) &&
      (quoted || isAssigned(text, value))
      ? [{ value, worth: SECRET }]
      : [];
  }
  return looksNumbered(content, kind === 'id' ? 3 : 4) && !UNIT.test(text.slice(value[1], value[1] + 16))
    ? [{ value, worth: NAMED }]
    : [];
}
const isQuoted = (text: string, [start]: Extent): boolean => /["'`“‘«]/.test(text[start - 1] ?? '');
/** Most elements of a list that are read. */
const MOST_ELEMENTS = 64;
const ELEMENT = /[ \t\n]{0,8},?[ \t\n]{0,16}(?:\\*["'])?([^"',[\]{}\s\\]{1,200})(?:\\*["'])?(?=[ \t\n]{0,8}[,\]])/y;
/** Returns the elements of a list of texts or numbers that begins at an offset. */
function elements(text: string, at: number): readonly Extent[] {
  const found: Extent[] = [];
  let end = at + matchAt(/[ \t]*\[/y, text, at).length;
  if (end === at) return found;
  while (found.length < MOST_ELEMENTS) {
    ELEMENT.lastIndex = end;
    const [whole, element] = ELEMENT.exec(text) ?? [];
    if (whole === undefined || element === undefined) break;
    const start = end + whole.indexOf(element);
    found.push([start, start + element.length]);
    end += whole.length;
  }
  return found;
}
/** Whether what follows a key without quotes is its whole value, as in a file or a header, or has digits. */
const isAssigned = (text: string, [from, to]: Extent): boolean =>
  /\d/.test(text.slice(from, to)) || /^[ \t]*(?:[\n,;&)}\]'"`.#]|$)/.test(text.slice(to, to + 8));

function upTo(text: string, [from, to]: Extent, end: RegExp): Extent {
  const cut = text.slice(from, to).search(end);
  return [from, cut < 0 ? to : from + cut];
}

/** An address with a password is a value as a whole: who needs it has to repeat all of it. */
const address: Reads = (text, { start }) => {
  const value = bareValue(text, start);
  return /:\/\/[^\s/@:]{0,64}:(?![$<{%])/.test(text.slice(...value)) ? [{ value, worth: SECRET }] : [];
};

const place: Reads = (text, { start, text: said }) => [
  { value: /^[a-z]/i.test(said) ? bareValue(text, start + said.length) : bareValue(text, start), worth: NAMED },
];
const endpoint: Reads = (text, { start, text: said }) => [
  { value: valueAfter(text, start + said.length), worth: NAMED },
];

const spoken: Reads = (text, { start, text: said }) => {
  const end = start + said.length,
    after = text.slice(end, end + 96);
  if (ABOUT.test(after)) return [];
  const near = end + (LINK.exec(after)?.[0].length ?? 0),
    far = end + (FAR.exec(after)?.[0].length ?? 0);
  for (const at of near === far ? [near] : [near, far]) {
    if (at === end) continue;
    const value = valueAfter(text, at, LONGEST_JUDGED),
      content = text.slice(...value),
      quoted = isQuoted(text, value);
    if (content === '' || UNIT.test(text.slice(value[1], value[1] + 16))) continue;
    const digits = content.replace(/\D/g, '').length,
      pure = /^#?\d+#?$/.test(content);
    if (
      pure ? digits >= 4 && digits <= 12 : digits > 0 && content.length >= 6 && isSecretValue(content, 'secret', quoted)
    )
      return [{ value, worth: SECRET }];
    const link = text.slice(end, at);
    if (at !== near) continue;
    if (/[:=][ \t]*$/.test(link) && /^[A-Z]{5,24}$/.test(content)) return [{ value, worth: SECRET }];
    if (quoted && WORDED.test(said) && /^\S.{3}/.test(content) && /[:=]|is|was|to/.test(link))
      return [{ value, worth: SECRET }];
  }
  return [];
};

const numbered: Reads = (text, { start, text: said }) => {
  let value = bareValue(text, start, 512);
  const core = said.replace(/[-/:_]+$/, '');
  if (/[/=:&?+~.]/.test(text.slice(...value)) || value[1] < start + core.length) value = runFrom(text, start);
  const content = text.slice(...value);
  if (!isPlain(content) || STANDARD.test(content)) return [];
  if (SHAPE.test(content) && !isColour(text, start, content)) return [{ value, worth: SHAPED }];
  const before = text.slice(Math.max(0, start - 96), start),
    line = before.slice(before.lastIndexOf('\n') + 1),
    clause = line.slice(sentenceStart(line)),
    after = text.slice(value[1], value[1] + 40);
  const isNamed =
    FOLLOWED.test(after) ||
    NAMES.test(clause) ||
    NAMES_FAR.test(clause) ||
    (/[#(]$/.test(clause) && NAMES.test(clause.replace(/[#(]$/, '')));
  if (isNamed && !UNIT.test(after) && looksNumbered(content, SURE.test(clause) || content.startsWith('#') ? 3 : 4)) {
    const year = /^(?:1[5-9]|20)\d\d$/.test(content) && !SURE.test(clause);
    if (!year) return [{ value, worth: NAMED }];
  }
  if (
    /\/$/.test(line) &&
    ((looksRandom(content) && /^\w{8,}$/.test(content)) || /^\d{5,}$/.test(content)) &&
    !/\d{4}\/$/.test(line)
  )
    return [{ value, worth: NAMED }];
  return looksMadeUp(content) ? [{ value, worth: SHAPED }] : [];
};
const issued: Reads = (text, { start }) => {
  const [run = ''] = /^[\w./+=|-]+/.exec(text.slice(start, start + 4096)) ?? [],
    value = run.replace(/[./|-]+$/, '');
  return /EXAMPLE-EXAMPLE|[xX*]{6}/.test(value) || !/[A-Z\d]/.test(value)
    ? []
    : [{ value: [start, start + value.length], worth: SECRET }];
};
const encoded: Reads = (text, { start, text: said }) => {
  const [run = ''] = /^[A-Za-z0-9+/]+={0,2}/.exec(text.slice(start, start + 4096)) ?? [];
  return looksMadeUp(said.replace(/[+/]/g, '')) ? [{ value: [start, start + run.length], worth: SHAPED }] : [];
};
/** Letters of both cases, or capitals, mixed with digits: no word. */
const looksMadeUp = (value: string): boolean =>
  looksRandom(value) &&
  ((/^[A-Z0-9]{6,}$/.test(value) && (value.match(/[A-Z](?=\d)|\d(?=[A-Z])/g) ?? []).length >= 2) ||
    (value.length >= 16 &&
      /^[\w+/=.-]+$/.test(value) &&
      (value.match(/[a-z](?=[A-Z\d])|[A-Z\d](?=[a-z])|\d(?=[A-Z])/g) ?? []).length * 4 >= value.length));
/** Returns where the last sentence of a line begins; "no. 12" and "a.b" end none. */
function sentenceStart(line: string): number {
  for (let at = line.length - 1; at >= 0; at--)
    if (
      /[!?;]/.test(line[at]) ||
      (/^\.\s/.test(line.slice(at, at + 2)) && !/(?:^|\W)(?:no|nr|ref|num)$/i.test(line.slice(Math.max(0, at - 4), at)))
    )
      return at + 1;
  return 0;
}
const isColour = (text: string, start: number, content: string): boolean =>
  content.startsWith('#') && /:\s*$/.test(text.slice(Math.max(0, start - 4), start));
/** Returns the run of letters, digits and signs of a machine-made name from an offset. */
function runFrom(text: string, start: number): Extent {
  const [run = ''] = /^#?[\w-]+(?:[.:](?=\w{16})[\w-]+)*/.exec(text.slice(start, start + 4096)) ?? [];
  return [start, start + run.replace(/[-_]+$/, '').length];
}

/** Characters after a match that say whether it is one. */
const LOOKAHEAD = 256;
/** Returns the details that each match of a finder leads to; a match is read once, when its value has ended. */
function reading(
  find: (tokens: Tokens) => readonly PatternMatch[],
  reads: Reads,
): (tokens: Tokens) => readonly Detail[] {
  const known = new WeakMap<PatternMatch, readonly Detail[]>();
  return (tokens) => {
    const { text } = tokens;
    let past = 0;
    return find(tokens).flatMap((match) => {
      if (match.start < past) return []; // within a value
      const found = of(match, text);
      past = Math.max(past, ...found.map(({ value }) => value[1]));
      return found;
    });
  };
  function of(match: PatternMatch, text: string): readonly Detail[] {
    const before = known.get(match);
    if (before) return before;
    const found = reads(text, match),
      read = Math.max(match.start + match.text.length + LOOKAHEAD, ...found.map(({ value }) => value[1]));
    if (read < text.length) known.set(match, found);
    return found;
  }
}
const readers = [
  reading(KEY, keyed),
  reading(ADDRESS, address),
  reading(PLACE, place),
  reading(ENDPOINT, endpoint),
  reading(SPOKEN, spoken),
  reading(NUMBERED, numbered),
  reading(BASE64, encoded),
  reading(ISSUED, issued),
  tableCells,
];

/** Returns the details of a text in its order: where two overlap, the one of more worth, or the longer. */
export function detailsOf(tokens: Tokens): readonly Detail[] {
  const all = readers
    .flatMap((read) => read(tokens))
    .sort((a, b) => a.value[0] - b.value[0] || b.value[1] - a.value[1]);
  const apart: Detail[] = [];
  for (const one of all) {
    const last = apart.at(-1);
    if (!last || one.value[0] >= last.value[1]) apart.push(one);
    else
      apart[apart.length - 1] = {
        ...((last.title ?? one.title) && { title: (last.title ?? one.title)! }),
        value: [last.value[0], Math.max(last.value[1], one.value[1])],
        worth: Math.max(last.worth, one.worth),
      };
  }
  return apart;
}

/**
 * Detector: what must come back letter by letter: credentials, numbers of orders, tickets and accounts, ids and secrets
 * in JSON, logs, tables, URLs, environment files and HTTP headers, addresses of endpoints, geographic coordinates, and
 * what only a machine makes up (UUIDs, hashes, keys of known issuers). The anchor is the token before the value. Secrets
 * are worth most, then what has a name, then what has only a shape; a value that was there before is worth a quarter.
 *
 * @remarks Ours, in addition to the paper's detectors: Transactional Attention lists four patterns, all keys. Placeholders,
 * references to variables, dates, quantities and versions are no values. Linear in the text, and incremental.
 */
export const details = detector(
  'details',
  {
    source: 'ours',
    says: 'Credentials, numbers of orders and tickets, and ids in JSON, logs, tables, URLs and environment files.',
  },
  () => {
    const known = new WeakMap<Tokens, { readonly size: number; readonly anchors: readonly Anchor[] }>();
    return (tokens) => {
      const before = known.get(tokens);
      if (before?.size === tokens.text.length) return before.anchors;
      const anchors = anchorsIn(tokens);
      known.set(tokens, { size: tokens.text.length, anchors });
      return anchors;
    };
  },
);
/** Longest last word, in characters, that may be the beginning of a value. */
const LONGEST_START = 256;
/** Returns details as anchors, and the word that the text ends in: in a block of a prompt it may be half of a value. */
function anchorsIn(tokens: Tokens): readonly Anchor[] {
  const { text, offsets } = tokens,
    seen = new Set<string>(),
    found = detailsOf(tokens),
    last = text.length - matchAt(/\S*$/g, text.slice(-LONGEST_START), 0).length,
    open: readonly Detail[] =
      last < text.length && (found.at(-1)?.value[1] ?? 0) < text.length
        ? [{ value: [last, text.length], worth: NAMED }]
        : [];
  return [...found, ...open].map(({ value, title, worth }): Anchor => {
    const content = text.slice(...value),
      again = seen.has(content);
    seen.add(content);
    return {
      position: tokenBefore(value[0], offsets),
      value,
      ...(title && { title }),
      worth: again ? worth * AGAIN : worth,
    };
  });
}
