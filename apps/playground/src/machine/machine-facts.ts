/** The part of user agent client hints that is used; Chromium has them. */
interface UserAgentData {
  readonly platform: string;
  getHighEntropyValues(hints: readonly string[]): Promise<{
    readonly fullVersionList?: readonly { readonly brand: string; readonly version: string }[];
  }>;
}

/** What the page can tell of the machine that it runs on. */
export interface MachineFacts {
  /** Browser, version and platform. */
  readonly browser: string;
  /** Logical cores; undefined where the browser does not tell. */
  readonly cores: number | undefined;
}

export async function machineFacts(): Promise<MachineFacts> {
  const { userAgentData, userAgent, hardwareConcurrency } = navigator as Navigator & {
    readonly userAgentData?: UserAgentData;
  };
  const versions = await userAgentData?.getHighEntropyValues(['fullVersionList']).catch(() => undefined),
    brand = brandOf(versions?.fullVersionList ?? []);
  return {
    browser:
      brand && userAgentData ? `${brand} on ${userAgentData.platform || 'an unnamed platform'}` : browserIn(userAgent),
    cores: hardwareConcurrency as number | undefined,
  };
}

/** Returns the browser's own brand: the list also has Chromium, and an invented one against sniffing. */
function brandOf(brands: readonly { readonly brand: string; readonly version: string }[]): string | undefined {
  const real = brands.filter(({ brand }) => !/not.?a.?brand/i.test(brand.replaceAll(/[^\w]/g, ' ').trim())),
    own = real.find(({ brand }) => brand !== 'Chromium') ?? real[0];
  return own && `${own.brand} ${own.version}`;
}

/** Returns the browser that a user agent names, or all of it if that is none of the known ones. */
function browserIn(userAgent: string): string {
  const [, platform = ''] = /\(([^)]*)\)/.exec(userAgent) ?? [],
    found =
      /(?<name>Firefox|Edg|OPR)\/(?<version>[\d.]+)/.exec(userAgent) ??
      /(?<name>Chrome)\/(?<version>[\d.]+)/.exec(userAgent) ??
      /Version\/(?<version>[\d.]+).*(?<name>Safari)\//.exec(userAgent);
  return found?.groups ? `${found.groups.name} ${found.groups.version} on ${platform}` : userAgent;
}
