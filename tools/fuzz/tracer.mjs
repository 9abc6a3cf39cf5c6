/** Functions that instrumented code calls to count and to compare; `compared` receives what a comparison looked for. */
export function tracer(incrementCounter, compared = () => {}) {
  const operators = {
    // As in the traced code.
    // biome-ignore lint/suspicious/noDoubleEquals: the operator is the code's
    '==': (a, b) => a == b,
    '===': (a, b) => a === b,
    // biome-ignore lint/suspicious/noDoubleEquals: the operator is the code's
    '!=': (a, b) => a != b,
    '!==': (a, b) => a !== b,
    '<': (a, b) => a < b,
    '<=': (a, b) => a <= b,
    '>': (a, b) => a > b,
    '>=': (a, b) => a >= b,
  };
  const compare = (a, b, operator) => operators[operator](a, b);
  return {
    coverageTracker: { incrementCounter },
    tracer: {
      traceStrCmp(a, b, operator) {
        compared(a);
        compared(b);
        return compare(a, b, operator);
      },
      traceNumberCmp: compare,
      traceAndReturn(_, wanted) {
        compared(wanted);
        return wanted;
      },
    },
  };
}
