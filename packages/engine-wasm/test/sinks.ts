/**
 * Draws the learned sinks of H query heads, or none: from heads without a sink in all but name to heads that give their slots
 * nothing.
 */
export const drawSinks = (H: number, draw: () => number): Float32Array | undefined =>
  draw() < 0.5
    ? undefined
    : Float32Array.from({ length: H }, () => [-3e38, -30, draw(), 4 * draw(), 7, 3e38][Math.floor(6 * draw())]);
