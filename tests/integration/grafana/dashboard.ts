/* test_dashboard.py puts the dashboard in the place of DASHBOARD. A value of an enum is written as its text in JSON. */
import type { Dashboard } from '@grafana/schema';

type Plain<T> = T extends string
  ? `${T}`
  : T extends Array<infer U>
    ? Plain<U>[]
    : T extends object
      ? { [K in keyof T]: Plain<T[K]> }
      : T;

export const dashboard: Plain<Dashboard> = DASHBOARD;
