import { detector, finding, anchorsOf } from './detector.ts';
import type { MatchFinder } from './detector.ts';
import { explicitKeys } from './regex.ts';

/** Verbs, in all their forms, by which a speaker passes something on or asks to keep it. */
const VERBS =
  'sa(?:id|ys?|ying)|t(?:old|ells?|elling)|remember(?:s|ed|ing)?|recall(?:s|ed)?|remind(?:s|ed)?|memori[sz]e[sd]?|not(?:e[sd]?|ing)|mention(?:s|ed)?|repl(?:y|ies|ied)|answer(?:s|ed)?|announce[sd]?' +
  "|report(?:s|ed)?|state[sd]?|inform(?:s|ed)?|confirm(?:s|ed)?|reveal(?:s|ed)?|wr(?:ote|ites?|itten)(?: down)?|gave|given|keep in mind|(?:do not|don['’]t|never) forget";
/** The person addressed and the thing said: "me", "to the team", "that", "this number", "my code is". */
const TO = '(?: (?:to )?(?:me|you|him|her|us|them|everyone|(?:the|my|your|our) team))?',
  WHAT = '(?: that)?(?: (?:this|these|the|my|your|our|his|her|their)(?: [a-z]+)?)?(?: (?:is|was|are))?';

/** Matches of communication verbs, with the person and thing that they name. */
export const communication: MatchFinder = finding(
  new RegExp(String.raw`(?<![\p{L}\p{N}])(?:${VERBS})(?!['’\p{L}\p{N}])${TO}${WHAT}(?:[,:]["“']?)?`, 'iu'),
);

/**
 * Detector: explicit keys and communication verbs: "she told me: 4711", "remember this number 4711", "Anna said that
 * the code was 4711". The anchor is the token in which the phrase ends.
 *
 * @remarks Transactional Attention, section 3.2, which names said, told and remember; the other verbs and the phrases
 * after them are ours. In a novel every "said" is an anchor.
 */
export const semantic = detector(
  'semantic',
  {
    source: 'Basu 2026, arXiv:2604.11288, section 3.2',
    says: 'Explicit keys, and verbs by which something is said.',
  },
  () => (tokens) => anchorsOf([...explicitKeys(tokens), ...communication(tokens)], tokens),
);
