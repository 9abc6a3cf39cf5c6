import pc from 'picocolors';

/** Colours, only on a terminal: piped or logged output stays plain, also with CI set. */
export const colors: ReturnType<typeof pc.createColors> = pc.createColors(
  process.stdout.isTTY === true && !process.env.NO_COLOR,
);
