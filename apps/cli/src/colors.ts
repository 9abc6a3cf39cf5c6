import pc from 'picocolors';

/** Colours for a person at a terminal only: what is piped or logged stays plain text, also where CI is set. */
export const colors: ReturnType<typeof pc.createColors> = pc.createColors(
  process.stdout.isTTY === true && !process.env.NO_COLOR,
);
