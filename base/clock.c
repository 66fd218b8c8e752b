#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct timespec now(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return t;
}

static int64_t milliseconds(struct timespec t) { return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000; }

double clock_s(void) {
    struct timespec t = now(CLOCK_MONOTONIC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int64_t clock_ms(void) { return milliseconds(now(CLOCK_MONOTONIC)); }

int64_t clock_wall_ms(void) { return milliseconds(now(CLOCK_REALTIME)); }

const char *clock_utc(int64_t wall_ms, const char *fmt, char *buf, size_t size) {
    const time_t t = (time_t)(wall_ms / 1000);
    struct tm tm;
    if (!gmtime_r(&t, &tm) || !strftime(buf, size, fmt, &tm))
        *buf = '\0';
    return buf;
}

void clock_cond_init(pthread_cond_t *cond) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

struct timespec clock_after_ms(int64_t ms) {
    struct timespec t = now(CLOCK_MONOTONIC);
    int64_t ns = t.tv_nsec + ms % 1000 * 1000000;
    t.tv_sec += ms / 1000 + ns / 1000000000;
    t.tv_nsec = ns % 1000000000;
    return t;
}

bool clock_zone_known(void) {
    const char *zone = getenv("TZ"), *folder = getenv("TZDIR");
    char path[512];
    if (!zone || !*zone)
        return true;
    const bool named = *zone == ':', rule = strpbrk(zone, "0123456789<,") && *zone != '/';
    zone += named;
    const int len = *zone == '/' ? snprintf(path, sizeof path, "%s", zone)
                                 : snprintf(path, sizeof path, "%s/%s", folder ? folder : "/usr/share/zoneinfo", zone);
    return !strcmp(zone, "UTC") || (len > 0 && (size_t)len < sizeof path && !access(path, R_OK)) ||
           (rule && !named && !memchr(zone, '/', strcspn(zone, ",")));
}
