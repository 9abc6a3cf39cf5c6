import { reference } from '@kv/model-testing/reference';

/** The folder of a reference checkpoint. */
export const golden = (kind: string): string => reference(`data/goldens/${kind}`);
