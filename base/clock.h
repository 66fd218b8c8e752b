/* clock: the machine's clocks. The monotonic clock measures durations and times waits, since nobody can set it; the wall clock
 * gives dates for people and other machines. Any thread. */
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

double clock_s(void);        /* monotonic, seconds */
int64_t clock_ms(void);      /* monotonic, milliseconds */
int64_t clock_wall_ms(void); /* milliseconds since 1970-01-01 UTC */
/* The time in UTC as strftime's format says, or "" if no calendar has it. Returns buf. */
const char *clock_utc(int64_t wall_ms, const char *fmt, char *buf, size_t size);
#define CLOCK_ISO "%Y-%m-%dT%H:%M:%SZ" /* "2026-01-31T12:00:00Z" */
/* False if the environment's TZ names a time zone that this machine does not have, so that local times are those of UTC: a name
 * without a file, and no rule such as CET-1CEST. */
bool clock_zone_known(void);

/* For timed waits: initialise a condition variable that uses the monotonic clock, and compute the deadline `ms` from now for
 * pthread_cond_timedwait on it. */
void clock_cond_init(pthread_cond_t *cond);
struct timespec clock_after_ms(int64_t ms);
