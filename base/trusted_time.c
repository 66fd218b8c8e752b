#include "base/trusted_time.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"

int64_t trusted_boot_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void trusted_boot_id(char ret[TRUSTED_BOOT_ID]) {
    OWNED_FILE FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (!f || !fgets(ret, TRUSTED_BOOT_ID, f))
        ret[0] = '\0';
    ret[strcspn(ret, "\n")] = '\0';
}

bool trusted_time_look(struct trusted_time *t, int64_t boot_ms, int64_t wall_ms, int64_t keep_ms) {
    const int64_t offset = wall_ms - boot_ms, step = offset - t->offset_ms;
    if (!t->begun || step > TRUSTED_STEP_MS || step < -TRUSTED_STEP_MS)
        t->since_ms = boot_ms;
    t->begun = true;
    t->offset_ms = offset;
    t->newest_ms = wall_ms > t->newest_ms ? wall_ms : t->newest_ms;
    return boot_ms - t->since_ms >= (keep_ms < TRUSTED_STEADY_MS ? keep_ms : TRUSTED_STEADY_MS);
}
