#include "formats/civil.h"

bool civil_is_date(int year, int month, int day) {
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return year >= 1 && year <= 9999 && month >= 1 && month <= 12 && day >= 1 && day <= days[month - 1] + (month == 2 && leap);
}

int civil_month(const char *name) {
    static const char months[] = "janfebmaraprmayjunjulaugsepoctnovdec";
    for (int m = 0; m < 12; m++)
        if (!strncasecmp(name, months + 3 * m, 3))
            return m + 1;
    return 0;
}

double civil_seconds(const struct civil *at) {
    struct tm tm = {
        .tm_year = at->year - 1900, .tm_mon = at->month - 1, .tm_mday = at->day, .tm_hour = at->hour, .tm_min = at->minute};
    return (double)timegm(&tm) + at->second;
}

/* A number of exactly n digits; moves *at. −1 when there are none. */
static int digits(const char **at, int n) {
    int value = 0;
    for (int i = 0; i < n; i++, ++*at) {
        if (**at < '0' || **at > '9')
            return -1;
        value = 10 * value + (**at - '0');
    }
    return value;
}

static bool skip(const char **at, const char *any_of) {
    if (!**at || !strchr(any_of, **at))
        return false;
    ++*at;
    return true;
}

/* Seconds that a zone is ahead of UTC; none is 0. */
static bool take_zone(const char **at, double *ret) {
    bool behind = **at == '-';
    *ret = 0;
    if (skip(at, "Zz") || !skip(at, "+-"))
        return true;
    int hours = digits(at, 2);
    (void)skip(at, ":");
    int minutes = digits(at, 2);
    *ret = (behind ? -60.0 : 60.0) * (60 * hours + minutes);
    return hours >= 0 && hours <= 14 && minutes >= 0 && minutes <= 59;
}

bool civil_parse(const char *text, double *ret_seconds) {
    const char *at = text + strspn(text, " \t");
    struct civil c = {0};
    double zone_s = 0;
    if ((c.year = digits(&at, 4)) < 0 || !skip(&at, "-/") || (c.month = digits(&at, 2)) < 0 || !skip(&at, "-/") ||
        (c.day = digits(&at, 2)) < 0 || !skip(&at, " Tt") || (c.hour = digits(&at, 2)) < 0 || !skip(&at, ":") ||
        (c.minute = digits(&at, 2)) < 0 || !civil_is_date(c.year, c.month, c.day) || c.hour > 23 || c.minute > 59)
        return false;
    if (skip(&at, ":")) {
        char number[24];
        size_t n = strspn(at, "0123456789.");
        if (n < 2 || !str_format(number, sizeof number, "%.*s", (int)n, at) || !str_to_f64(number, &c.second) || c.second >= 61)
            return false;
        at += n;
    }
    if (!take_zone(&at, &zone_s) || at[strspn(at, " \t")])
        return false;
    *ret_seconds = civil_seconds(&c) - zone_s;
    return true;
}

bool civil_has_zone(const char *text) {
    const char *clock = strchr(text, ':');
    return clock && strpbrk(clock, "Zz+-");
}
