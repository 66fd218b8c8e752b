#include "base/trusted_time.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"

int64_t trusted_boot_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static char boot_id[TRUSTED_BOOT_ID];

static void read_boot_id(void) {
    OWNED_FILE FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (!f || !fgets(boot_id, TRUSTED_BOOT_ID, f))
        boot_id[0] = '\0';
    boot_id[strcspn(boot_id, "\n")] = '\0';
}

void trusted_boot_id(char ret[TRUSTED_BOOT_ID]) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_boot_id);
    memcpy(ret, boot_id, TRUSTED_BOOT_ID);
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

const char *local_time(int64_t wall_ms, const char *fmt, char *buf, size_t size) {
    const time_t t = (time_t)(wall_ms / 1000);
    struct tm tm;
    if (!localtime_r(&t, &tm) || !strftime(buf, size, fmt, &tm))
        *buf = '\0';
    return buf;
}
