/* trusted_time: how far the machine's clocks can be trusted. Anybody can set the wall clock, by years; the clock that runs from the
 * boot of the machine cannot be set and goes on while the machine sleeps, but begins anew with each boot. Ages are measured by the
 * second one together with the id of the boot, and what is deleted because it is old is deleted only while the wall clock is
 * steady. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TRUSTED_BOOT_ID = 37, TRUSTED_STEP_MS = 3600 * 1000, TRUSTED_STEADY_MS = 24 * 3600 * 1000 };

int64_t trusted_boot_ms(void);                   /* since the boot of the machine; any thread */
void trusted_boot_id(char ret[TRUSTED_BOOT_ID]); /* of this boot; "" = unknown; any thread */

/* The clocks as one owner has read them so far; the owner zeroes the struct before its first look. */
struct trusted_time {
    int64_t since_ms;  /* since the boot: when the owner began, or when the wall clock was stepped */
    int64_t offset_ms; /* wall clock minus time since the boot, at the newest look */
    int64_t newest_ms; /* the newest wall time seen */
    bool begun;
};
/* A look at both clocks, at least once an hour. True if things may be deleted that are older than keep_ms by the wall clock: it has
 * not been stepped by more than TRUSTED_STEP_MS for keep_ms, so that all that was there before a step is truly so old, or for
 * TRUSTED_STEADY_MS, in which people set a wrong clock right. */
bool trusted_time_look(struct trusted_time *t, int64_t boot_ms, int64_t wall_ms, int64_t keep_ms);

/* ---- for people ---- */

#define LOCAL_TIME "%Y-%m-%d %H:%M:%S %Z" /* "2026-01-31 13:00:00 CET" */
/* The time in the zone of this machine, as strftime's format says, or "" if no calendar has it. Returns buf. */
const char *local_time(int64_t wall_ms, const char *fmt, char *buf, size_t size);
