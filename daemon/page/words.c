#include "daemon/page/words.h"

#include "base/trusted_time.h"
#include "plot/svg.h"

const char *words_bytes(struct words *w, int64_t bytes) {
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    double value = (double)bytes;
    int unit = 0;
    while (value >= 1000 && unit < 5) {
        value /= 1000;
        unit++;
    }
    if (bytes < 0)
        str_copy(w->text, sizeof w->text, "unknown");
    else
        str_format(w->text, sizeof w->text, value < 10 && unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return w->text;
}

const char *words_duration(struct words *w, int64_t s) {
    s = s > 0 ? s : 0;
    if (s < 60)
        str_format(w->text, sizeof w->text, "%lld s", (long long)s);
    else if (s < 3600)
        str_format(w->text, sizeof w->text, "%lld min %lld s", (long long)(s / 60), (long long)(s % 60));
    else if (s < 86400)
        str_format(w->text, sizeof w->text, "%lld h %lld min", (long long)(s / 3600), (long long)(s / 60 % 60));
    else
        str_format(w->text, sizeof w->text, "%lld d %lld h", (long long)(s / 86400), (long long)(s / 3600 % 24));
    return w->text;
}

const char *words_timer(struct words *w, int64_t s) {
    svg_time(w->text, sizeof w->text, s > 0 ? (double)s : 0, 1);
    return w->text;
}

const char *words_number(struct words *w, double value, const char *absent) {
    if (!isfinite(value))
        str_copy(w->text, sizeof w->text, absent);
    else if (fabs(value) >= 1000 && fabs(value) < 1e15)
        str_format(w->text, sizeof w->text, "%.0f", value);
    else
        str_format(w->text, sizeof w->text, "%.4g", value);
    return w->text;
}

const char *words_p(struct words *w, float p) {
    if (isfinite(p))
        str_format(w->text, sizeof w->text, "%.2f", (double)p);
    else
        str_copy(w->text, sizeof w->text, "–");
    return w->text;
}

const char *words_seconds(struct words *w, double seconds) {
    str_format(w->text, sizeof w->text, seconds < 10 ? "%.1f s" : "%.0f s", seconds > 0 ? seconds : 0);
    return w->text;
}

static const char *or_unknown(struct words *w, const char *text) {
    if (!*text)
        str_copy(w->text, sizeof w->text, "unknown");
    return w->text;
}

const char *words_time(struct words *w, int64_t wall_ms) {
    return or_unknown(w, clock_utc(wall_ms, CLOCK_ISO, w->text, sizeof w->text));
}

const char *words_clock(struct words *w, int64_t wall_ms) {
    return or_unknown(w, local_time(wall_ms, LOCAL_TIME, w->text, sizeof w->text));
}

static void put_time(struct html *h, int64_t wall_ms, const char *kind) {
    struct words w, c;
    if (wall_ms <= 0)
        html_put(h, "–");
    else
        html_put(h, "<time class=\"%s\" datetime=\"%s\">%s</time>", kind, words_time(&w, wall_ms), words_clock(&c, wall_ms));
}

void words_put_time(struct html *h, int64_t wall_ms) { put_time(h, wall_ms, "whole"); }
void words_put_short_time(struct html *h, int64_t wall_ms) { put_time(h, wall_ms, "hm"); }
