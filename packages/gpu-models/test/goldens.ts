/** The folder of a reference checkpoint. */
export const golden = (kind: string): string => `${process.env['KV_SHARED']}/data/goldens/${kind}`;
