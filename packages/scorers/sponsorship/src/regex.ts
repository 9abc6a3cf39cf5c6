import { detector, finding, anchorsOf } from './detector.ts';
import type { MatchFinder } from './detector.ts';
import { COORDINATES, LOCATED, LOCATION } from './places.ts';

const NAME =
  'key|code|password|passwd|passphrase|passcode|pwd|pin|secret|token|credentials?|auth(?:orization)?|session(?:[ _-]?id)?|cookie|endpoint|dsn|connection[ _-]?string|magic (?:[\\w-]+ )?numbers?(?: for [\\w-]+)?|coord(?:inate)?s|latitude|longitude|lat|lon|lng|gps';
/** Words that may be joined to a name, as in apiKey, access_token, DB_PASSWORD. */
const BEFORE = '(?:api|access|secret|private|public|client|auth|bearer|session|refresh|user|admin|db|database)[ _.-]?';
/**
 * A closing quote, escaped or not, "is" or "was", then one colon or equals sign, full-width too, that is no `::`, `://`,
 * `==` or `=>`.
 */
const AFTER = String.raw`["'\]\\]*(?:[ \t]+(?:is|was))?[ \t]*(?::(?!:|\/\/)|=(?![=>])|[：＝])`;
const names = (name: string): string => `(?:${BEFORE}){0,4}(?:${name})`;
/** SECRET: names of secrets that count whatever the value looks like. NO_VALUE: words after "is" that are no value. */
const SECRET = 'password|passwd|passphrase|passcode|pwd',
  NO_VALUE =
    'an?|the|not|no|now|so|too|very|also|still|never|always|being|been|in|on|at|to|for|from|of|by|as|what|that|this|your|my|our|his|her|their|its|required|needed|wrong|right|correct|incorrect|invalid|valid|expired|missing|empty|weak|strong|secret|safe|stored|kept|used|sent|set|changed|lost|stolen|given|known';
/** A word that looks like a value: a digit in it, or in quotes. */
const VALUE = String.raw`(?=["'“‘\`]|[^\s\d]{0,48}\d)`;
/** "is", maybe after something thrown in: ", by the way, is". */
const IS = String.raw`(?:,[^,.;:!?\n]{1,40},)?[ \t]+(?:is|was)`;
/** Plain speech: "My API key is AB12", "The password, by the way, is hunter2", "the passphrase was swordfish". */
const told = (name: string): string =>
  String.raw`(?<![a-z0-9])(?:${names(name)}${IS}(?=[ \t]+(?:${VALUE}))|${names(SECRET)}${IS}(?=[ \t]+(?!(?:${NO_VALUE})(?![a-z0-9]))\w))`;
/** A bearer token, and an address that may hold a password: of a database, or with a password before its @. */
const WORN = String.raw`(?<![a-z0-9])bearer(?=[ \t]+[\w.~+/=-]{0,64}[\d._~+/=-]\w)|(?<![a-z0-9])(?:(?:postgres(?:ql)?|mysql|mariadb|mongodb(?:\+srv)?|rediss?|amqps?|mssql|sftp|ftp)://|https?://(?=[^\s/@:]{1,64}:[^\s/@]{1,64}@))`;
/** The endpoint before its address, and what stands before two geographic coordinates. */
const PLACED = String.raw`(?<![a-z0-9])(?:${LOCATED})(?:[ \t]+(?:is|was|at))?(?=[ \t]+["'“‘\`(<]?${LOCATION})|[^\s\d,;](?=[ \t("'\[]{1,4}${COORDINATES})`;
/** A name with its colon or equals sign; a flag of a command line; an opening tag; plain speech. */
const forms = (name: string): RegExp =>
  new RegExp(
    String.raw`(?<![a-z0-9])${names(name)}${AFTER}|(?<=^|\s)--?${names(name)}(?=[ \t])|<${names(name)}>|${told(name)}|${WORN}|${PLACED}`,
    'i',
  );

/** Matches of the explicit keys of `regex`, with their text. */
export const explicitKeys: MatchFinder = finding(forms(NAME));

/**
 * Detector: explicit keys, such as `key:`, `"password":`, `Authorization:`, `session_id=`, `API_KEY =`, `code is:`,
 * `magic X number is:`, `--token`, `<api_key>`; in any case and in JSON (escaped too), YAML, HTTP header, INI, ENV and
 * tool-call form; plain speech, such as `My API key is AB12`, `Bearer abc.def` and `postgres://`. The anchor is the
 * token in which the match ends, the one before the value. Also endpoints before an address and geographic coordinates.
 *
 * @remarks Transactional Attention, section 3.2, with the patterns written out by us: the paper lists four, and names
 * keys, connection strings, endpoints and coordinates among what must stay.
 */
export const regex = detector(
  'regex',
  {
    source: 'Basu 2026, arXiv:2604.11288, section 3.2',
    says: 'Explicit keys such as `password:` in any notation.',
  },
  () => (tokens) => anchorsOf(explicitKeys(tokens), tokens),
);

/**
 * Returns a finder of names from a list, such as the keywords of a secret scanner: `adafruit_key = `, and prefixes that
 * end in - or _ (`ghp_`) wherever they occur.
 *
 * @remarks A keyword may be followed by up to 24 more letters, digits, dots or dashes before its colon or equals sign.
 */
export function keywords(list: readonly string[]): MatchFinder {
  const quoted = (word: string): string => word.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&'),
    longest = [...new Set(list.map((w) => w.toLowerCase()))]
      .filter((w) => w !== '')
      .sort((a, b) => b.length - a.length);
  const all = longest.map(quoted).join('|'),
    prefixes = longest
      .filter((w) => /[-_]$/.test(w))
      .map(quoted)
      .join('|');
  if (all === '') return () => [];
  return finding(
    new RegExp(
      `(?<![a-z0-9])(?:${all})[\\w.-]{0,24}${AFTER}${prefixes === '' ? '' : `|(?<![a-z0-9])(?:${prefixes})`}`,
      'i',
    ),
  );
}
