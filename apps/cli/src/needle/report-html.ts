import type { Result } from './results.ts';
import type { Settings, Way } from './settings.ts';
import type { Row } from './summary.ts';

export interface ReportData { readonly settings: Settings; readonly ways: readonly Way[]; readonly rows: readonly Row[]; readonly results: readonly Result[] }
export const reportHtml = (_d: ReportData): string => '';
