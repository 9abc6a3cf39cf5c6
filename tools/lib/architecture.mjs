const [WIDTH, HEIGHT, GAP, RISE] = [150, 34, 16, 90];
const PIECES = 'pieces';

/** Returns the box of a package: its name, or the one box of all families of pieces. */
const boxOf = ({ folder, manifest: { name } }) =>
  /^packages\/(scorers|transforms|allocators|selectors|units|demotions)\//.test(folder)
    ? PIECES
    : name.replace('@kv/', '');

/** Returns what each box builds on, highest box first, without dependencies implied by others. */
function graphOf(packages) {
  const boxes = new Map(packages.map((one) => [one.manifest.name, boxOf(one)])),
    graph = new Map([...boxes.values()].sort().map((box) => [box, new Set()]));
  for (const { manifest } of packages)
    for (const name of Object.keys({ ...manifest.dependencies, ...manifest.optionalDependencies })) {
      const [from, to] = [boxes.get(manifest.name), boxes.get(name)];
      if (to !== undefined && to !== from) graph.get(from).add(to);
    }
  const reach = (box) => new Set([...graph.get(box)].flatMap((other) => [other, ...reach(other)]));
  return new Map(
    [...graph].map(([box, on]) => {
      const further = new Set([...on].flatMap((other) => [...reach(other)]));
      return [box, [...on].filter((other) => !further.has(other))];
    }),
  );
}

/** Draws packages as SVG, each above everything it builds on. */
export function architecture(packages) {
  const graph = graphOf(packages),
    level = (box) => Math.max(-1, ...graph.get(box).map(level)) + 1,
    top = Math.max(...[...graph.keys()].map(level));
  const rows = Array.from({ length: top + 1 }, (_, up) => [...graph.keys()].filter((box) => level(box) === top - up)),
    width = Math.max(...rows.map(({ length }) => length)) * (WIDTH + GAP) + GAP,
    height = rows.length * RISE - RISE + HEIGHT + 2 * GAP;
  const place = new Map(
    rows.flatMap((row, y) =>
      row.map((box, x) => [box, [((x + 0.5) * width) / row.length - WIDTH / 2, GAP + y * RISE]]),
    ),
  );
  const lines = [...graph].flatMap(([box, on]) =>
    on.map((other) => {
      const [[x1, y1], [x2, y2]] = [place.get(box), place.get(other)];
      return `<line x1="${x1 + WIDTH / 2}" y1="${y1 + HEIGHT}" x2="${x2 + WIDTH / 2}" y2="${y2}" stroke="#868e96"/>`;
    }),
  );
  const count = packages.filter((one) => boxOf(one) === PIECES).length;
  const boxed = [...place].map(
    ([box, [x, y]]) =>
      `<rect x="${x}" y="${y}" width="${WIDTH}" height="${HEIGHT}" rx="4" fill="${box === PIECES ? '#d0ebff' : '#f1f3f5'}" stroke="#495057"/>\n` +
      `<text x="${x + WIDTH / 2}" y="${y + 21}" text-anchor="middle">${box === PIECES ? `${count} packages of pieces` : box}</text>`,
  );
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" font-family="sans-serif" font-size="11">
<title>Packages of kv; a line leads down to what a package builds on</title>
<rect width="100%" height="100%" fill="#fff"/>
${[...lines, ...boxed].join('\n')}
</svg>
`;
}
