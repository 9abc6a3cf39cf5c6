import axe from 'axe-core';
import type { Page } from 'playwright-core';

/** Returns what axe finds in the page as it is, but for moderate and minor findings. */
export async function serious(page: Page): Promise<readonly string[]> {
  await page.evaluate(axe.source);
  const { violations } = await page.evaluate(() =>
    (globalThis as unknown as { axe: typeof axe }).axe.run({ resultTypes: ['violations'] }),
  );
  return violations.flatMap(({ impact, id, nodes }) =>
    impact === 'serious' || impact === 'critical' ? [`${id}: ${nodes.map(({ html }) => html).join(' ')}`] : [],
  );
}
