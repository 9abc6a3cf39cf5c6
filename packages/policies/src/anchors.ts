import { checkWord } from '@kv/core';
import { embedding, learned, regex, semantic, sponsorship as vouch, structure as mark } from '@kv/scorers-sponsorship';
import type { Detector, SponsorshipOptions } from '@kv/scorers-sponsorship';

/** What finds anchors, by name. */
export type Anchors = 'regex' | 'semantic' | 'embedding' | 'learned';
const DETECTORS: Readonly<Record<Anchors, Detector>> = { regex, semantic, embedding: embedding(), learned: learned() };
/** The detector of that name. @throws KvError, in the name of `where`, for another name. */
function detector(where: string, name: Anchors): Detector {
  checkWord(where, 'anchors', name, Object.keys(DETECTORS) as Anchors[]);
  return DETECTORS[name];
}

/** `sponsorship` of `@kv/scorers-sponsorship`, with its detector by name, as labels print it. */
export const sponsorship = ({
  anchors = 'regex',
  ...rest
}: Omit<SponsorshipOptions, 'anchors'> & { readonly anchors?: Anchors } = {}): ReturnType<typeof vouch> =>
  vouch({ ...rest, anchors: detector('sponsorship', anchors) });
/** `structure` of `@kv/scorers-sponsorship`, with its detector by name. */
export const structure = ({ anchors = 'regex' }: { readonly anchors?: Anchors } = {}): ReturnType<typeof mark> =>
  mark({ anchors: detector('structure', anchors) });
